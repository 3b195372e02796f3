"""More training programs. They were written when the rules were done, by somebody who wanted to find a wrong one."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from programs import (
    Language,
    adamw,
    classes,
    conv,
    graph,
    language,
    loop,
    mlp,
    program,
    small,
    two_steps,
    without_cudnn,
)
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

# ---- images ---------------------------------------------------------------------------------------------------------
Images = tuple[nn.Module, Callable[[], Tensor]]


def pictures(device: str, n: int = 6, size: int = 32) -> tuple[Tensor, Tensor]:
    return torch.randn(n, 3, size, size, device=device), classes(n, 10, device)


def squeezed(device: str) -> Images:
    """Shuffled channels, groups, and two kinds of pooling at the end."""
    model = nn.Sequential(
        conv(3, 16), nn.ChannelShuffle(4), nn.Conv2d(16, 32, 3, padding=1, groups=4), nn.AdaptiveMaxPool2d(5),
        nn.PixelUnshuffle(5), nn.Flatten(), nn.Linear(800, 10),
    ).to(device)  # fmt: skip
    x, y = pictures(device)
    return model, lambda: F.cross_entropy(model(x), y)


def larger(device: str) -> Images:
    """An image of twice the size, by a shuffle of pixels."""
    model = nn.Sequential(nn.Conv2d(3, 16, 5, padding=2), nn.Tanh(), nn.Conv2d(16, 12, 3, padding=1))
    model = nn.Sequential(model, nn.PixelShuffle(2)).to(device)
    x, y = torch.rand(4, 3, 24, 24, device=device), torch.rand(4, 3, 48, 48, device=device)
    return model, lambda: F.l1_loss(model(x), y)


def pyramid(device: str) -> Images:
    """Features of two sizes, joined, and a loss for each pixel."""
    model = nn.ModuleDict(
        {"a": conv(3, 16), "b": conv(16, 24), "top": nn.Conv2d(24, 16, 1), "out": nn.Conv2d(16, 5, 1)}
    )
    model = model.to(device)
    x, y = torch.randn(4, 3, 40, 40, device=device), torch.randint(5, (4, 40, 40), device=device)

    def loss() -> Tensor:
        a = model["a"](x)
        b = model["top"](model["b"](F.avg_pool2d(a, 2)))
        joined = a + F.interpolate(b, size=a.shape[2:], mode="bilinear", align_corners=False)
        return F.cross_entropy(model["out"](joined), y, weight=torch.ones(5, device=device), ignore_index=4)

    return model, loss


def boxes(device: str) -> Images:
    """Two heads: a class for each place, and a box where there is something."""
    model = nn.ModuleDict(
        {
            "body": nn.Sequential(conv(3, 16), nn.MaxPool2d(2), conv(16, 16)),
            "what": nn.Conv2d(16, 4, 3, padding=1),
            "where": nn.Conv2d(16, 4, 3, padding=1),
        }
    ).to(device)
    x, y = torch.randn(4, 3, 32, 32, device=device), torch.randint(2, (4, 4, 16, 16), device=device).float()
    target = torch.rand(4, 4, 16, 16, device=device)

    def loss() -> Tensor:
        h = model["body"](x)
        p = model["what"](h).sigmoid()
        focal = -(y * (1 - p) ** 2 * torch.log(p + 1e-6) + (1 - y) * p**2 * torch.log(1 - p + 1e-6)).mean()
        return focal + F.smooth_l1_loss(model["where"](h) * y, target * y)

    return model, loss


def critic(device: str) -> Images:
    """The penalty of a Wasserstein critic: the gradient of a gradient through convolutions."""
    model = nn.Sequential(nn.Conv2d(3, 8, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(8, 16, 4, 2, 1), nn.InstanceNorm2d(16),
                          nn.LeakyReLU(0.2), nn.Flatten(), nn.Linear(1024, 1)).to(device)  # fmt: skip
    real, made = torch.randn(4, 3, 32, 32, device=device), torch.randn(4, 3, 32, 32, device=device)

    def loss() -> Tensor:
        between = torch.lerp(real, made, torch.rand(4, 1, 1, 1, device=device)).requires_grad_()
        (slope,) = torch.autograd.grad(model(between).sum(), between, create_graph=True)
        penalty = (slope.flatten(1).norm(2, dim=1) - 1).square().mean()
        return model(made).mean() - model(real).mean() + 10 * penalty

    return model, loss


def dense(device: str) -> Images:
    """Every layer sees the outputs of all layers before it."""
    layers = nn.ModuleList(nn.Sequential(nn.BatchNorm2d(8 * (i + 1)), nn.ReLU(), nn.Conv2d(8 * (i + 1), 8, 3, 1, 1))
                           for i in range(4))  # fmt: skip
    model = nn.ModuleDict({"first": nn.Conv2d(3, 8, 3, 1, 1), "layers": layers, "head": nn.Linear(40, 10)}).to(device)
    x, y = pictures(device)

    def loss() -> Tensor:
        h = [model["first"](x)]
        for layer in layers:
            h.append(layer(torch.cat(h, 1)))
        return F.cross_entropy(model["head"](torch.cat(h, 1).mean((2, 3))), y)

    return model, loss


def checkpointed(device: str) -> Images:
    model = nn.ModuleList([conv(3, 16), conv(16, 16), conv(16, 32), nn.Linear(32, 10)]).to(device)
    x, y = pictures(device)

    def loss() -> Tensor:
        h = x
        for layer in model[:3]:
            h = checkpoint(layer, h, use_reentrant=False)
        return F.cross_entropy(model[3](F.adaptive_max_pool2d(h, 1).flatten(1)), y)

    return model, loss


def mobile(device: str) -> Images:
    """Inverted residuals, channels last, under autocast."""

    def block(a: int, b: int) -> nn.Sequential:
        return nn.Sequential(nn.Conv2d(a, 4 * a, 1, bias=False), nn.BatchNorm2d(4 * a), nn.ReLU6(inplace=True),
                             nn.Conv2d(4 * a, 4 * a, 3, 1, 1, groups=4 * a, bias=False), nn.BatchNorm2d(4 * a),
                             nn.ReLU6(inplace=True), nn.Conv2d(4 * a, b, 1, bias=False), nn.BatchNorm2d(b))  # fmt: skip

    model = nn.Sequential(conv(3, 8), block(8, 16), block(16, 16), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    model = nn.Sequential(model, nn.Dropout(0.2), nn.Linear(16, 10)).to(device, memory_format=torch.channels_last)
    x, y = pictures(device)

    def loss() -> Tensor:
        with torch.autocast("cuda", dtype=torch.float16):
            return F.cross_entropy(model(x.contiguous(memory_format=torch.channels_last)), y)

    return model, loss


def noise(device: str) -> Images:
    """A small score network with group norms, attention over pixels, and a moving average outside."""
    model = nn.ModuleDict({"first": nn.Conv2d(3, 16, 3, 1, 1), "norm": nn.GroupNorm(4, 16), "qkv": nn.Conv2d(16, 48, 1),
                           "out": nn.Conv2d(16, 16, 1), "time": mlp(16, 32, 16, activation=nn.SiLU),
                           "last": nn.Conv2d(16, 3, 3, 1, 1)}).to(device)  # fmt: skip
    x = torch.randn(4, 3, 16, 16, device=device)

    def loss() -> Tensor:
        t = torch.rand(4, device=device)
        waves = t[:, None] * torch.exp(torch.linspace(0, 4, 8, device=device))
        step = model["time"](torch.cat([waves.sin(), waves.cos()], -1))
        target = torch.randn_like(x)
        h = F.silu(model["first"](x + t[:, None, None, None] * target)) + step[:, :, None, None]
        q, k, v = model["qkv"](model["norm"](h)).flatten(2).transpose(1, 2).reshape(4, 256, 3, 16).unbind(2)
        mixed = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(4, 16, 16, 16)
        return F.mse_loss(model["last"](h + model["out"](mixed)), target)

    return model, loss


IMAGES: dict[str, Callable[[str], Images]] = {
    "shuffled channels": squeezed,
    "super-resolution": larger,
    "feature pyramid": pyramid,
    "detector": boxes,
    "critic with a penalty": critic,
    "densely connected": dense,
    "checkpointed convolutions": checkpointed,
    "score network": noise,
}
for title, make in IMAGES.items():
    for cudnn in (True, False):

        @program(f"{title}, {'cuDNN' if cudnn else 'native'}")
        def _(device: str, make: Any = make, cudnn: bool = cudnn) -> Any:
            model, loss = make(device)
            run = two_steps(loss, adamw(model))
            return run if cudnn else without_cudnn(run)


@program("inverted residuals, channels last, autocast")
def _(device: str) -> Any:
    model, loss = mobile(device)
    return loss, torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, weight_decay=1e-4)


# ---- language models ------------------------------------------------------------------------------------------------
class Modern(nn.Module):
    """Rotated positions, grouped queries, a gated layer, and norms in float32, as they are written by hand."""

    def __init__(self, d: int = 64, heads: int = 4, groups: int = 2, words: int = 500, layers: int = 2):
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, d // heads
        self.words = nn.Embedding(words, d)
        self.q = nn.ModuleList(nn.Linear(d, d, bias=False) for _ in range(layers))
        self.kv = nn.ModuleList(nn.Linear(d, 2 * groups * self.size, bias=False) for _ in range(layers))
        self.o = nn.ModuleList(nn.Linear(d, d, bias=False) for _ in range(layers))
        self.up = nn.ModuleList(nn.Linear(d, 6 * d, bias=False) for _ in range(layers))
        self.down = nn.ModuleList(nn.Linear(3 * d, d, bias=False) for _ in range(layers))
        self.scales = nn.ParameterList(torch.ones(d) for _ in range(2 * layers + 1))

    def norm(self, x: Tensor, scale: Tensor) -> Tensor:
        wide = x.float()
        return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)).type_as(x) * scale

    def rotate(self, x: Tensor) -> Tensor:
        angles = torch.outer(torch.arange(x.shape[1], device=x.device).float(),
                             10000 ** -torch.linspace(0, 1, self.size // 2, device=x.device))  # fmt: skip
        turn = torch.polar(torch.ones_like(angles), angles)[:, None]
        pairs = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)))
        return torch.view_as_real(pairs * turn).flatten(-2).type_as(x)

    def forward(self, ids: Tensor) -> Tensor:
        n, t = ids.shape
        x = self.words(ids)
        for i in range(len(self.q)):
            h = self.norm(x, self.scales[2 * i])
            q = self.rotate(self.q[i](h).view(n, t, self.heads, self.size)).transpose(1, 2)
            k, v = self.kv[i](h).view(n, t, 2, self.groups, self.size).unbind(2)
            k, v = (s.transpose(1, 2).repeat_interleave(self.heads // self.groups, 1) for s in (self.rotate(k), v))
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.o[i](mixed.transpose(1, 2).reshape(n, t, -1))
            gate, up = self.up[i](self.norm(x, self.scales[2 * i + 1])).chunk(2, -1)
            x = x + self.down[i](F.silu(gate) * up)
        return self.norm(x, self.scales[-1]) @ self.words.weight.t()


def next_words(model: nn.Module, device: str) -> Callable[[], Tensor]:
    ids = torch.randint(500, (4, 49), device=device)
    return lambda: F.cross_entropy(model(ids[:, :-1]).flatten(0, 1).float(), ids[:, 1:].flatten())


for dtype in (torch.float32, torch.bfloat16):

    @program(f"modern language model, {str(dtype)[6:]}")
    def _(device: str, dtype: torch.dtype = dtype) -> Any:
        model = Modern().to(device, dtype)
        return next_words(model, device), adamw(model)


@program("modern language model, autocast, three parts accumulated, clipped")
def _(device: str) -> Any:
    model = Modern().to(device)
    loss, optimizer = next_words(model, device), torch.optim.AdamW(model.parameters(), fused=True)

    def compute() -> Tensor:
        for _ in range(2):
            with torch.autocast("cuda", dtype=torch.bfloat16):
                part = loss() / 3
            part.backward()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            return loss() / 3

    def update() -> None:
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    return loop(compute, optimizer, update=update)


@program("language model made in bfloat16 on the device")
def _(device: str) -> Any:
    torch.set_default_dtype(torch.bfloat16)
    with torch.device(device):
        model = Language()
    torch.set_default_dtype(torch.float32)
    return next_words(model, device), adamw(model)


@program("language model with the loss in chunks")
def _(device: str) -> Any:
    model, _ = language(device)
    ids = torch.randint(500, (4, 65), device=device)

    def part(h: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(model.head(h), y, reduction="sum")

    def loss() -> Tensor:
        x = model.words(ids[:, :-1]) + model.places(torch.arange(64, device=device))
        for block in model.blocks:
            x = block(x)
        h, y = model.norm(x).flatten(0, 1), ids[:, 1:].flatten()
        parts = [checkpoint(part, a, b, use_reentrant=False) for a, b in zip(h.chunk(4), y.chunk(4), strict=True)]
        return torch.stack(parts).sum() / y.numel()

    return loss, adamw(model)


@program("preferences of a language model")
def _(device: str) -> Any:
    model, fixed = Language(layers=2).to(device), Language(layers=2).to(device).requires_grad_(False).eval()
    chosen, rejected = (torch.randint(500, (3, 33), device=device) for _ in range(2))

    def likelihood(m: nn.Module, ids: Tensor) -> Tensor:
        return m(ids[:, :-1]).log_softmax(-1).gather(2, ids[:, 1:, None]).squeeze(2).sum(1)

    def loss() -> Tensor:
        with torch.no_grad():
            before = likelihood(fixed, chosen) - likelihood(fixed, rejected)
        return -F.logsigmoid(0.1 * (likelihood(model, chosen) - likelihood(model, rejected) - before)).mean()

    return loss, adamw(model)


@program("proximal policy")
def _(device: str) -> Any:
    model = nn.ModuleDict({"body": mlp(16, 64, 64), "policy": nn.Linear(64, 6), "value": nn.Linear(64, 1)}).to(device)
    x, gain = torch.randn(256, 16, device=device), torch.randn(256, device=device)
    action, old = classes(256, 6, device), torch.randn(256, device=device)

    def loss() -> Tensor:
        h = model["body"](x)
        policy = torch.distributions.Categorical(logits=model["policy"](h), validate_args=False)
        ratio = (policy.log_prob(action) - old).exp()
        clipped = torch.min(ratio * gain, ratio.clamp(0.8, 1.2) * gain).mean()
        return F.mse_loss(model["value"](h).squeeze(-1), gain) - clipped - 0.01 * policy.entropy().mean()

    return loss, adamw(model)


@program("actor whose actions follow a Beta distribution")
def _(device: str) -> Any:
    model = mlp(16, 64, 8).to(device)
    x = torch.randn(256, 16, device=device)

    def loss() -> Tensor:
        a, b = (F.softplus(model(x)) + 1).chunk(2, -1)
        policy = torch.distributions.Beta(a, b, validate_args=False)
        action = policy.rsample()
        return (policy.log_prob(action).sum(-1) + action.square().sum(-1)).mean()

    return loss, adamw(model)


@program("topics of documents")
def _(device: str) -> Any:
    model = nn.ModuleList([mlp(300, 64, 20), nn.Linear(20, 300)]).to(device)
    words = torch.rand(64, 300, device=device)

    def loss() -> Tensor:
        alpha = F.softplus(model[0](words)) + 0.1
        posterior = torch.distributions.Dirichlet(alpha, validate_args=False)
        prior = torch.distributions.Dirichlet(torch.ones_like(alpha), validate_args=False)
        rebuilt = -(words * model[1](posterior.rsample()).log_softmax(-1)).sum(-1)
        return (rebuilt + torch.distributions.kl_divergence(posterior, prior)).mean()

    return loss, adamw(model)


@program("vector quantisation")
def _(device: str) -> Any:
    model = nn.ModuleDict({"in": mlp(64, 100, 16), "book": nn.Embedding(50, 16), "out": mlp(16, 100, 64)}).to(device)
    x = torch.randn(200, 64, device=device)

    def loss() -> Tensor:
        z = model["in"](x)
        nearest = torch.cdist(z, model["book"].weight).argmin(1)
        q = model["book"](nearest)
        straight = z + (q - z).detach()
        return F.mse_loss(model["out"](straight), x) + F.mse_loss(q, z.detach()) + 0.25 * F.mse_loss(z, q.detach())

    return loss, adamw(model)


@program("two views of each image")
def _(device: str) -> Any:
    model = nn.Sequential(mlp(100, 200, 64), nn.BatchNorm1d(64)).to(device)
    x = torch.randn(128, 100, device=device)

    def loss() -> Tensor:
        a, b = (model(x + 0.1 * torch.randn_like(x)) for _ in range(2))
        both = F.normalize(torch.cat([a, b]), dim=-1)
        scores = both @ both.t() / 0.5
        scores = scores.masked_fill(torch.eye(256, dtype=torch.bool, device=device), -1e9)
        return F.cross_entropy(scores, torch.arange(256, device=device).roll(128))

    return loss, adamw(model)


@program("teacher that follows its student")
def _(device: str) -> Any:
    student, teacher = mlp(100, 200, 64).to(device), mlp(100, 200, 64).to(device).requires_grad_(False)
    x, optimizer = torch.randn(128, 100, device=device), adamw(student)

    def compute() -> Tensor:
        with torch.no_grad():
            wanted = F.softmax(teacher(x) / 0.04, -1)
        return -(wanted * F.log_softmax(student(x) / 0.1, -1)).sum(-1).mean()

    def update() -> None:
        optimizer.step()
        with torch.no_grad():
            for a, b in zip(teacher.parameters(), student.parameters(), strict=True):
                a.mul_(0.99).add_(b, alpha=0.01)

    return loop(compute, optimizer, update=update)


@program("sharpness-aware steps")
def _(device: str) -> Any:
    model, loss = small(device)
    optimizer = adamw(model)

    def update() -> None:
        moved = [(p, 0.05 * p.grad / (p.grad.norm() + 1e-12)) for p in model.parameters()]
        with torch.no_grad():
            for p, e in moved:
                p.add_(e)
        optimizer.zero_grad()
        loss().backward()
        with torch.no_grad():
            for p, e in moved:
                p.sub_(e)
        optimizer.step()

    return loop(loss, optimizer, update=update)


@program("a step inside a step, two tasks")
def _(device: str) -> Any:
    model = mlp(40, 120, 10).to(device)
    tasks = [(torch.randn(32, 40, device=device), classes(32, 10, device)) for _ in range(2)]

    def loss() -> Tensor:
        total = torch.zeros((), device=device)
        for x, y in tasks:
            weights = dict(model.named_parameters())
            for _ in range(2):
                inner = F.cross_entropy(torch.func.functional_call(model, weights, (x,)), y)
                slopes = torch.autograd.grad(inner, list(weights.values()), create_graph=True)
                weights = {k: w - 0.1 * g for (k, w), g in zip(weights.items(), slopes, strict=True)}
            total = total + F.cross_entropy(torch.func.functional_call(model, weights, (x,)), y)
        return total

    return loss, adamw(model)


@program("gradients of each sample, clipped and noised")
def _(device: str) -> Any:
    model = mlp(40, 60, 10).to(device)
    x, y, optimizer = torch.randn(32, 40, device=device), classes(32, 10, device), adamw(model)

    def one(weights: Any, row: Tensor, label: Tensor) -> Tensor:
        return F.cross_entropy(torch.func.functional_call(model, weights, (row[None],)), label[None])

    def update() -> None:
        weights = {name: p.detach() for name, p in model.named_parameters()}
        each = torch.func.vmap(torch.func.grad(one), (None, 0, 0))(weights, x, y)
        norms = torch.stack([g.flatten(1).norm(dim=1) for g in each.values()]).norm(dim=0)
        scale = (1 / (norms + 1e-6)).clamp(max=1)
        for name, p in model.named_parameters():
            g = each[name]
            p.grad = (g * scale.view(-1, *[1] * (g.dim() - 1))).sum(0) + 0.1 * torch.randn_like(p)
        optimizer.step()

    return loop(lambda: F.cross_entropy(model(x), y), optimizer, update=update)


# ---- graphs, sequences, points --------------------------------------------------------------------------------------
@program("graph: isomorphism network, batch norm")
def _(device: str) -> Any:
    model = nn.ModuleList([nn.Sequential(mlp(32, 64, 32), nn.BatchNorm1d(32)) for _ in range(3)] + [nn.Linear(32, 5)])
    model = model.to(device)
    x, a, b, y = graph(device)

    def loss() -> Tensor:
        h = x
        for layer in model[:-1]:
            h = F.relu(layer(1.1 * h + torch.zeros_like(h).index_add_(0, b, h[a])))
        return F.cross_entropy(model[-1](h), y)

    return loss, adamw(model)


@program("graph: messages along edges, softmax by node")
def _(device: str) -> Any:
    model = nn.ModuleDict({"edge": mlp(64, 64, 33), "node": mlp(64, 64, 32), "out": nn.Linear(32, 5)}).to(device)
    x, a, b, y = graph(device)

    def loss() -> Tensor:
        h = x
        for _ in range(2):
            score, message = model["edge"](torch.cat([h[a], h[b]], -1)).split([1, 32], -1)
            top = torch.full((300, 1), -math.inf, device=device)
            top = top.scatter_reduce(0, b[:, None], score.detach(), "amax").nan_to_num(0.0)
            weight = (score - top[b]).exp()
            total = torch.zeros(300, 1, device=device).scatter_add(0, b[:, None], weight)
            gathered = torch.zeros(300, 32, device=device).scatter_add(
                0, b[:, None].expand(-1, 32), message * weight / (total[b] + 1e-9)
            )
            h = h + model["node"](torch.cat([h, gathered], -1))
        return F.cross_entropy(model["out"](h), y)

    return loss, adamw(model)


@program("clouds of points")
def _(device: str) -> Any:
    model = nn.ModuleList([mlp(6, 32, 64), mlp(128, 64, 64), nn.Linear(64, 10)]).to(device)
    x, y = torch.randn(4, 100, 3, device=device), classes(4, 10, device)

    def loss() -> Tensor:
        near = torch.cdist(x, x).topk(8, largest=False).indices
        neighbours = x.gather(1, near.flatten(1)[..., None].expand(-1, -1, 3)).unflatten(1, (100, 8))
        h = model[0](torch.cat([neighbours - x[:, :, None], x[:, :, None].expand_as(neighbours)], -1)).amax(2)
        h = model[1](torch.cat([h, h.amax(1, keepdim=True).expand_as(h)], -1))
        return F.cross_entropy(model[2](h.amax(1)), y)

    return loss, adamw(model)


@program("temporal convolutions")
def _(device: str) -> Any:
    weighted = nn.utils.parametrizations.weight_norm
    model = nn.ModuleList(weighted(nn.Conv1d(16, 16, 3, dilation=2**i)) for i in range(4)).to(device)
    x = torch.randn(4, 16, 100, device=device)

    def loss() -> Tensor:
        h = x
        for i, layer in enumerate(model):
            h = h + F.dropout(F.relu(layer(F.pad(h, (2 ** (i + 1), 0)))), 0.1)
        return F.mse_loss(h[:, :, :-1], x[:, :, 1:])

    return without_cudnn(two_steps(loss, adamw(model)))


@program("sequence to sequence with attention")
def _(device: str) -> Any:
    with torch.backends.cudnn.flags(enabled=False):  # or it would ask cuDNN how the weights should lie
        reader = nn.GRU(24, 32, batch_first=True, bidirectional=True)
        model = nn.ModuleDict({"reader": reader, "cell": nn.LSTMCell(88, 64), "out": nn.Linear(64, 30)}).to(device)
    x, y = torch.randn(4, 15, 24, device=device), torch.randint(30, (4, 6), device=device)

    def loss() -> Tensor:
        memory, total = model["reader"](x)[0], torch.zeros((), device=device)
        h = c = torch.zeros(4, 64, device=device)
        for t in range(6):
            weights = torch.bmm(memory, h[:, :, None]).squeeze(-1).softmax(-1)
            context = torch.bmm(weights[:, None], memory).squeeze(1)
            h, c = model["cell"](torch.cat([x[:, t], context], -1), (h, c))
            total = total + F.cross_entropy(model["out"](h), y[:, t])
        return total / 6

    return without_cudnn(two_steps(loss, adamw(model)))


@program("linear attention")
def _(device: str) -> Any:
    model = nn.ModuleDict({"qkv": nn.Linear(64, 192), "out": nn.Linear(64, 64)}).to(device)
    x = torch.randn(4, 50, 64, device=device)

    def loss() -> Tensor:
        q, k, v = (t.unflatten(-1, (4, 16)) for t in model["qkv"](x).chunk(3, -1))
        q, k = F.elu(q) + 1, F.elu(k) + 1
        state = torch.einsum("nthd,nthe->nthde", k, v).cumsum(1)
        norm = torch.einsum("nthd,nthd->nth", q, k.cumsum(1))
        mixed = torch.einsum("nthd,nthde->nthe", q, state) / (norm[..., None] + 1e-6)
        return F.mse_loss(model["out"](mixed.flatten(2)), x)

    return loss, adamw(model)


@program("factors of a tensor")
def _(device: str) -> Any:
    model = nn.ParameterList(torch.randn(n, 8) for n in (30, 40, 50)).to(device)
    x = torch.randn(30, 40, 50, device=device)
    return lambda: (torch.einsum("ir,jr,kr->ijk", *model) - x).square().mean(), adamw(model)


@program("dictionary of features, top few kept")
def _(device: str) -> Any:
    model = nn.ModuleList([nn.Linear(64, 512), nn.Linear(512, 64)]).to(device)
    x = torch.randn(256, 64, device=device)

    def loss() -> Tensor:
        h = F.relu(model[0](x))
        values, places = h.topk(16)
        kept = torch.zeros_like(h).scatter_(-1, places, values)
        return (model[1](kept) - x).square().sum(-1).mean()

    return loss, adamw(model)


@program("model moved to the device part by part")
def _(device: str) -> Any:
    parts = [mlp(100, 700, 100) for _ in range(4)]
    x = torch.randn(64, 100, device=device)
    held = [part.to(device) for part in parts]
    del held[1], parts[1]
    model = nn.Sequential(*parts)
    return lambda: model(x).square().mean(), torch.optim.Adam(model.parameters())


@program("blocks that are cached before the first step")
def _(device: str) -> Any:
    scratch = [torch.randn(n * 1000, device=device) for n in (40, 300, 700, 90, 1500)]
    del scratch[1], scratch[2]
    model = mlp(128, 900, 900, 10).to(device)
    kept, optimizer = scratch[-1], adamw(model)
    del scratch
    x, y = torch.randn(64, 128, device=device), classes(64, 10, device)
    return two_steps(lambda: F.cross_entropy(model(x), y) + 0 * kept.sum(), optimizer)


@program("a rehearsal before training")
def _(device: str) -> Any:
    model, loss = small(device)
    loss().backward()
    model.zero_grad()
    return loss, adamw(model)


@program("data that is normalised on the device first")
def _(device: str) -> Any:
    raw = torch.randint(256, (400, 300), dtype=torch.uint8, device=device)
    x = raw.float().div_(255)
    x = (x - x.mean(0)) / (x.std(0) + 1e-6)
    model, y = mlp(300, 500, 10).to(device).to(torch.bfloat16), classes(400, 10, device)
    return lambda: F.cross_entropy(model(x.bfloat16()).float(), y), torch.optim.SGD(model.parameters(), 0.1)


HOOKED: dict[str, Callable[[nn.Module], object]] = {
    "forward hook that keeps outputs": lambda m: _keep_outputs(m),
    "gradients halved by hooks": lambda m: [p.register_hook(lambda g: 0.5 * g) for p in m.parameters()],
}


def _keep_outputs(model: nn.Module) -> list[Tensor]:
    kept: list[Tensor] = []
    for layer in model:  # type: ignore[attr-defined]
        layer.register_forward_hook(lambda module, given, out: kept.append(out.detach()) or kept.__delitem__(slice(-8)))
    return kept


for title, install in HOOKED.items():

    @program(title)
    def _(device: str, install: Any = install) -> Any:
        model, loss = small(device)
        model.installed = install(model)
        return loss, adamw(model)


OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "Adam with a tensor as its rate, capturable": lambda p: torch.optim.Adam(
        p, lr=torch.tensor(1e-3, device=next(iter(p)).device), capturable=True
    ),
    "Adam with decay, foreach": lambda p: torch.optim.Adam(p, foreach=True, weight_decay=0.1),
    "NAdam decoupled, maximize": lambda p: torch.optim.NAdam(
        p, decoupled_weight_decay=True, weight_decay=0.1, maximize=True
    ),
    "RAdam with decay": lambda p: torch.optim.RAdam(p, weight_decay=0.1),
    "Rprop maximize": lambda p: torch.optim.Rprop(p, maximize=True),
    "RMSprop with decay": lambda p: torch.optim.RMSprop(p, weight_decay=0.1, momentum=0.5),
    "Adadelta with decay": lambda p: torch.optim.Adadelta(p, weight_decay=0.1),
    "Adagrad with decay": lambda p: torch.optim.Adagrad(p, weight_decay=0.1, lr_decay=0.1),
    "Adamax maximize": lambda p: torch.optim.Adamax(p, maximize=True, weight_decay=0.1),
    "SGD maximize": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, dampening=0.5, maximize=True),
    "SGD fused with decay": lambda p: torch.optim.SGD(
        p, 0.1, momentum=0.9, weight_decay=0.1, nesterov=True, fused=True
    ),
}
for title, make_optimizer in OPTIMIZERS.items():

    @program(f"optimizer {title}")
    def _(device: str, make_optimizer: Any = make_optimizer) -> Any:
        model = mlp(200, 700, 300, 10).to(device)
        x, y = torch.randn(128, 200, device=device), classes(128, 10, device)
        return lambda: F.cross_entropy(model(x), y), make_optimizer(list(model.parameters()))
