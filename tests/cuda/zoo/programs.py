"""Training programs: two steps each, with marks after the build and after each forward, backward and update."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from types import MappingProxyType
from typing import Any

import families
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    checkpoint_sequential,
    create_selective_checkpoint_contexts,
)

import ckptlib as ck

MARKS = ("built", *(f"{phase} {step}" for step in (1, 2) for phase in ("forward", "backward", "optimizer")))
Step = Callable[[Callable[[str], None]], object]
PROGRAMS: dict[str, Callable[[str], Step]] = {}


def two_steps(loss: Callable[[], Tensor], optimizer: torch.optim.Optimizer) -> Step:
    """The loop that most people write."""

    def run(mark: Callable[[str], None]) -> object:
        mark("built")
        for step in (1, 2):
            optimizer.zero_grad()
            value = loss()
            mark(f"forward {step}")
            value.backward()
            mark(f"backward {step}")
            optimizer.step()
            mark(f"optimizer {step}")
        return value

    return run


def without_cudnn(step: Step) -> Step:
    """The same with PyTorch's own kernels for convolutions, batch norm and recurrent layers."""

    def run(mark: Callable[[str], None]) -> object:
        with torch.backends.cudnn.flags(enabled=False):
            return step(mark)

    return run


def adamw(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=1e-4)


def program(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add a program: a function of the device that returns its step, or (loss, optimizer) of the usual loop."""

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        if name in PROGRAMS:
            raise ValueError(f"two programs have the name {name!r}")

        def entry(device: str) -> Step:
            made = function(device)
            return two_steps(*made) if isinstance(made, tuple) else made

        PROGRAMS[name] = entry
        return function

    return add


def preload() -> None:
    """Import what the programs import, so that a forked process finds it."""
    families.preload()


def classes(n: int, high: int, device: str) -> Tensor:
    return torch.randint(high, (n,), device=device)


# ---- optimizers -----------------------------------------------------------------------------------------------------
def mlp(*widths: int, activation: type[nn.Module] = nn.ReLU) -> nn.Sequential:
    layers = [part for a, b in zip(widths, widths[1:], strict=False) for part in (nn.Linear(a, b), activation())]
    return nn.Sequential(*layers[:-1])


OPTIMIZERS: dict[str, dict[str, Any]] = {
    "SGD": {},
    "SGD momentum": {"momentum": 0.9},
    "SGD nesterov": {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1},
    "Adam": {},
    "Adam amsgrad": {"amsgrad": True},
    "AdamW": {},
    "AdamW maximize": {"maximize": True},
    "AdamW capturable": {"capturable": True},
    "Adamax": {},
    "NAdam": {},
    "RAdam": {},
    "RMSprop": {},
    "RMSprop centered": {"momentum": 0.9, "centered": True},
    "Rprop": {},
    "Adagrad": {},
    "Adadelta": {},
    "ASGD": {},
    "Adafactor": {},
}
LOOPS: dict[str, dict[str, Any]] = {"": {}, " for-loop": {"foreach": False}, " fused": {"fused": True}}
FUSED = ("SGD", "SGD momentum", "Adam", "Adam amsgrad", "AdamW", "Adagrad")
for title, options in OPTIMIZERS.items():
    for how, more in LOOPS.items():
        if (how == " fused" and title not in FUSED) or (how and title == "Adafactor"):
            continue

        @program(f"optimizer {title}{how}")
        def _(device: str, title: str = title, options: Any = MappingProxyType(options | more)) -> Any:
            model = mlp(200, 700, 300, 10).to(device)
            x, y = torch.randn(128, 200, device=device), classes(128, 10, device)
            optimizer = getattr(torch.optim, title.split()[0])(model.parameters(), **options)
            return lambda: F.cross_entropy(model(x), y), optimizer


@program("optimizer Muon")
def _(device: str) -> Any:
    model = nn.Sequential(nn.Linear(64, 96, bias=False), nn.ReLU(), nn.Linear(96, 80, bias=False)).to(device)
    x = torch.randn(32, 64, device=device)
    return lambda: model(x).square().mean(), torch.optim.Muon(model.parameters())


@program("optimizer SparseAdam")
def _(device: str) -> Any:
    model = nn.Embedding(1000, 32, sparse=True).to(device)
    ids = classes(200, 1000, device)
    return lambda: model(ids).square().mean(), torch.optim.SparseAdam(model.parameters())


@program("optimizer with two groups")
def _(device: str) -> Any:
    model = mlp(100, 300, 300, 10).to(device)
    x, y = torch.randn(128, 100, device=device), classes(128, 10, device)
    decayed = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() == 1]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    return lambda: F.cross_entropy(model(x), y), torch.optim.AdamW(groups)


# ---- how the loop is written ----------------------------------------------------------------------------------------
def loop(
    compute: Callable[[], Tensor],
    optimizer: torch.optim.Optimizer,
    backward: Callable[[Tensor], object] = Tensor.backward,
    update: Callable[[], object] | None = None,
    clear: Callable[[], object] | None = None,
) -> Step:
    """As `two_steps`, with other ways to go back, to update and to clear gradients."""

    def run(mark: Callable[[str], None]) -> object:
        mark("built")
        for step in (1, 2):
            (clear or optimizer.zero_grad)()
            value = compute()
            mark(f"forward {step}")
            backward(value)
            mark(f"backward {step}")
            (update or optimizer.step)()
            mark(f"optimizer {step}")
        return value

    return run


def small(device: str) -> tuple[nn.Module, Callable[[], Tensor]]:
    model = mlp(256, 900, 900, 10, activation=nn.GELU).to(device)
    x, y = torch.randn(256, 256, device=device), classes(256, 10, device)
    return model, lambda: F.cross_entropy(model(x), y)


@program("loop: gradients set to zero")
def _(device: str) -> Any:
    model, loss = small(device)
    optimizer = adamw(model)
    return loop(loss, optimizer, clear=lambda: optimizer.zero_grad(set_to_none=False))


@program("loop: gradients cleared late")
def _(device: str) -> Any:
    model, loss = small(device)
    optimizer = adamw(model)

    def update() -> None:
        optimizer.step()
        optimizer.zero_grad()

    return loop(loss, optimizer, update=update, clear=lambda: None)


for norm in (2.0, math.inf):

    @program(f"loop: gradients clipped to norm {norm}")
    def _(device: str, norm: float = norm) -> Any:
        model, loss = small(device)
        optimizer = adamw(model)

        def update() -> None:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0, norm_type=norm)
            optimizer.step()

        return loop(loss, optimizer, update=update)


@program("loop: gradients clipped by value")
def _(device: str) -> Any:
    model, loss = small(device)
    optimizer = adamw(model)

    def update() -> None:
        nn.utils.clip_grad_value_(model.parameters(), 1.0)
        optimizer.step()

    return loop(loss, optimizer, update=update)


for parts in (2, 4):

    @program(f"loop: gradients of {parts} parts accumulated")
    def _(device: str, parts: int = parts) -> Any:
        model = mlp(256, 900, 900, 10).to(device)
        x, y = torch.randn(256, 256, device=device), classes(256, 10, device)
        optimizer = adamw(model)

        def compute() -> Tensor:
            *first, last = zip(x.chunk(parts), y.chunk(parts), strict=True)
            for xs, ys in first:
                (F.cross_entropy(model(xs), ys) / parts).backward()
            return F.cross_entropy(model(last[0]), last[1]) / parts

        return loop(compute, optimizer)


@program("loop: moving average of the weights")
def _(device: str) -> Any:
    model, loss = small(device)
    optimizer = adamw(model)
    average = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9))

    def update() -> None:
        optimizer.step()
        average.update_parameters(model)

    return loop(loss, optimizer, update=update)


@program("loop: learning rate scheduled")
def _(device: str) -> Any:
    model, loss = small(device)
    optimizer = adamw(model)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)

    def update() -> None:
        optimizer.step()
        schedule.step()

    return loop(loss, optimizer, update=update)


@program("loop: new data in every step")
def _(device: str) -> Any:
    model = mlp(256, 900, 10).to(device)

    def compute() -> Tensor:
        x, y = torch.randn(300, 256, device=device), classes(300, 10, device)
        return F.cross_entropy(model(x), y)

    return compute, adamw(model)


@program("loop: predictions without gradients first")
def _(device: str) -> Any:
    model, loss = small(device)
    x = torch.randn(300, 256, device=device)

    def compute() -> Tensor:
        with torch.no_grad():
            model(x).argmax(-1)
        return loss()

    return compute, adamw(model)


@program("loop: two losses with a graph that is kept")
def _(device: str) -> Any:
    model = mlp(256, 900, 10).to(device)
    x, y = torch.randn(256, 256, device=device), classes(256, 10, device)

    def backward(out: Tensor) -> None:
        F.cross_entropy(out, y).backward(retain_graph=True)
        out.square().mean().backward()

    return loop(lambda: model(x), adamw(model), backward)


@program("loop: an optimizer step in backward")
def _(device: str) -> Any:
    model, loss = small(device)
    each = {p: torch.optim.SGD([p], lr=0.1, momentum=0.9) for p in model.parameters()}

    def update(p: Tensor) -> None:
        each[p].step()
        each[p].zero_grad()

    for p in model.parameters():
        p.register_post_accumulate_grad_hook(update)
    first = next(iter(each.values()))
    return loop(loss, first, update=lambda: None, clear=lambda: None)


@program("loop: frozen first half")
def _(device: str) -> Any:
    model, loss = small(device)
    for p in list(model.parameters())[:4]:
        p.requires_grad_(False)
    return loss, torch.optim.AdamW([p for p in model.parameters() if p.requires_grad])


@program("loop: weights and activations in bfloat16")
def _(device: str) -> Any:
    model = mlp(256, 900, 900, 10).to(device).bfloat16()
    x, y = torch.randn(256, 256, device=device, dtype=torch.bfloat16), classes(256, 10, device)
    return lambda: F.cross_entropy(model(x).float(), y), adamw(model)


@program("loop: generator and critic")
def _(device: str) -> Any:
    generator, critic = mlp(32, 300, 200).to(device), mlp(200, 300, 1).to(device)
    first, second = adamw(generator), adamw(critic)
    real = torch.randn(64, 200, device=device)
    bce = F.binary_cross_entropy_with_logits

    def compute() -> Tensor:
        made = generator(torch.randn(64, 32, device=device))
        second.zero_grad()
        ones, zeros = torch.ones(64, 1, device=device), torch.zeros(64, 1, device=device)
        (bce(critic(real), ones) + bce(critic(made.detach()), zeros)).backward()
        second.step()
        return bce(critic(made), ones)

    return compute, first


# ---- autocast -------------------------------------------------------------------------------------------------------
class Block(nn.Module):
    """A transformer's block as it is written today."""

    def __init__(self, d: int, heads: int = 4, dropout: float = 0.0, causal: bool = True, norm: Any = nn.LayerNorm):
        super().__init__()
        self.heads, self.causal, self.dropout = heads, causal, dropout
        self.norm1, self.norm2 = norm(d), norm(d)
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.mlp = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d), nn.Dropout(dropout))

    def forward(self, x: Tensor) -> Tensor:
        n, t, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(n, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        p = self.dropout if self.training else 0.0
        h = F.scaled_dot_product_attention(q, k, v, dropout_p=p, is_causal=self.causal)
        x = x + self.out(h.transpose(1, 2).reshape(n, t, d))
        return x + self.mlp(self.norm2(x))


class Language(nn.Module):
    """A small language model of these blocks. `around` wraps the call of a block: a checkpoint, for example."""

    def __init__(self, layers: int = 3, d: int = 64, words: int = 500, tied: bool = False, **options: Any):
        super().__init__()
        self.words, self.places = nn.Embedding(words, d), nn.Embedding(128, d)
        self.blocks = nn.ModuleList(Block(d, **options) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(d), nn.Linear(d, words, bias=False)
        if tied:
            self.head.weight = self.words.weight
        self.around: Callable[[nn.Module, Tensor], Tensor] = lambda block, x: block(x)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.words(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = self.around(block, x)
        return self.head(self.norm(x))


def language(device: str, **options: Any) -> tuple[Language, Callable[[], Tensor]]:
    model = Language(**options).to(device)
    ids = torch.randint(500, (4, 65), device=device)
    return model, lambda: F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())


for dtype in (torch.float16, torch.bfloat16):
    for what in ("mlp", "language model", "convolutions"):
        if (what, dtype) == ("convolutions", torch.bfloat16):
            continue  # a phantom's cuDNN has none: it stands in for the older of PyTorch's two interfaces

        @program(f"autocast {str(dtype)[6:]}: {what}")
        def _(device: str, dtype: torch.dtype = dtype, what: str = what) -> Any:
            model, inner = {"mlp": small, "language model": language, "convolutions": convolutions}[what](device)

            def loss() -> Tensor:
                with torch.autocast("cuda", dtype=dtype):
                    return inner()

            return loss, adamw(model)


for fused in (False, True):

    @program(f"autocast with a scaler{', fused' if fused else ''}")
    def _(device: str, fused: bool = fused) -> Any:
        model, inner = language(device)
        optimizer, scaler = torch.optim.AdamW(model.parameters(), fused=fused or None), torch.amp.GradScaler("cuda")

        def loss() -> Tensor:
            with torch.autocast("cuda", dtype=torch.float16):
                return inner()

        def update() -> None:
            scaler.step(optimizer)
            scaler.update()

        return loop(loss, optimizer, lambda value: scaler.scale(value).backward(), update)


@program("autocast with a scaler and clipping")
def _(device: str) -> Any:
    model, inner = small(device)
    optimizer, scaler = adamw(model), torch.amp.GradScaler("cuda")

    def loss() -> Tensor:
        with torch.autocast("cuda", dtype=torch.float16):
            return inner()

    def update() -> None:
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()

    return loop(loss, optimizer, lambda value: scaler.scale(value).backward(), update)


# ---- language models of our own -------------------------------------------------------------------------------------
LANGUAGE: dict[str, dict[str, Any]] = {
    "plain": {},
    "dropout": {"dropout": 0.1},
    "tied": {"tied": True},
    "not causal": {"causal": False},
    "rms norm": {"norm": nn.RMSNorm},
    "one head": {"heads": 1},
    "six layers": {"layers": 6},
}
for title, options in LANGUAGE.items():

    @program(f"language model: {title}")
    def _(device: str, options: Any = MappingProxyType(options)) -> Any:
        model, loss = language(device, **options)
        return loss, adamw(model)


for backend in (SDPBackend.MATH, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.FLASH_ATTENTION):
    for dropout in (0.0, 0.1):

        @program(f"language model: {backend.name.lower()}{' dropout' if dropout else ''}, bfloat16")
        def _(device: str, backend: SDPBackend = backend, dropout: float = dropout) -> Any:
            model = Language(dropout=dropout).to(device).bfloat16()
            ids = torch.randint(500, (4, 65), device=device)

            def loss() -> Tensor:
                with sdpa_kernel(backend):
                    out = model(ids[:, :-1])
                return F.cross_entropy(out.flatten(0, 1).float(), ids[:, 1:].flatten())

            return loss, adamw(model)


@program("low-rank adapters")
def _(device: str) -> Any:
    model = nn.ModuleList(nn.Linear(300, 300) for _ in range(3)).to(device).requires_grad_(False)
    down = nn.ParameterList(torch.randn(8, 300) * 0.1 for _ in range(3)).to(device)
    up = nn.ParameterList(torch.zeros(300, 8) for _ in range(3)).to(device)
    x = torch.randn(128, 300, device=device)

    def loss() -> Tensor:
        h = x
        for layer, a, b in zip(model, down, up, strict=True):
            h = torch.relu(layer(h) + F.linear(F.linear(h, a), b))
        return h.square().mean()

    return loss, torch.optim.AdamW([*down, *up])


@program("mixture of experts, dense")
def _(device: str) -> Any:
    model = nn.ModuleDict({"gate": nn.Linear(64, 4), "experts": nn.ModuleList(mlp(64, 128, 64) for _ in range(4))}).to(
        device
    )
    x = torch.randn(256, 64, device=device)

    def loss() -> Tensor:
        weights, chosen = model["gate"](x).softmax(-1).topk(2)
        gates = torch.zeros(256, 4, device=device).scatter(1, chosen, weights)
        out = sum(gates[:, i : i + 1] * expert(x) for i, expert in enumerate(model["experts"]))
        return (out - x).square().mean()

    return loss, adamw(model)


@program("transformer of torch.nn")
def _(device: str) -> Any:
    model = nn.Transformer(64, 4, 2, 2, 128, batch_first=True).to(device)
    x, y = torch.randn(4, 30, 64, device=device), torch.randn(4, 20, 64, device=device)
    return lambda: model(x, y).square().mean(), adamw(model)


for first in (False, True):

    @program(f"transformer encoder of torch.nn, {'norm first' if first else 'norm last'}")
    def _(device: str, first: bool = first) -> Any:
        layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True, norm_first=first)
        model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).to(device)
        x = torch.randn(4, 64, 64, device=device)
        return lambda: model(x).square().mean(), adamw(model)


@program("multi-head attention with weights")
def _(device: str) -> Any:
    model = nn.MultiheadAttention(64, 4, dropout=0.1, batch_first=True).to(device)
    x = torch.randn(4, 50, 64, device=device)
    return lambda: sum(t.square().mean() for t in model(x, x, x)), adamw(model)


# ---- checkpoints ----------------------------------------------------------------------------------------------------
def _save_products(ctx: Any, op: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
    products = (torch.ops.aten.mm.default, torch.ops.aten.addmm.default, torch.ops.aten.bmm.default)
    return CheckpointPolicy.MUST_SAVE if op in products else CheckpointPolicy.PREFER_RECOMPUTE


CHECKPOINTS: dict[str, Callable[[nn.Module, Tensor], Tensor]] = {
    "torch non-reentrant": lambda block, x: checkpoint(block, x, use_reentrant=False),
    "torch reentrant": lambda block, x: checkpoint(block, x, use_reentrant=True),
    "torch without random state": lambda b, x: checkpoint(b, x, use_reentrant=False, preserve_rng_state=False),
    "torch selective": lambda block, x: checkpoint(
        block, x, use_reentrant=False, context_fn=partial(create_selective_checkpoint_contexts, _save_products)
    ),
    "ckptlib": lambda block, x: ck.checkpoint(block, x, use_reentrant=False),
    "ckptlib reentrant": lambda block, x: ck.checkpoint(block, x, use_reentrant=True),
    "ckptlib selective": lambda block, x: ck.checkpoint(
        block, x, use_reentrant=False, context_fn=ck.selective([torch.ops.aten.addmm.default])
    ),
    "offloaded": lambda block, x: _offloaded(block, x),
}


def _offloaded(block: nn.Module, x: Tensor) -> Tensor:
    with torch.autograd.graph.save_on_cpu():
        return block(x)


for title, around in CHECKPOINTS.items():
    for dropout in (0.0, 0.1):

        @program(f"checkpoint: {title}{', dropout' if dropout else ''}")
        def _(device: str, around: Any = around, dropout: float = dropout) -> Any:
            model, loss = language(device, dropout=dropout)
            model.around = around
            return loss, adamw(model)


for reentrant in (False, True):

    @program(f"checkpoint: every second block, {'reentrant' if reentrant else 'non-reentrant'}, autocast")
    def _(device: str, reentrant: bool = reentrant) -> Any:
        model, inner = language(device, layers=4)
        second = set(map(id, list(model.blocks)[::2]))
        model.around = lambda block, x: (
            checkpoint(block, x, use_reentrant=reentrant) if id(block) in second else block(x)
        )

        def loss() -> Tensor:
            with torch.autocast("cuda", dtype=torch.bfloat16):
                return inner()

        return loss, adamw(model)

    @program(f"checkpoint_sequential, {'reentrant' if reentrant else 'non-reentrant'}")
    def _(device: str, reentrant: bool = reentrant) -> Any:
        model = mlp(128, *[512] * 7, 10).to(device)
        x, y = torch.randn(256, 128, device=device, requires_grad=True), classes(256, 10, device)

        def loss() -> Tensor:
            return F.cross_entropy(checkpoint_sequential(model, 4, x, use_reentrant=reentrant), y)

        return loss, adamw(model)


@program("checkpoint: inside a checkpoint")
def _(device: str) -> Any:
    model = mlp(128, *[512] * 5, 10).to(device)
    x, y = torch.randn(256, 128, device=device, requires_grad=True), classes(256, 10, device)
    inner = partial(checkpoint, model[:4], use_reentrant=False)

    def loss() -> Tensor:
        h = checkpoint(lambda t: model[4:8](inner(t)), x, use_reentrant=False)
        return F.cross_entropy(model[8:](h), y)

    return loss, adamw(model)


@program("checkpoint: of the loss alone")
def _(device: str) -> Any:
    model = mlp(128, 512, 2000).to(device)
    x, y = torch.randn(256, 128, device=device), classes(256, 2000, device)
    return lambda: checkpoint(F.cross_entropy, model(x), y, use_reentrant=False), adamw(model)


for family in ("gpt2", "llama", "bert", "t5", "vit"):

    @program(f"checkpoint: {family} of transformers")
    def _(device: str, family: str = family) -> Any:
        model, loss = families.build(family, device)
        model.gradient_checkpointing_enable()
        return loss, adamw(model)


# ---- losses ---------------------------------------------------------------------------------------------------------
LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "mse": F.mse_loss,
    "l1": F.l1_loss,
    "smooth l1": F.smooth_l1_loss,
    "huber": F.huber_loss,
    "bce with logits": lambda p, y: F.binary_cross_entropy_with_logits(p, y),
    "bce": lambda p, y: F.binary_cross_entropy(p.sigmoid(), y),
    "kl": lambda p, y: F.kl_div(p.log_softmax(-1), y.softmax(-1), reduction="batchmean"),
    "poisson": F.poisson_nll_loss,
    "soft margin": F.soft_margin_loss,
    "multilabel soft margin": F.multilabel_soft_margin_loss,
    "cosine": lambda p, y: 1 - F.cosine_similarity(p, y).mean(),
    "gaussian nll": lambda p, y: F.gaussian_nll_loss(p, y, F.softplus(p)),
    "hinge": lambda p, y: (1 - p * y).clamp(min=0).mean(),
    "contrastive": lambda p, y: F.cross_entropy(
        F.normalize(p) @ F.normalize(y).t() / 0.1, torch.arange(len(p), device=p.device)
    ),
    "triplet": lambda p, y: F.triplet_margin_loss(p, y, y.roll(1, 0)),
    "focal": lambda p, y: (
        (1 - torch.sigmoid(p)) ** 2 * F.binary_cross_entropy_with_logits(p, y, reduction="none")
    ).mean(),
    "dice": lambda p, y: 1 - 2 * (p.sigmoid() * y).sum() / (p.sigmoid() + y).sum(),
    "label smoothing": lambda p, y: F.cross_entropy(p, y.argmax(-1), label_smoothing=0.1),
    "soft labels": lambda p, y: F.cross_entropy(p, y.softmax(-1)),
    "evidence": lambda p, y: F.mse_loss(p, y) - 0.5 * (1 + p - p.exp()).mean(),
}
for title, function in LOSSES.items():

    @program(f"loss: {title}")
    def _(device: str, function: Callable[[Tensor, Tensor], Tensor] = function) -> Any:
        model = mlp(64, 300, 400).to(device)
        x, y = torch.randn(500, 64, device=device), torch.rand(500, 400, device=device)
        return lambda: function(model(x), y), adamw(model)


@program("loss: ctc")
def _(device: str) -> Any:
    model = mlp(32, 100, 20).to(device)
    x, y = torch.randn(50, 4, 32, device=device), torch.randint(1, 20, (4, 10), device=device)
    return lambda: F.ctc_loss(model(x).log_softmax(-1), y, (50,) * 4, (10,) * 4), adamw(model)


# ---- images ---------------------------------------------------------------------------------------------------------
def conv(a: int, b: int, **options: Any) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(a, b, 3, padding=1, **options), nn.BatchNorm2d(b), nn.ReLU())


def convolutions(device: str) -> tuple[nn.Module, Callable[[], Tensor]]:
    model = nn.Sequential(
        conv(3, 16), nn.MaxPool2d(2), conv(16, 32), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10)
    ).to(device)
    x, y = torch.randn(8, 3, 32, 32, device=device), classes(8, 10, device)
    return model, lambda: F.cross_entropy(model(x), y)


class Residual(nn.Module):
    def __init__(self, a: int, b: int, stride: int = 1):
        super().__init__()
        self.main = nn.Sequential(
            nn.Conv2d(a, b, 3, stride, 1, bias=False), nn.BatchNorm2d(b), nn.ReLU(inplace=True),
            nn.Conv2d(b, b, 3, 1, 1, bias=False), nn.BatchNorm2d(b),
        )  # fmt: skip
        self.short = nn.Sequential(nn.Conv2d(a, b, 1, stride, bias=False), nn.BatchNorm2d(b))

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.main(x) + self.short(x), inplace=True)


class UNet(nn.Module):
    """With `time`, it is told how noisy its input is, as a diffusion model is."""

    def __init__(self, time: bool = False):
        super().__init__()
        self.first, self.down, self.middle = conv(3, 8), conv(8, 16), conv(16, 16)
        self.up, self.last = nn.ConvTranspose2d(16, 8, 2, 2), nn.Conv2d(16, 3, 1)
        self.time = mlp(1, 32, 16, activation=nn.SiLU) if time else None

    def forward(self, x: Tensor, t: Tensor | None = None) -> Tensor:
        a = self.first(x)
        b = self.down(F.max_pool2d(a, 2))
        if self.time is not None:
            b = b + self.time(t)[:, :, None, None]
        return self.last(torch.cat([a, self.up(self.middle(b))], 1))


def separable(device: str) -> tuple[nn.Module, Callable[[], Tensor]]:
    layers = [nn.Conv2d(16, 16, 3, padding=1, groups=16), nn.Conv2d(16, 16, 1), nn.BatchNorm2d(16), nn.Hardswish()]
    model = nn.Sequential(conv(3, 16), *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10)).to(device)
    x, y = torch.randn(8, 3, 32, 32, device=device), classes(8, 10, device)
    return model, lambda: F.cross_entropy(model(x), y)


def residual(device: str) -> tuple[nn.Module, Callable[[], Tensor]]:
    model = nn.Sequential(
        conv(3, 16), Residual(16, 16), Residual(16, 32, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10)
    ).to(device)
    x, y = torch.randn(8, 3, 32, 32, device=device), classes(8, 10, device)
    return model, lambda: F.cross_entropy(model(x), y)


def unet(device: str) -> tuple[nn.Module, Callable[[], Tensor]]:
    model = UNet().to(device)
    x, y = torch.randn(4, 3, 32, 32, device=device), torch.randint(3, (4, 32, 32), device=device)
    return model, lambda: F.cross_entropy(model(x), y)


def diffusion(device: str) -> tuple[nn.Module, Callable[[], Tensor]]:
    model = UNet(time=True).to(device)
    x = torch.randn(4, 3, 32, 32, device=device)

    def loss() -> Tensor:
        t, noise = torch.rand(4, 1, device=device), torch.randn_like(x)
        level = t[:, :, None, None]
        return F.mse_loss(model((1 - level).sqrt() * x + level.sqrt() * noise, t), noise)

    return model, loss


def autoencoder(device: str) -> tuple[nn.Module, Callable[[], Tensor]]:
    model = nn.Sequential(
        nn.Conv2d(3, 8, 4, 2, 1), nn.ReLU(), nn.Conv2d(8, 16, 4, 2, 1), nn.ReLU(),
        nn.ConvTranspose2d(16, 8, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(8, 3, 4, 2, 1),
    ).to(device)  # fmt: skip
    x = torch.randn(4, 3, 32, 32, device=device)
    return model, lambda: (model(x) - x).square().mean()


def groups(device: str) -> tuple[nn.Module, Callable[[], Tensor]]:
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3), nn.GroupNorm(4, 16), nn.SiLU(), nn.Upsample(scale_factor=2), nn.Conv2d(16, 8, 3),
        nn.InstanceNorm2d(8), nn.AvgPool2d(2), nn.Flatten(1), nn.LazyLinear(10),
    )  # fmt: skip
    model(torch.zeros(1, 3, 32, 32))
    model = model.to(device)
    x, y = torch.randn(4, 3, 32, 32, device=device), classes(4, 10, device)
    return model, lambda: F.cross_entropy(model(x), y)


def volumes(device: str) -> tuple[nn.Module, Callable[[], Tensor]]:
    model = nn.Sequential(nn.Conv3d(1, 8, 3), nn.BatchNorm3d(8), nn.ReLU(), nn.Conv3d(8, 8, 3), nn.MaxPool3d(2))
    model = model.to(device)
    x = torch.randn(2, 1, 10, 16, 16, device=device)
    return model, lambda: model(x).square().mean()


def sound(device: str) -> tuple[nn.Module, Callable[[], Tensor]]:
    model = nn.Sequential(
        nn.Conv1d(1, 16, 10, 5), nn.GroupNorm(1, 16), nn.GELU(), nn.Conv1d(16, 32, 8, 4, dilation=2),
        nn.BatchNorm1d(32), nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(32, 10),
    ).to(device)  # fmt: skip
    x, y = torch.randn(4, 1, 2000, device=device), classes(4, 10, device)
    return model, lambda: F.cross_entropy(model(x), y)


def last(device: str) -> tuple[nn.Module, Callable[[], Tensor]]:
    model = nn.Sequential(conv(3, 16), conv(16, 32), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10))
    model = model.to(device, memory_format=torch.channels_last)
    x = torch.empty(8, 3, 32, 32, device=device, memory_format=torch.channels_last)
    y = classes(8, 10, device)
    return model, lambda: F.cross_entropy(model(x), y)


IMAGES: dict[str, Callable[[str], tuple[nn.Module, Callable[[], Tensor]]]] = {
    "convolutions": convolutions,
    "separable convolutions": separable,
    "residual network": residual,
    "U-Net": unet,
    "diffusion": diffusion,
    "autoencoder": autoencoder,
    "group norm, upsampling": groups,
    "volumes": volumes,
    "sound": sound,
    "channels last": last,
}
for title, make in IMAGES.items():
    for cudnn in (True, False):

        @program(f"{title}, {'cuDNN' if cudnn else 'native'}")
        def _(device: str, make: Any = make, cudnn: bool = cudnn) -> Any:
            model, loss = make(device)
            run = two_steps(loss, adamw(model))
            return run if cudnn else without_cudnn(run)


# ---- graphs ---------------------------------------------------------------------------------------------------------
def graph(device: str, nodes: int = 300, edges: int = 1500, d: int = 32) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    x, ends = torch.randn(nodes, d, device=device), torch.randint(nodes, (2, edges), device=device)
    return x, ends[0], ends[1], classes(nodes, 5, device)


@program("graph: index_add")
def _(device: str) -> Any:
    model = nn.ModuleList([nn.Linear(32, 64), nn.Linear(64, 5)]).to(device)
    x, a, b, y = graph(device)

    def loss() -> Tensor:
        h = x
        for layer in model:
            m = layer(h)
            h = torch.relu(torch.zeros(300, m.shape[1], device=device).index_add(0, b, m[a]))
        return F.cross_entropy(h, y)

    return loss, adamw(model)


@program("graph: scatter_reduce")
def _(device: str) -> Any:
    model = nn.ModuleList([nn.Linear(32, 64), nn.Linear(64, 5)]).to(device)
    x, a, b, y = graph(device)

    def loss() -> Tensor:
        h = x
        for layer in model:
            m = layer(h).index_select(0, a)
            h = torch.zeros(300, m.shape[1], device=device).scatter_reduce(0, b[:, None].expand_as(m), m, "mean")
        return F.cross_entropy(h, y)

    return loss, adamw(model)


@program("graph: attention over edges")
def _(device: str) -> Any:
    model = nn.ModuleDict({"value": nn.Linear(32, 64), "score": nn.Linear(128, 1), "out": nn.Linear(64, 5)}).to(device)
    x, a, b, y = graph(device)

    def loss() -> Tensor:
        h = model["value"](x)
        score = F.leaky_relu(model["score"](torch.cat([h[a], h[b]], 1))).exp()
        total = torch.zeros(300, 1, device=device).index_add(0, b, score)
        h = torch.zeros(300, 64, device=device).index_add(0, b, h[a] * score / (total[b] + 1e-6))
        return F.cross_entropy(model["out"](h), y)

    return loss, adamw(model)


@program("graph: dense adjacency")
def _(device: str) -> Any:
    model = nn.ModuleList([nn.Linear(32, 64), nn.Linear(64, 5)]).to(device)
    x, _, _, y = graph(device)
    adjacency = torch.rand(300, 300, device=device)
    return lambda: F.cross_entropy(adjacency @ model[1](torch.relu(adjacency @ model[0](x))), y), adamw(model)


@program("graph: pooled by batch")
def _(device: str) -> Any:
    model = nn.ModuleList([nn.Linear(32, 64), nn.Linear(64, 5)]).to(device)
    x, batch, y = torch.randn(300, 32, device=device), classes(300, 10, device), classes(10, 5, device)

    def loss() -> Tensor:
        h = torch.relu(model[0](x))
        pooled = torch.zeros(10, 64, device=device).scatter_add(0, batch[:, None].expand_as(h), h)
        return F.cross_entropy(model[1](pooled), y)

    return loss, adamw(model)


# ---- recurrent networks ---------------------------------------------------------------------------------------------
for kind in ("LSTM", "GRU", "RNN"):
    for layers, both in ((1, False), (2, True)):

        @program(f"{kind}, layers {layers}{', both directions' if both else ''}, native")
        def _(device: str, kind: str = kind, layers: int = layers, both: bool = both) -> Any:
            with torch.backends.cudnn.flags(enabled=False):  # or it would ask cuDNN how the weights should lie
                model = getattr(nn, kind)(24, 32, layers, bidirectional=both, batch_first=True).to(device)
            x = torch.randn(8, 12, 24, device=device)
            return without_cudnn(two_steps(lambda: model(x)[0].square().mean(), adamw(model)))


for kind in ("LSTMCell", "GRUCell"):

    @program(f"{kind}, unrolled")
    def _(device: str, kind: str = kind) -> Any:
        model, head = getattr(nn, kind)(24, 32).to(device), nn.Linear(32, 5).to(device)
        x, y = torch.randn(8, 16, 24, device=device), classes(16, 5, device)

        def loss() -> Tensor:
            state = None
            for t in range(8):
                state = model(x[t], state)
            return F.cross_entropy(head(state[0] if kind == "LSTMCell" else state), y)

        return loss, torch.optim.AdamW([*model.parameters(), *head.parameters()])


# ---- embeddings, indexing, norms ------------------------------------------------------------------------------------
@program("embeddings of a recommender")
def _(device: str) -> Any:
    model = nn.ModuleList([nn.Embedding(2000, 32), nn.Embedding(500, 32)]).to(device)
    user, item, y = classes(256, 2000, device), classes(256, 500, device), torch.rand(256, device=device)
    return lambda: F.mse_loss((model[0](user) * model[1](item)).sum(-1), y), adamw(model)


@program("bags of embeddings")
def _(device: str) -> Any:
    model = nn.Sequential(nn.EmbeddingBag(1000, 32), nn.Linear(32, 5)).to(device)
    ids, y = torch.randint(1000, (64, 12), device=device), classes(64, 5, device)
    return lambda: F.cross_entropy(model(ids), y), adamw(model)


@program("skip-gram")
def _(device: str) -> Any:
    model = nn.ModuleList([nn.Embedding(1000, 64), nn.Embedding(1000, 64)]).to(device)
    word, near = classes(128, 1000, device), torch.randint(1000, (128, 8), device=device)

    def loss() -> Tensor:
        score = torch.bmm(model[1](near), model[0](word)[:, :, None]).squeeze(-1)
        return -F.logsigmoid(score).mean()

    return loss, adamw(model)


@program("gathered log-probabilities")
def _(device: str) -> Any:
    model = mlp(64, 200, 300).to(device)
    x, y = torch.randn(200, 64, device=device), torch.randint(300, (200, 1), device=device)
    return lambda: -model(x).log_softmax(-1).gather(1, y).mean(), adamw(model)


@program("policy gradient")
def _(device: str) -> Any:
    model = mlp(16, 100, 4).to(device)
    x, reward = torch.randn(300, 16, device=device), torch.randn(300, device=device)

    def loss() -> Tensor:
        policy = model(x).log_softmax(-1)
        chosen = torch.multinomial(policy.detach().exp(), 1)
        return -(policy.gather(1, chosen).squeeze(1) * reward).mean() - 0.01 * (policy * policy.exp()).sum(-1).mean()

    return loss, adamw(model)


@program("Q-learning")
def _(device: str) -> Any:
    model, target = mlp(16, 100, 4).to(device), mlp(16, 100, 4).to(device).requires_grad_(False)
    x, then = torch.randn(300, 16, device=device), torch.randn(300, 16, device=device)
    action = torch.randint(4, (300, 1), device=device)

    def loss() -> Tensor:
        with torch.no_grad():
            wanted = 0.9 * target(then).max(1).values
        return F.smooth_l1_loss(model(x).gather(1, action).squeeze(1), wanted)

    return loss, adamw(model)


NORMS: dict[str, Callable[[], nn.Module]] = {
    "layer norm": lambda: nn.LayerNorm(300),
    "layer norm without bias": lambda: nn.LayerNorm(300, bias=False),
    "rms norm": lambda: nn.RMSNorm(300),
    "batch norm": lambda: nn.BatchNorm1d(300),
    "batch norm without weight": lambda: nn.BatchNorm1d(300, affine=False),
    "group norm": lambda: nn.GroupNorm(10, 300),
    "weight norm": lambda: nn.utils.parametrizations.weight_norm(nn.Linear(300, 300)),
    "spectral norm": lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(300, 300)),
    "dropout": lambda: nn.Dropout(0.3),
    "alpha dropout": lambda: nn.AlphaDropout(0.3),
    "prelu": lambda: nn.PReLU(300),
}
for title, make in NORMS.items():

    @program(f"norm: {title}")
    def _(device: str, make: Callable[[], nn.Module] = make) -> Any:
        model = nn.Sequential(nn.Linear(64, 300), make(), nn.ReLU(), nn.Linear(300, 10)).to(device)
        x, y = torch.randn(200, 64, device=device), classes(200, 10, device)
        return lambda: F.cross_entropy(model(x), y), adamw(model)


# ---- double backward ------------------------------------------------------------------------------------------------
@program("double backward: gradient penalty")
def _(device: str) -> Any:
    model = mlp(200, 300, 300, 1, activation=nn.Tanh).to(device)
    x = torch.randn(128, 200, device=device, requires_grad=True)

    def loss() -> Tensor:
        out = model(x).sum()
        (gradient,) = torch.autograd.grad(out, x, create_graph=True)
        return out / 128 + (gradient.norm(dim=1) - 1).square().mean()

    return loss, adamw(model)


@program("double backward: forces of an energy")
def _(device: str) -> Any:
    model = mlp(3, 100, 100, 1, activation=nn.SiLU).to(device)
    x = torch.randn(300, 3, device=device, requires_grad=True)
    y = torch.randn(300, 3, device=device)

    def loss() -> Tensor:
        (force,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
        return F.l1_loss(-force, y)

    return loss, adamw(model)


@program("double backward: a step inside a step")
def _(device: str) -> Any:
    model = mlp(50, 200, 10).to(device)
    x, y = torch.randn(64, 50, device=device), classes(64, 10, device)

    def loss() -> Tensor:
        named = dict(model.named_parameters())
        gradients = torch.autograd.grad(F.cross_entropy(model(x), y), list(named.values()), create_graph=True)
        moved = {name: p - 0.1 * g for (name, p), g in zip(named.items(), gradients, strict=True)}
        return F.cross_entropy(torch.func.functional_call(model, moved, (x,)), y)

    return loss, adamw(model)


@program("double backward: Hessian times a vector")
def _(device: str) -> Any:
    model = mlp(50, 200, 10, activation=nn.Softplus).to(device)
    x, y = torch.randn(64, 50, device=device), classes(64, 10, device)

    def loss() -> Tensor:
        parameters = list(model.parameters())
        gradients = torch.autograd.grad(F.cross_entropy(model(x), y), parameters, create_graph=True)
        return sum((g * p.detach()).sum() for g, p in zip(gradients, parameters, strict=True))

    return loss, adamw(model)


# ---- other kinds of networks ----------------------------------------------------------------------------------------
@program("variational autoencoder")
def _(device: str) -> Any:
    model = nn.ModuleList([mlp(200, 128, 32), mlp(16, 128, 200)]).to(device)
    x = torch.rand(128, 200, device=device)

    def loss() -> Tensor:
        mean, log = model[0](x).chunk(2, -1)
        z = mean + torch.randn_like(mean) * (0.5 * log).exp()
        divergence = -0.5 * (1 + log - mean.square() - log.exp()).sum(-1).mean()
        return F.binary_cross_entropy_with_logits(model[1](z), x) + divergence

    return loss, adamw(model)


@program("radiance field")
def _(device: str) -> Any:
    model = mlp(39, 64, 64, 4).to(device)
    rays = torch.rand(64, 16, 3, device=device)

    def loss() -> Tensor:
        waves = [f(rays * 2**i) for i in range(6) for f in (torch.sin, torch.cos)]
        out = model(torch.cat([rays, *waves], -1))
        alpha = 1 - torch.exp(-F.relu(out[..., 3]))
        through = torch.cumprod(1 - alpha + 1e-6, -1)
        return ((alpha * through)[..., None] * out[..., :3].sigmoid()).sum(1).square().mean()

    return loss, adamw(model)


@program("state space")
def _(device: str) -> Any:
    model = nn.ParameterDict(
        {"a": torch.rand(64, 8), "b": torch.randn(64, 8), "c": torch.randn(64, 8)}
    ).to(device)  # fmt: skip
    x = torch.randn(8, 20, 64, device=device)

    def loss() -> Tensor:
        state, outputs = torch.zeros(8, 64, 8, device=device), []
        for t in range(20):
            state = torch.sigmoid(model["a"]) * state + model["b"] * x[:, t, :, None]
            outputs.append((state * model["c"]).sum(-1))
        return torch.stack(outputs, 1).square().mean()

    return loss, adamw(model)


@program("neural differential equation")
def _(device: str) -> Any:
    model = mlp(32, 128, 32, activation=nn.Tanh).to(device)
    x = torch.randn(200, 32, device=device)

    def loss() -> Tensor:
        h = x
        for _ in range(5):
            k = model(h)
            h = h + 0.1 * model(h + 0.05 * k)
        return h.square().mean()

    return loss, adamw(model)


@program("coupling flow")
def _(device: str) -> Any:
    model = nn.ModuleList(mlp(16, 64, 32) for _ in range(3)).to(device)
    x = torch.randn(200, 32, device=device)

    def loss() -> Tensor:
        a, b, total = x[:, :16], x[:, 16:], 0.0
        for layer in model:
            scale, shift = layer(a).chunk(2, -1)
            a, b = b * scale.tanh().exp() + shift, a
            total = total + scale.tanh().sum(-1)
        return (0.5 * (a.square() + b.square()).sum(-1) - total).mean()

    return loss, adamw(model)


@program("distillation")
def _(device: str) -> Any:
    model, teacher = mlp(64, 100, 50).to(device), mlp(64, 400, 50).to(device)
    x = torch.randn(200, 64, device=device)

    def loss() -> Tensor:
        with torch.no_grad():
            wanted = (teacher(x) / 2).softmax(-1)
        return F.kl_div((model(x) / 2).log_softmax(-1), wanted, reduction="batchmean")

    return loss, adamw(model)


@program("kolmogorov-arnold layer")
def _(device: str) -> Any:
    model = nn.ParameterList([torch.randn(20, 16, 8) * 0.1, torch.randn(5, 20, 8) * 0.1]).to(device)
    x, y = torch.randn(100, 16, device=device), classes(100, 5, device)
    knots = torch.linspace(-2, 2, 8, device=device)

    def loss() -> Tensor:
        h = x
        for weight in model:
            h = torch.einsum("nik,oik->no", torch.exp(-(h[..., None] - knots).square()), weight)
        return F.cross_entropy(h, y)

    return loss, adamw(model)


@program("squeeze and excitation")
def _(device: str) -> Any:
    model = nn.ModuleList([mlp(32, 8, 32), nn.Linear(32, 10)]).to(device)
    x, y = torch.randn(8, 32, 24, 24, device=device), classes(8, 10, device)

    def loss() -> Tensor:
        gate = model[0](x.mean((2, 3))).sigmoid()
        return F.cross_entropy(model[1]((x * gate[:, :, None, None]).amax((2, 3))), y)

    return loss, adamw(model)


@program("mlp mixer")
def _(device: str) -> Any:
    model = nn.ModuleList([mlp(16, 64, 16, activation=nn.GELU), mlp(48, 96, 48, activation=nn.GELU)]).to(device)
    x = torch.randn(8, 16, 48, device=device)

    def loss() -> Tensor:
        h = x + model[0](x.transpose(1, 2)).transpose(1, 2)
        return (h + model[1](h)).square().mean()

    return loss, adamw(model)


# ---- models of `transformers` ---------------------------------------------------------------------------------------
for family in families.FAMILIES:

    @program(f"transformers: {family}")
    def _(device: str, family: str = family) -> Any:
        model, loss = families.build(family, device)
        return loss, adamw(model)


for family in ("gpt2", "llama", "bert", "vit", "bart", "qwen3"):

    @program(f"transformers: {family}, eager attention")
    def _(device: str, family: str = family) -> Any:
        model, loss = families.build(family, device, attn_implementation="eager")
        return loss, adamw(model)


for family in ("gpt2", "llama", "bert", "t5", "bart", "qwen3"):

    @program(f"transformers: {family}, autocast")
    def _(device: str, family: str = family) -> Any:
        model, inner = families.build(family, device)

        def loss() -> Tensor:
            with torch.autocast("cuda", dtype=torch.bfloat16):
                return inner()

        return loss, adamw(model)


for family in ("llama", "qwen2", "gemma", "mixtral"):

    @program(f"transformers: {family}, in bfloat16")
    def _(device: str, family: str = family) -> Any:
        model, loss = families.build(family, device)
        return loss, adamw(model.bfloat16())
