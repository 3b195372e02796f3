"""as_cuda against torch's own C++: its lists, its dispatcher on fake CUDA tensors, its profiler, its kernels."""

import contextlib
import math
import threading
import warnings

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.optim import optimizer as optimizers
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.checkpoint import checkpoint

from ckptlib.cuda.gpus import at_release, preset
from ckptlib.cuda.op_choice.autocast import FLOAT, FLOAT_APPENDED, FLOAT_OUT, LISTED, LOWER, WIDEST
from ckptlib.cuda.op_choice.cuda_dispatch import UnknownOnCuda, as_cuda, is_host
from ckptlib.errors import CkptError

A100 = at_release(preset("a100"), "2.13")
HALVES = (torch.float16, torch.bfloat16)
DTYPES = (torch.float32, *HALVES)


class Log(TorchDispatchMode):
    """Every op below autograd with the dtypes and shapes it returns; how many sums wrote on their first argument."""

    def __init__(self):
        super().__init__()
        self.ops = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if func.namespace == "aten":
            made = [(str(t.dtype)[6:], tuple(t.shape)) for t in tree_leaves(out) if isinstance(t, torch.Tensor)]
            self.ops.append((str(func)[5:].removesuffix(".default"), made))
        return out

    @property
    def names(self):
        return [name for name, _ in self.ops]


def run(fn, fake=False, gpu=A100):
    with as_cuda(gpu), fakes(fake), Log() as log:
        fn()
    return log


def fakes(fake):
    return FakeTensorMode(allow_non_fake_inputs=True) if fake else contextlib.nullcontext()


def same_on_fakes(fn, gpu=A100):
    """The log of `fn`, after making sure that fake tensors give the same one. A fake Parameter is made by a detach."""
    real, fake = run(fn, gpu=gpu), run(fn, fake=True, gpu=gpu)
    assert [op for op in real.ops if op[0] != "detach"] == [op for op in fake.ops if op[0] != "detach"]
    return real


def saved_bytes(fn):
    """Bytes of the storages that autograd keeps on the device for `fn`; also the parameters it needs."""
    storages = {}

    def pack(t):
        if not is_host(t):
            storages[t.untyped_storage()._cdata] = t.untyped_storage()
        return t

    with as_cuda(A100), torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        out = fn()  # noqa: F841  alive until the storages are counted
        return sum(s.nbytes() for s in storages.values())


def leaf(*shape, dtype=torch.float32):
    return torch.randn(*shape, dtype=dtype, requires_grad=True)


def close(a, b, dtype=torch.float32):
    torch.testing.assert_close(a, b, atol=2e-2 if dtype in HALVES else 1e-5, rtol=2e-2 if dtype in HALVES else 1e-4)


# --- dropout --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_dropout_keeps_one_byte_per_element(dtype):
    spellings = [lambda x: F.dropout(x, 0.5), lambda x: torch.dropout(x, 0.5, True), nn.Dropout(0.5)]
    for drop in spellings:
        x = leaf(64, 32, dtype=dtype)
        assert saved_bytes(lambda x=x, drop=drop: drop(x)) == 64 * 32
    log = same_on_fakes(lambda: F.dropout(leaf(4, 8, dtype=dtype), 0.5).sum().backward())
    assert {"native_dropout", "native_dropout_backward"} <= set(log.names)
    assert ("native_dropout", [(str(dtype)[6:], (4, 8)), ("bool", (4, 8))]) in log.ops


def test_dropout_is_right():
    x = torch.ones(1000, requires_grad=True)
    with as_cuda(A100):
        y = F.dropout(x, 0.25)
        y.sum().backward()
    assert y.unique().tolist() == pytest.approx([0, 4 / 3])
    torch.testing.assert_close(y.detach(), x.grad)  # the same mask, the same scale
    assert 150 < (y == 0).sum() < 350


def test_other_dropouts_are_the_same_on_both_devices():
    def others():
        x = torch.randn(4, 8, 3)
        F.dropout(x, 0.5, inplace=True)
        F.dropout(x, 0.0), F.dropout(x, 1.0), F.dropout(x, 0.5, training=False), F.dropout(torch.empty(0), 0.5)
        F.alpha_dropout(x, 0.5), F.feature_alpha_dropout(x, 0.5), F.dropout1d(x, 0.5)

    with Log() as plain:
        others()
    assert run(others).ops == plain.ops


# --- attention ------------------------------------------------------------------------------------------------------


def qkv(dtype, d=16, t=8, s=8, heads=4, kv_heads=4, dv=None):
    shapes = (2, heads, t, d), (2, kv_heads, s, d), (2, kv_heads, s, dv or d)
    return tuple(leaf(*shape, dtype=dtype) for shape in shapes)


bf16, f32, f16, f64 = torch.bfloat16, torch.float32, torch.float16, torch.float64
CHOICES = [  # what is special, the tensors, the rest of the call, the GPU, and the backend of sdp_utils.cpp
    ("half", {"dtype": bf16}, {}, "a100", "flash"),
    ("dropout", {"dtype": f16}, {"dropout_p": 0.1, "is_causal": True}, "a100", "flash"),
    ("float", {"dtype": f32}, {"is_causal": True}, "a100", "efficient"),
    ("float dropout", {"dtype": f32}, {"dropout_p": 0.1}, "a100", "efficient"),
    ("double", {"dtype": f64}, {}, "a100", "math"),
    ("mask", {"dtype": bf16}, {"mask": bf16}, "a100", "efficient"),
    ("boolean mask", {"dtype": bf16}, {"mask": torch.bool}, "a100", "efficient"),
    ("grouped", {"dtype": bf16, "kv_heads": 2}, {"enable_gqa": True}, "a100", "flash"),
    ("grouped float", {"dtype": f32, "kv_heads": 2}, {"enable_gqa": True}, "a100", "math"),
    ("padded heads", {"dtype": bf16, "d": 20}, {}, "a100", "flash"),
    ("wide heads", {"dtype": bf16, "d": 264}, {}, "a100", "efficient"),
    ("odd heads", {"dtype": f32, "d": 18}, {}, "a100", "math"),
    ("odd heads, old", {"dtype": f32, "d": 18}, {}, "v100", "efficient"),
    ("unequal heads", {"dtype": bf16, "dv": 8}, {}, "a100", "efficient"),
    ("causal rectangle", {"dtype": bf16, "s": 16}, {"is_causal": True}, "a100", "efficient"),
    ("old", {"dtype": f16}, {}, "v100", "efficient"),
    ("old bfloat16", {"dtype": bf16}, {}, "v100", "math"),
    ("256, consumer", {"dtype": bf16, "d": 256}, {"dropout_p": 0.1}, "rtx4090", "efficient"),
]


@pytest.mark.parametrize(("tensors", "rest", "gpu", "chosen"), [c[1:] for c in CHOICES], ids=[c[0] for c in CHOICES])
def test_attention_takes_cudas_backend_and_is_right(tensors, rest, gpu, chosen):
    rest = dict(rest)
    q, k, v = qkv(**tensors)
    if mask := rest.pop("mask", None):
        rest["attn_mask"] = torch.randn(8, 8).to(mask) if mask is not torch.bool else torch.ones(8, 8).tril().bool()

    def forward(q=q, k=k, v=v, **more):
        return F.scaled_dot_product_attention(q, k, v, **rest | more)

    log = run(lambda: forward().sum().backward(), gpu=gpu)
    fused = {"flash", "efficient", "cudnn"}
    ops = {name for name in fused if any(f"_{name}_attention" in op for op in log.names)}
    assert ops == ({chosen} if chosen in fused else set())
    assert ("bmm" in log.names) == (chosen == "math")
    fake = run(lambda: forward(*qkv(**tensors)).sum().backward(), fake=True, gpu=gpu)
    assert fake.names.count("bmm") == log.names.count("bmm")
    with as_cuda(gpu):
        mine = forward(dropout_p=0.0)
        mine_grads = torch.autograd.grad(mine.square().sum(), (q, k, v))
    with sdpa_kernel(SDPBackend.MATH):
        theirs = forward(dropout_p=0.0)
    theirs_grads = torch.autograd.grad(theirs.square().sum(), (q, k, v))
    for a, b in zip((mine, *mine_grads), (theirs, *theirs_grads), strict=True):
        scale = b.abs().max()
        close(a / scale, b / scale, tensors["dtype"])


def test_attention_saves_what_cuda_saves():
    n, h, t, d = 2, 4, 40, 16
    qkvo = 4 * n * h * t * d
    for dropout in (0.0, 0.1):
        half = saved_bytes(lambda p=dropout: F.scaled_dot_product_attention(*qkv(bf16, t=t, s=t), dropout_p=p))
        assert half == 2 * qkvo + 4 * n * h * t + 2 * 8 + 8  # log-sum-exp; the generator's state
        full = saved_bytes(lambda p=dropout: F.scaled_dot_product_attention(*qkv(f32, t=t, s=t), dropout_p=p))
        assert full == 4 * qkvo + 4 * n * h * 64  # log-sum-exp padded from 40 rows to 64; seeds on the host
    masked = saved_bytes(lambda: F.scaled_dot_product_attention(*qkv(f32, t=t, s=t), attn_mask=torch.randn(t, t)))
    assert masked == full + 4 * t * t


def test_attention_before_2_7_keeps_its_seeds_on_the_host():
    with as_cuda(at_release(preset("a100"), "2.6")):
        out = torch.ops.aten._scaled_dot_product_flash_attention(*qkv(bf16))
    assert is_host(out[6]) and is_host(out[7]) and not is_host(out[0])


def test_attention_pads_heads_and_masks():
    log = same_on_fakes(lambda: F.scaled_dot_product_attention(*qkv(bf16, d=20)).sum().backward())
    assert log.ops.count(("constant_pad_nd", [("bfloat16", (2, 4, 8, 24))])) >= 3
    mask = torch.ones(8, 10, dtype=torch.bool)
    log = same_on_fakes(lambda: F.scaled_dot_product_attention(*qkv(f32, s=10), attn_mask=mask).sum().backward())
    before = log.names[: log.names.index("_scaled_dot_product_efficient_attention")]
    before = [name for name in before if name != "randn"]
    assert before[-4:] == ["where.self", "constant_pad_nd", "slice.Tensor", "expand"]
    assert ("constant_pad_nd", [("float32", (8, 16))]) in log.ops


def test_mask_of_attention_can_be_trained():
    q, k, v = qkv(f32, t=8, s=12)
    mask = leaf(2, 4, 8, 12)
    grads = []
    for context in (as_cuda(A100), sdpa_kernel(SDPBackend.MATH)):
        with context:
            out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
            grads.append(torch.autograd.grad(out.square().sum(), mask)[0])
    close(*grads)


@pytest.mark.parametrize("dtype", DTYPES)
def test_math_attention_runs_cudas_ops(dtype):
    """The oracle is torch's dispatcher on fake CUDA tensors: without kernels it knows only the math path."""

    def forward(device):
        x = torch.empty(2, 4, 8, 16, dtype=dtype, device=device)
        with sdpa_kernel(SDPBackend.MATH):
            F.scaled_dot_product_attention(x, x, x, dropout_p=0.1, is_causal=True)
            F.scaled_dot_product_attention(x, x, x, attn_mask=torch.empty(8, 8, dtype=torch.bool, device=device))

    with FakeTensorMode(), torch.no_grad(), Log() as oracle:
        forward("cuda")
    with torch.no_grad():
        mine = same_on_fakes(lambda: forward("cpu"))
    assert [("add_.Tensor" if name == "add.Tensor" else name, made) for name, made in oracle.ops] == mine.ops


def test_no_attention_backend_left():
    none_left = pytest.raises(RuntimeError, match="No available kernel")
    with as_cuda(A100), sdpa_kernel(SDPBackend.FLASH_ATTENTION), none_left:
        F.scaled_dot_product_attention(*qkv(f32))


@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_transformer_layer_in_training(dropout):
    def step():
        layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=dropout, batch_first=True)
        layer(torch.randn(2, 8, 16)).sum().backward()

    log = same_on_fakes(step)
    assert log.names.count("_scaled_dot_product_efficient_attention") == 1
    assert log.names.count("native_dropout") == (3 if dropout else 0)
    assert "bernoulli_.float" not in log.names


def test_multihead_attention_with_weights_uses_cudas_dropout():
    def step():
        x = torch.randn(5, 2, 16)
        nn.MultiheadAttention(16, 2, dropout=0.1)(x, x, x, need_weights=True)[0].sum().backward()

    assert same_on_fakes(step).names.count("native_dropout") == 1


def test_transformer_layer_in_inference_takes_the_fast_path():
    def infer():
        with torch.no_grad():
            nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).eval()(torch.randn(2, 8, 16))

    assert run(infer).names.count("_transformer_encoder_layer_fwd") == 1


class Layer(nn.Module):
    """Korthikanti et al.'s transformer layer, with fused attention."""

    def __init__(self, h, a):
        super().__init__()
        self.a, self.ln1, self.ln2 = a, nn.LayerNorm(h), nn.LayerNorm(h)
        self.qkv, self.proj = nn.Linear(h, 3 * h), nn.Linear(h, h)
        self.up, self.down = nn.Linear(h, 4 * h), nn.Linear(4 * h, h)

    def forward(self, x):
        b, s, h = x.shape
        q, k, v = (t.view(b, s, self.a, -1).transpose(1, 2) for t in self.qkv(self.ln1(x)).split(h, -1))
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=0.1, is_causal=True).transpose(1, 2).reshape(b, s, h)
        x = x + F.dropout(self.proj(y), 0.1)
        return x + F.dropout(self.down(F.gelu(self.up(self.ln2(x)))), 0.1)


def test_transformer_layer_saves_34_sbh():
    b, s, h, a = 2, 64, 128, 2
    layer, x = Layer(h, a).bfloat16(), leaf(b, s, h, dtype=torch.bfloat16)
    weights = sum(p.nbytes for p in layer.parameters() if p.dim() == 2) + 2 * layer.ln1.weight.nbytes
    extras = 2 * 8 * s * b + 4 * a * s * b + 24 + 2 * layer.ln1.bias.nbytes  # statistics, log-sum-exp, state
    assert saved_bytes(lambda: layer(x)) - weights == 34 * s * b * h + extras


# --- optimizers -----------------------------------------------------------------------------------------------------

OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9),
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
    "amsgrad": lambda p: torch.optim.AdamW(p, amsgrad=True),
    "rmsprop": torch.optim.RMSprop,
    "adagrad": torch.optim.Adagrad,
    "adadelta": torch.optim.Adadelta,
    "adamax": torch.optim.Adamax,
    "nadam": torch.optim.NAdam,
    "radam": torch.optim.RAdam,
}


def train(make, steps=3, clip=True):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
    optimizer = make(model.parameters())
    for _ in range(steps):
        model(torch.randn(2, 4)).square().sum().backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    return model, optimizer


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_take_foreach_by_default(name):
    make = OPTIMIZERS[name]
    log = same_on_fakes(lambda: train(make))
    assert any(op.startswith("_foreach_add") for op in log.names) and "_foreach_norm.Scalar" in log.names
    with as_cuda(A100):
        model, optimizer = train(make)
    assert all(group["foreach"] is None for group in optimizer.param_groups)
    plain, _ = train(lambda p: make(p))
    for mine, theirs in zip(model.parameters(), plain.parameters(), strict=True):
        close(mine, theirs)


@pytest.mark.parametrize("fake", [False, True])
def test_step_counters_live_on_the_host(fake):
    with as_cuda(A100), fakes(fake):
        _, optimizer = train(torch.optim.AdamW)
        for state in optimizer.state.values():
            assert is_host(state["step"]) and state["step"].item() == 3 and type(state["step"]) is torch.Tensor
            assert not is_host(state["exp_avg"])
    assert not is_host(torch.tensor(0.0))


@pytest.mark.parametrize("fake", [False, True])
def test_what_the_program_says_is_respected(fake):
    with as_cuda(A100), fakes(fake), Log() as log:
        train(lambda p: torch.optim.AdamW(p, foreach=False), clip=False)
    assert not any(name.startswith("_foreach") for name in log.names)
    with as_cuda(A100), fakes(fake), Log() as log:
        _, optimizer = train(lambda p: torch.optim.AdamW(p, fused=True))
    assert log.names.count("_fused_adamw_") == 3
    assert not any(is_host(state["step"]) for state in optimizer.state.values())  # on the device if fused


def test_a_step_that_raises_leaves_the_groups_alone():
    parameter = nn.Parameter(torch.randn(3))
    optimizer = torch.optim.Adam([parameter])

    def closure():
        raise ZeroDivisionError

    with as_cuda(A100), pytest.raises(ZeroDivisionError):
        optimizer.step(closure)
    assert optimizer.param_groups[0]["foreach"] is None


def test_optimizers_that_never_ask_are_left_alone():
    with as_cuda(A100), Log() as log:
        train(lambda p: torch.optim.Adafactor(p), clip=False)
    assert not any(name.startswith("_foreach") for name in log.names)


@pytest.mark.parametrize("fake", [False, True])
def test_grad_scaler_runs(fake):
    with warnings.catch_warnings(), as_cuda(A100), fakes(fake), Log() as log:
        warnings.simplefilter("error")
        model = nn.Linear(4, 4)
        optimizer, scaler = torch.optim.AdamW(model.parameters()), torch.amp.GradScaler("cuda")
        for _ in range(2):
            with torch.autocast("cuda", dtype=torch.float16):
                loss = model(torch.randn(2, 4)).square().mean()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        assert optimizer.state[model.weight]["step"].item() == 2
    assert log.names.count("_amp_foreach_non_finite_check_and_unscale_") == 2
    assert log.names.count("_amp_update_scale_") == 2


# --- autocast -------------------------------------------------------------------------------------------------------


def test_lists_are_those_of_this_torch():
    names = (n for n in torch._C._dispatch_get_all_op_names() if n.startswith("aten::"))
    theirs = {n[6:] for n in names if torch._C._dispatch_has_kernel_for_dispatch_key(n, "AutocastCUDA")}
    if torch.__version__ < "2.13":  # its overloads for named tensors call those that we know
        theirs = {name for name in theirs if "imname" not in name and ".names" not in name}
    if torch.__version__ < "2.12":
        theirs |= {"rms_norm"}
    assert theirs - {"_cudnn_rnn"} == LISTED  # that one only in a build with CUDA; RNNs are not known here
    groups = [LOWER, FLOAT, FLOAT_OUT, FLOAT_APPENDED, WIDEST]
    assert sum(map(len, groups)) + 1 == len(LISTED)  # and one that is banned


def zeros(device, *shape):
    return torch.zeros(*shape, dtype=torch.long, device=device)


AUTOCAST = {  # each gets x(*shape), in float32, and h(*shape), in bfloat16
    "linear": lambda x, h, d: F.linear(x(2, 4, 8), x(8, 8), x(8)),
    "matmul": lambda x, h, d: x(4, 8) @ h(8, 4),
    "baddbmm": lambda x, h, d: torch.baddbmm(x(2, 4, 4), x(2, 4, 8), x(2, 8, 4)),
    "einsum": lambda x, h, d: torch.einsum("ab,bc->ac", x(4, 8), x(8, 4)),
    "conv": lambda x, h, d: F.conv2d(x(1, 3, 8, 8), x(4, 3, 3, 3), x(4)),
    "conv same": lambda x, h, d: F.conv2d(x(1, 3, 8, 8), x(4, 3, 3, 3), x(4), padding="same"),
    "multi_dot": lambda x, h, d: torch.linalg.multi_dot([x(4, 8), x(8, 4), x(4, 2)]),
    "layer norm": lambda x, h, d: F.layer_norm(h(4, 8), (8,), x(8), x(8)),
    "group norm": lambda x, h, d: F.group_norm(h(4, 8), 2, x(8), x(8)),
    "softmax": lambda x, h, d: F.softmax(h(4, 8), -1),
    "softmax double": lambda x, h, d: F.softmax(x(4, 8).double(), -1),
    "cross entropy": lambda x, h, d: F.cross_entropy(h(4, 8), zeros(d, 4)),
    "cross entropy float16": lambda x, h, d: F.cross_entropy(h(4, 8).to(torch.float16), zeros(d, 4)),
    "label smoothing": lambda x, h, d: F.cross_entropy(h(4, 8), zeros(d, 4), label_smoothing=0.1),
    "mse": lambda x, h, d: F.mse_loss(h(4, 8), x(4, 8)),
    "bce": lambda x, h, d: F.binary_cross_entropy_with_logits(h(4, 8), x(4, 8)),
    "sum": lambda x, h, d: (h(4, 8).sum(), h(4, 8).sum(0, keepdim=True), h(4, 8).sum(dtype=torch.float64)),
    "mean, var": lambda x, h, d: (h(4, 8).mean(), h(4, 8).var(), h(4, 8).std(0)),
    "pow": lambda x, h, d: (h(4) ** 2, 2 ** h(4), h(4) ** h(4)),
    "exp, log": lambda x, h, d: (h(4).exp(), h(4).log1p(), torch.rsqrt(h(4)), 1 / h(4), h(4).sqrt()),
    "distance": lambda x, h, d: F.pairwise_distance(h(4, 8), h(4, 8)),
    "norm": lambda x, h, d: (h(4, 8).norm(), torch.norm(h(4, 8), dim=1), torch.linalg.vector_norm(h(4, 8))),
    "cumsum": lambda x, h, d: (h(4, 8).cumsum(0), h(4, 8).prod(), h(4, 8).logsumexp(0)),
    "cat": lambda x, h, d: (torch.cat([h(4), x(4)]), torch.stack([h(4), h(4)])),
    "addcmul": lambda x, h, d: (torch.addcmul(h(4), x(4), h(4)), torch.addcdiv(h(4), h(4), h(4))),
    "activations": lambda x, h, d: (F.gelu(h(4)), F.silu(h(4)), F.relu(h(4)), F.softplus(h(4)), h(4).tanh()),
    "dropout": lambda x, h, d: F.dropout(h(4, 8), 0.1),
    "interpolate": lambda x, h, d: F.interpolate(h(1, 2, 4, 4), scale_factor=2.0),
    "index_put": lambda x, h, d: torch.index_put(h(4, 8), [zeros(d, 1)], x(1, 8)),
}


@pytest.mark.parametrize("device", ["cuda", "cpu"])
@pytest.mark.parametrize("name", AUTOCAST)
def test_autocast_casts_as_on_cuda(name, device):
    """The oracle is torch's own AutocastCUDA, on fake CUDA tensors. Copies in the same order, too."""

    def forward(d):
        x = lambda *shape: torch.empty(*shape, device=d)  # noqa: E731
        h = lambda *shape: torch.empty(*shape, device=d, dtype=torch.bfloat16)  # noqa: E731
        AUTOCAST[name](x, h, d)

    with FakeTensorMode(), torch.no_grad(), Log() as oracle, native_autocast():
        forward("cuda")

    def mine():
        with torch.no_grad(), torch.autocast(device, dtype=torch.bfloat16):
            forward("cpu")

    assert same_on_fakes(mine).ops == oracle.ops


@contextlib.contextmanager
def native_autocast():
    """torch.autocast("cuda") without its check that there is a GPU."""
    torch.set_autocast_enabled("cuda", True)
    torch.set_autocast_dtype("cuda", torch.bfloat16)
    try:
        yield
    finally:
        torch.clear_autocast_cache()
        torch.set_autocast_enabled("cuda", False)
        torch.set_autocast_dtype("cuda", torch.float16)


def test_autocast_keeps_the_casts_of_weights_until_it_ends():
    weight, x = leaf(8, 8), torch.randn(4, 8)
    seen = []

    class Casts(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            if func is torch.ops.aten._to_copy.default and out.shape == (8, 8):
                seen.append(torch.multiprocessing.reductions.StorageWeakRef(out.untyped_storage()))
            return out

    with as_cuda(A100), Casts():
        with torch.autocast("cuda", dtype=torch.bfloat16):
            with torch.no_grad():
                F.linear(x, weight)
            with torch.autocast("cuda", dtype=torch.bfloat16):
                y = F.linear(x, weight)
            del y
            assert len(seen) == 1 and not seen[0].expired()
        assert seen[0].expired()
        with torch.autocast("cuda", dtype=torch.bfloat16, cache_enabled=False):
            F.linear(x, weight), F.linear(x, weight)
        assert len(seen) == 3


def test_autocast_trains_through_its_casts():
    weight, x = leaf(8, 8), torch.randn(4, 8)
    with as_cuda(A100), torch.autocast("cuda", dtype=torch.bfloat16):
        y = F.linear(F.linear(x, weight), weight)
    assert y.dtype is torch.bfloat16
    y.float().square().sum().backward()
    (expected,) = torch.autograd.grad((x @ weight.T @ weight.T).square().sum(), weight)
    close(weight.grad / 64, expected / 64, torch.bfloat16)


def test_autocast_refuses_what_cuda_refuses():
    with as_cuda(A100), torch.autocast("cuda"), pytest.raises(RuntimeError, match="unsafe to autocast"):
        F.binary_cross_entropy(torch.rand(4), torch.rand(4))


def test_attention_under_autocast_is_flash():
    def step():
        with torch.autocast("cuda", dtype=torch.bfloat16):
            F.scaled_dot_product_attention(*qkv(f32)).sum().backward()

    assert "_scaled_dot_product_flash_attention" in same_on_fakes(step).names


def test_rms_norm_is_float_under_autocast_since_2_12():
    x, weight = torch.randn(4, 8, dtype=torch.bfloat16), leaf(8)
    for release, dtype in (("2.11", torch.bfloat16), ("2.12", torch.float32)):
        with as_cuda(at_release(preset("a100"), release)), torch.autocast("cuda", dtype=torch.bfloat16):
            assert F.rms_norm(x, (8,), weight).dtype is dtype


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_checkpoint_recomputes_under_the_same_autocast(reentrant, device):
    def step():
        block = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.1), nn.LayerNorm(8))
        with torch.autocast(device, dtype=torch.bfloat16):
            y = checkpoint(block, leaf(2, 8), use_reentrant=reentrant)
        y.sum().backward()

    log = same_on_fakes(step)
    assert log.ops.count(("native_dropout", [("bfloat16", (2, 8)), ("bool", (2, 8))])) == 2
    assert log.ops.count(("addmm", [("bfloat16", (2, 8))])) == 2


# --- normalisation, softmax, linear ---------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mixed", [False, True])
def test_layer_norm_keeps_float_statistics(dtype, mixed):
    weights = torch.float32 if mixed else dtype
    x, w, b = leaf(4, 8, dtype=dtype), leaf(8, dtype=weights), leaf(8, dtype=weights)
    with as_cuda(A100), Log() as log:
        y = F.layer_norm(x, (8,), w, b)
        mine = torch.autograd.grad(y.float().square().sum(), (x, w, b))
    assert log.ops[0][1][1:] == [("float32", (4, 1))] * 2
    theirs = torch.autograd.grad(F.layer_norm(x, (8,), w, b).float().square().sum(), (x, w, b))
    for a, b in zip(mine, theirs, strict=True):
        close(a / 8, b / 8, dtype)
    fake = run(lambda: F.layer_norm(leaf(4, 8, dtype=dtype), (8,), leaf(8, dtype=dtype)).sum().backward(), fake=True)
    assert ("native_layer_norm", [(str(dtype)[6:], (4, 8)), ("float32", (4, 1)), ("float32", (4, 1))]) in fake.ops


@pytest.mark.parametrize("dtype", DTYPES)
def test_rms_norm_is_one_kernel_since_2_9(dtype):
    x, w = leaf(4, 8, dtype=dtype), leaf(8, dtype=dtype)
    assert saved_bytes(lambda: F.rms_norm(x, (8,), w)) == (32 + 8) * dtype.itemsize + 4 * 4
    log = same_on_fakes(lambda: F.rms_norm(leaf(4, 8, dtype=dtype), (8,), leaf(8, dtype=dtype)).sum().backward())
    assert {"_fused_rms_norm", "_fused_rms_norm_backward"} <= set(log.names) and "pow.Tensor_Scalar" not in log.names
    old = run(lambda: F.rms_norm(x, (8,), w), gpu=at_release(preset("a100"), "2.8"))
    assert "pow.Tensor_Scalar" in old.names
    with as_cuda(A100):
        y = F.rms_norm(x, (8,), w)
        mine = torch.autograd.grad(y.float().square().sum(), (x, w))
    theirs = torch.autograd.grad(F.rms_norm(x, (8,), w).float().square().sum(), (x, w))
    close(y, F.rms_norm(x, (8,), w), dtype)
    for a, b in zip(mine, theirs, strict=True):
        close(a / 8, b / 8, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("training", [True, False])
def test_batch_norm_takes_cudnn_where_cuda_does(dtype, mixed, training):
    weights = torch.float32 if mixed else dtype

    def step(context):
        torch.manual_seed(0)
        x, w, b = leaf(4, 8, 3, 3, dtype=dtype), leaf(8, dtype=weights), leaf(8, dtype=weights)
        mean, var = torch.zeros(8, dtype=weights), torch.ones(8, dtype=weights)
        with context:
            y = F.batch_norm(x, mean, var, w, b, training)
            return y, mean, var, *torch.autograd.grad(y.float().square().sum(), (x, w, b))

    with Log() as log:
        pass
    with as_cuda(A100), log:
        mine = step(contextlib.nullcontext())
    fits = dtype is torch.float32 or (dtype is torch.float16 and mixed)
    assert ("cudnn_batch_norm" in log.names) == fits
    forward = next(made for name, made in log.ops if name in ("cudnn_batch_norm", "native_batch_norm"))
    assert all(stat[0] == "float32" for stat in forward[1:3])
    for a, b in zip(mine, step(contextlib.nullcontext()), strict=True):
        close(a / 10, b / 10, dtype)
    fake = run(lambda: step(contextlib.nullcontext()), fake=True)
    assert [op for op in fake.ops if op[0] != "detach"] == [op for op in log.ops if op[0] != "detach"]


def test_batch_norm_of_rows_and_without_statistics():
    log = run(lambda: (nn.BatchNorm1d(8)(torch.randn(4, 8)), F.instance_norm(torch.randn(2, 3, 4, 4))))
    assert log.names.count("native_batch_norm") == 2 and "cudnn_batch_norm" not in log.names
    assert "cudnn_batch_norm" in run(lambda: nn.InstanceNorm2d(3, affine=True)(torch.randn(2, 3, 4, 4))).names


@pytest.mark.parametrize("dtype", DTYPES)
def test_group_norm_is_the_same_on_both_devices(dtype):
    def step():
        F.group_norm(leaf(4, 8, 3, dtype=dtype), 2, leaf(8, dtype=dtype), leaf(8, dtype=dtype)).sum().backward()

    same_on_fakes(step)


def test_softmax_reads_float16_and_writes_float():
    def step(dtype):
        F.softmax(leaf(4, 8, dtype=dtype), -1, dtype=torch.float32).square().sum().backward()

    assert "_to_copy" not in same_on_fakes(lambda: step(torch.float16)).names
    assert same_on_fakes(lambda: step(torch.bfloat16)).names.count("_to_copy") == 2
    x = leaf(4, 8, dtype=torch.float16)
    with as_cuda(A100):
        mine = torch.autograd.grad(F.log_softmax(x, -1, dtype=torch.float32).square().sum(), x)[0]
    close(mine, torch.autograd.grad(F.log_softmax(x, -1, dtype=torch.float32).square().sum(), x)[0], torch.float16)


def test_linear_adds_the_bias_of_a_transposed_input_in_place():
    """The oracle is the profiler, on a CPU without modes: this path does not ask for the device."""

    def step():
        F.linear(leaf(4, 2, 8).transpose(0, 1), leaf(8, 8), leaf(8)).sum().backward()

    assert "add_.Tensor" in same_on_fakes(step).names and "add.Tensor" not in same_on_fakes(step).names
    with torch.profiler.profile() as profile:  # without a dispatch mode, a CPU does so too
        step()
    assert "aten::add_" in [event.name for event in profile.events()]


def test_log_sigmoid_saves_no_buffer():
    x = leaf(4, 8)
    assert saved_bytes(lambda: F.logsigmoid(x)) == x.nbytes
    with as_cuda(A100):
        (mine,) = torch.autograd.grad(F.logsigmoid(x).square().sum(), x)
    close(mine, torch.autograd.grad(F.logsigmoid(x).square().sum(), x)[0])


def test_rnns_are_an_honest_unknown():
    with as_cuda(A100), pytest.warns(UnknownOnCuda, match="cuDNN"):
        nn.LSTM(4, 4)(torch.randn(3, 2, 4))[0].sum().backward()


def test_a_second_derivative_is_right():
    x = torch.linspace(-1, 1, 8, dtype=torch.float64, requires_grad=True)

    def fn():
        (g,) = torch.autograd.grad((x.sin() * x.exp() + x**3).sum(), x, create_graph=True)
        return torch.autograd.grad(g.square().sum(), x)[0]

    with as_cuda(A100):
        mine = fn()
    torch.testing.assert_close(mine, fn())


# --- entering and leaving -------------------------------------------------------------------------------------------


def traces():
    """Whatever as_cuda touches that outlives it."""
    return (
        torch.cuda.is_bf16_supported,
        torch.cuda.amp.common.amp_definitely_not_available,
        torch.clear_autocast_cache,
        list(torch.utils._foreach_utils._foreach_supported_types),
        len(optimizers._global_optimizer_pre_hooks),
        len(optimizers._global_optimizer_post_hooks),
        torch.utils.checkpoint.DefaultDeviceType.get_device_type(),
        torch.is_autocast_enabled("privateuseone"),
        torch._C._dispatch_tls_is_dispatch_key_included(torch._C.DispatchKey.AutocastPrivateUse1),
        torch._C._dispatch_has_kernel_for_dispatch_key("aten::dropout", "AutocastPrivateUse1"),
        len(torch.utils._python_dispatch._get_current_dispatch_mode_stack()),
    )


def test_everything_is_restored():
    before = traces()
    with as_cuda(A100):
        assert traces() != before
    assert traces() == before
    with pytest.raises(ZeroDivisionError), as_cuda(A100), as_cuda("h100"):
        F.dropout(torch.randn(4), 0.5)
        raise ZeroDivisionError
    assert traces() == before
    with pytest.raises(CkptError, match="no preset"), as_cuda("abacus"):
        pass
    assert traces() == before
    with Log() as log:
        F.dropout(torch.randn(4), 0.5)
    assert "native_dropout" not in log.names
    with pytest.warns(UserWarning, match="CUDA is not available"):
        torch.autocast("cuda")


def test_nested_contexts_take_the_inner_gpu():
    def half():
        F.scaled_dot_product_attention(*qkv(bf16))

    with as_cuda("a100"), Log() as log:
        with as_cuda("v100"):
            half()
        assert "_scaled_dot_product_flash_attention" not in log.names
        half()
        assert "_scaled_dot_product_flash_attention" in log.names


def test_other_threads_do_not_notice():
    inside, done, found = threading.Event(), threading.Event(), {}

    def other():
        inside.wait()
        with Log() as log:
            F.dropout(torch.randn(4), 0.5)
        with torch.autocast("cpu", dtype=torch.bfloat16), Log():
            found["dtype"] = F.softmax(torch.randn(4).bfloat16(), -1).dtype
        optimizer = torch.optim.SGD([nn.Parameter(torch.randn(3))], 0.1)
        optimizer.param_groups[0]["params"][0].grad = torch.ones(3)
        with log:
            optimizer.step()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            torch.autocast("cuda")
        found.update(names=log.names, warned=len(caught))
        done.set()

    thread = threading.Thread(target=other)
    thread.start()
    with as_cuda(A100):
        inside.set()
        assert done.wait(60)
    thread.join()
    assert "native_dropout" not in found["names"] and "_foreach_add_.List" not in found["names"]
    assert found["dtype"] is torch.bfloat16 and found["warned"] == 1


def test_contexts_in_two_threads():
    first_in, second_out = threading.Event(), threading.Event()
    results = []

    def first():
        with as_cuda(A100):
            first_in.set()
            second_out.wait(60)
            results.append("native_dropout" in run(lambda: F.dropout(torch.randn(4), 0.5)).names)

    thread = threading.Thread(target=first)
    thread.start()
    first_in.wait(60)
    with as_cuda("v100"):
        pass
    second_out.set()
    thread.join()
    assert results == [True]
    assert not torch._C._dispatch_has_kernel_for_dispatch_key("aten::dropout", "AutocastPrivateUse1")


def test_inference_mode_runs():
    with as_cuda(A100), torch.inference_mode(), torch.autocast("cuda", dtype=torch.bfloat16):
        x = nn.RMSNorm(8)(nn.Linear(8, 8)(torch.randn(2, 4, 8)))
        assert F.scaled_dot_product_attention(x[None], x[None], x[None]).shape == (1, 2, 4, 8)
    assert math.isfinite(x.float().sum())
