"""Ops and programs whose sizes depend on values or on options that no other table has, and what they taught."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ops
import programs
import torch
import torch.nn.functional as F
from ops import X, bf16, const, f16, f64, ints, mask, x
from programs import adamw, classes, mlp, two_steps
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint


def table(rows: dict[str, tuple[Callable[..., Any], *tuple[X, ...]]]) -> None:
    ops.table({f"fourth: {name}": row for name, row in rows.items()})


def program(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return programs.program(f"fourth: {name}")


# ---- losses with options --------------------------------------------------------------------------------------------
def ctc(steps: int, batch: int, length: int, **options: Any) -> Callable[[Tensor, Tensor], Tensor]:
    sizes = ((steps,) * batch, (length,) * batch)
    return lambda t, y: F.ctc_loss(t.log_softmax(-1), y, *sizes, **options)


table(
    {
        "ctc of many steps": (ctc(300, 7, 33), x(300, 7, 61), ints(60, 7, 33)),
        "ctc of many steps, zero infinity": (ctc(301, 5, 20, zero_infinity=True), x(301, 5, 100), ints(99, 5, 20)),
        "ctc of each sample": (ctc(70, 3, 9, reduction="none"), x(70, 3, 30), ints(29, 3, 9)),
        "ctc of concatenated targets in float64": (ctc(200, 4, 25), x(200, 4, 45, dtype=f64), ints(44, 100)),
        "poisson_nll full": (lambda a, b: F.poisson_nll_loss(a, b, full=True), x(77, 301), const(77, 301)),
        "kl_div of logarithms": (
            lambda a, b: F.kl_div(a.log_softmax(1), b.log_softmax(1), reduction="batchmean", log_target=True),
            x(65, 333),
            x(65, 333),
        ),
        "triplet with a distance": (
            lambda a, p, n: F.triplet_margin_with_distance_loss(
                a, p, n, distance_function=lambda u, v: 1 - F.cosine_similarity(u, v), swap=True
            ),
            x(91, 67),
            x(91, 67),
            x(91, 67),
        ),
        "multi_margin with weights, squared": (
            lambda a, y, w: F.multi_margin_loss(a, y, p=2, weight=w),
            x(129, 45),
            ints(45, 129),
            const(45),
        ),
        "adaptive softmax": (
            lambda h, y, w, a, b, c, d: torch.cat(
                (F.linear(h, w), F.linear(F.linear(h, a), b), F.linear(F.linear(h, c), d)), 1
            ).log_softmax(1),
            x(97, 64),
            ints(300, 97),
            x(52, 64),
            x(16, 64),
            x(150, 16),
            x(4, 64),
            x(100, 4),
        ),
        "cross_entropy of probabilities, smoothed, half": (
            lambda a, p: F.cross_entropy(a, p.softmax(1), label_smoothing=0.1),
            x(63, 401, dtype=f16),
            x(63, 401, dtype=f16),
        ),
        "cross_entropy of volumes with an ignored class": (
            lambda a, y: F.cross_entropy(a, y, ignore_index=2),
            x(3, 7, 9, 21, 17),
            ints(7, 3, 9, 21, 17),
        ),
    }
)

# ---- masks, counts and places ---------------------------------------------------------------------------------------
table(
    {
        "masked_select of a broadcast mask": (lambda a, m: a.masked_select(m), x(33, 21, 65), mask(21, 1)),
        "masked_select of rows of half": (lambda a, m: a.masked_select(m), x(513, 65, dtype=f16), mask(513, 65)),
        "index by a mask of rows": (lambda a, m: a[m], x(301, 77), mask(301)),
        "index by a mask of columns": (lambda a, m: a[:, m], x(77, 301), mask(301)),
        "assigned where a mask is": (lambda a, m, b: a.clone().index_put((m,), b), x(301, 77), mask(301), x(77)),
        "nonzero as a tuple": (lambda m: m.nonzero(as_tuple=True), mask(67, 33, 5)),
        "argwhere of a transposed mask": (lambda m: torch.argwhere(m.T), mask(301, 77)),
        "unique with the inverse": (lambda i: torch.unique(i, return_inverse=True), ints(40, 3001)),
        "unique with counts": (lambda i: torch.unique(i, return_counts=True), ints(40, 3001)),
        "unique with both": (lambda i: torch.unique(i, return_inverse=True, return_counts=True), ints(40, 50, 71)),
        "unique of floats": (torch.unique, const(7001)),
        "cumprod over rows": (lambda a: a.cumprod(0), x(333, 65)),
        "cumprod of one column": (lambda a: a.cumprod(1), x(333, 1)),
        "cumprod in bfloat16": (lambda a: a.cumprod(-1), x(65, 7, 129, dtype=bf16)),
        "vander of many powers": (lambda a: torch.linalg.vander(a, N=17), x(3, 111)),
        "masked_scatter of a broadcast mask": (
            lambda a, m, b: a.masked_scatter(m, b),
            x(33, 301),
            mask(301),
            x(40, 301),
        ),
        "normal of a number and a tensor": (lambda s: torch.normal(0.0, s), const(301, 77, positive=True)),
        "normal of means and one deviation": (lambda m: torch.normal(m, 2.0), const(301, 77)),
        "bucketize": (lambda a, b: torch.bucketize(a, b.sort()[0]), const(501, 33), const(65)),
        "histogram of two dimensions": (lambda a: torch.stack((a.histc(20), (a * 2).histc(20))), const(9001)),
    }
)

# ---- double backward ------------------------------------------------------------------------------------------------
SMOOTH: dict[str, Callable[[Tensor], Tensor]] = {
    "layer norm": lambda t: F.layer_norm(t, (65,)),
    "gelu by tanh": lambda t: F.gelu(t, approximate="tanh"),
    "softmax": lambda t: t.softmax(-1),
    "log_softmax": lambda t: t.log_softmax(-1),
    "logsumexp": lambda t: t.logsumexp(-1),
    "cumsum": lambda t: t.cumsum(-1),
    "prod": lambda t: t.prod(-1),
    "norm": lambda t: t.norm(dim=-1),
    "softplus": F.softplus,
    "group norm": lambda t: F.group_norm(t[:, :64].unsqueeze(-1), 8),
    "mse": lambda t: F.mse_loss(t, t.detach() * 0.5),
    "bce with logits": lambda t: F.binary_cross_entropy_with_logits(t, torch.zeros_like(t)),
    "matmul": lambda t: t @ t.T,
    "sort": lambda t: t.sort(-1)[0].square(),
    "gather": lambda t: t[:, ::3].square(),
    "cross product": lambda t: torch.linalg.cross(t[:, :63].reshape(-1, 3), t[:, 2:].reshape(-1, 3)),
}


def penalised(function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    def call(t: Tensor) -> Tensor:
        (gradient,) = torch.autograd.grad(function(t).sum(), t, create_graph=True)
        return gradient.square().sum()

    return call


table({f"double backward: {name}": (penalised(call), x(129, 65)) for name, call in SMOOTH.items()})


# ---- programs -------------------------------------------------------------------------------------------------------
OPTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "Adam, amsgrad, maximize, capturable": ("Adam", {"amsgrad": True, "maximize": True, "capturable": True}),
    "SGD, dampened": ("SGD", {"momentum": 0.9, "dampening": 0.5, "foreach": True, "lr": 0.1}),
    "RMSprop, centered, capturable": ("RMSprop", {"centered": True, "capturable": True}),
    "Adagrad, decaying": ("Adagrad", {"lr_decay": 0.1, "initial_accumulator_value": 0.5, "foreach": True}),
    "Adamax, capturable": ("Adamax", {"capturable": True}),
    "RAdam, decoupled, capturable": (
        "RAdam",
        {"decoupled_weight_decay": True, "weight_decay": 0.1, "capturable": True},
    ),
    "NAdam, capturable, for-loop": ("NAdam", {"capturable": True, "foreach": False}),
    "Rprop, capturable": ("Rprop", {"capturable": True}),
    "Adadelta, capturable, maximize": ("Adadelta", {"capturable": True, "maximize": True}),
    "ASGD, capturable": ("ASGD", {"capturable": True}),
    "ASGD, with decay, maximize": ("ASGD", {"weight_decay": 0.1, "maximize": True}),
    "Adafactor, with decay, for-loop": ("Adafactor", {"weight_decay": 0.1, "foreach": False}),
}
for title, (kind, chosen) in OPTIONS.items():

    @program(f"optimizer {title}")
    def _(device: str, kind: str = kind, chosen: dict[str, Any] = chosen) -> Any:
        model = mlp(130, 333, 77, 11).to(device)
        data, y = torch.randn(65, 130, device=device), classes(65, 11, device)
        return lambda: F.cross_entropy(model(data), y), getattr(torch.optim, kind)(model.parameters(), **chosen)


@program("LBFGS with a line search")
def _(device: str) -> Any:
    model = mlp(40, 51, 1).to(device)
    data = torch.randn(65, 40, device=device)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3, history_size=2)

    def run(mark: Callable[[str], None]) -> object:
        mark("built")
        for step in (1, 2):

            def closure() -> Tensor:
                optimizer.zero_grad()
                loss = model(data).square().mean()
                loss.backward()
                return loss

            mark(f"forward {step}")
            mark(f"backward {step}")
            optimizer.step(closure)
            mark(f"optimizer {step}")
        return None

    return run


class Nested(nn.Module):
    """Checkpoints in checkpoints, of both kinds."""

    def __init__(self, outer: bool, inner: bool):
        super().__init__()
        self.layers = nn.ModuleList(nn.Sequential(nn.Linear(65, 65), nn.GELU(), nn.Dropout(0.1)) for _ in range(4))
        self.outer, self.inner = outer, inner

    def pair(self, t: Tensor, first: int) -> Tensor:
        for layer in self.layers[first : first + 2]:
            t = checkpoint(layer, t, use_reentrant=self.inner)
        return t

    def forward(self, t: Tensor) -> Tensor:
        for first in (0, 2):
            t = checkpoint(self.pair, t, first, use_reentrant=self.outer)
        return t


for outer, inner in ((False, False), (True, True), (True, False)):
    how = f"checkpoints {'reentrant' if inner else 'non-reentrant'} in {'reentrant' if outer else 'non-reentrant'} ones"

    @program(how)
    def _(device: str, outer: bool = outer, inner: bool = inner) -> Any:
        model = Nested(outer, inner).to(device)
        data = torch.randn(130, 65, device=device, requires_grad=True)
        return lambda: model(data).square().mean(), adamw(model)


@program("autocast, a scaler, two optimizers, gradients clipped")
def _(device: str) -> Any:
    first, second = mlp(77, 130, 65).to(device), mlp(65, 91, 9).to(device)
    data, y = torch.randn(51, 77, device=device), classes(51, 9, device)
    both = [torch.optim.AdamW(first.parameters()), torch.optim.SGD(second.parameters(), lr=0.1, momentum=0.9)]
    scaler = torch.amp.GradScaler("cuda")

    def run(mark: Callable[[str], None]) -> object:
        mark("built")
        for step in (1, 2):
            for optimizer in both:
                optimizer.zero_grad()
            with torch.autocast("cuda", torch.float16):
                loss = F.cross_entropy(second(first(data)), y)
            mark(f"forward {step}")
            scaler.scale(loss).backward()
            mark(f"backward {step}")
            for optimizer, model in zip(both, (first, second), strict=True):
                scaler.unscale_(optimizer)
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                scaler.step(optimizer)
            scaler.update()
            mark(f"optimizer {step}")
        return loss

    return run


@program("cells: Elman with relu and a projection, unrolled")
def _(device: str) -> Any:
    cell, head = nn.RNNCell(33, 65, nonlinearity="relu").to(device), nn.Linear(65, 7).to(device)
    data, y = torch.randn(9, 21, 33, device=device), classes(21, 7, device)

    def loss() -> Tensor:
        state = torch.zeros(21, 65, device=device)
        for step in data:
            state = cell(step, state)
        return F.cross_entropy(head(state), y)

    return loss, torch.optim.RMSprop([*cell.parameters(), *head.parameters()])


@program("cells: LSTM under autocast, without bias")
def _(device: str) -> Any:
    cell = nn.LSTMCell(33, 65, bias=False).to(device)
    data = torch.randn(5, 21, 33, device=device)

    def loss() -> Tensor:
        with torch.autocast("cuda", torch.bfloat16):
            state = (torch.zeros(21, 65, device=device), torch.zeros(21, 65, device=device))
            for step in data:
                state = cell(step, state)
            return state[0].float().square().mean()

    return loss, adamw(cell)


@program("rays whose opacity is multiplied up, with a penalty")
def _(device: str) -> Any:
    model = mlp(3, 65, 4).to(device)
    points = torch.rand(33, 29, 3, device=device)

    def loss() -> Tensor:
        colour, density = model(points).split((3, 1), -1)
        left = (1 - density[..., 0].sigmoid() + 1e-6).cumprod(-1)
        return (left[..., None] * colour.sigmoid()).sum(1).square().mean() + left[:, -1].mean()

    return loss, adamw(model)


@program("only hard examples are learned from")
def _(device: str) -> Any:
    model = mlp(50, 90, 12).to(device)
    data, y = torch.randn(201, 50, device=device), classes(201, 12, device)

    def loss() -> Tensor:
        each = F.cross_entropy(model(data), y, reduction="none")
        hard = each > each.median()
        return each[hard].sum() / 100 + each.masked_select(~hard).sum() / 1000

    return two_steps(loss, adamw(model))
