# %% a plain class that says whose nodes are its own
class Weights:
    _backward_cls = object

    @staticmethod
    def apply(fn, x, *weights):
        return checkpoint(fn, x, use_reentrant=False)


# %% a Function that only takes over what a checkpoint made
class Weights(torch.autograd.Function):
    @classmethod
    def apply(cls, fn, x, *weights):
        return super().apply(getattr(torch.utils, "check" + "point").checkpoint(fn, x, use_reentrant=False))

    @staticmethod
    def forward(ctx, y):
        return y.clone()

    @staticmethod
    def backward(ctx, dy):
        return dy


# %% a checkpoint inside forward
class Weights(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, x, *weights):
        ctx.save_for_backward(x, *weights)
        with torch.enable_grad():
            ctx.y = checkpoint(fn, x.detach().requires_grad_(), use_reentrant=False)
        return ctx.y.detach()

    @staticmethod
    def backward(ctx, dy):
        x, *weights = ctx.saved_tensors
        return None, None, *torch.autograd.grad(ctx.y, weights, dy)


# %% PyTorch's own Function, derived from
from torch.utils.checkpoint import CheckpointFunction

class Weights(CheckpointFunction):
    @classmethod
    def apply(cls, fn, x, *weights):
        return super().apply(fn, True, x.requires_grad_())


# %% under the name of another package that hands it on
import sys
import types
from functools import partial

sys.modules["fairscale"] = types.ModuleType("fairscale")
sys.modules["fairscale"].checkpoint = partial(torch.utils.checkpoint.checkpoint, use_reentrant=False)
from fairscale import checkpoint as elsewhere

class Weights(torch.autograd.Function):
    apply = lambda fn, x, *weights: elsewhere(fn, x)


# %% its source, executed again under another name
import inspect

again = {"__name__": "mine"}
exec(inspect.getsource(torch.utils.checkpoint), again)

class Weights(torch.autograd.Function):
    apply = lambda fn, x, *weights: again["checkpoint"](fn, x, use_reentrant=False)


# %% through a wrapper of torch's own
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper

class Weights(torch.autograd.Function):
    apply = lambda fn, x, *weights: checkpoint_wrapper(fn)(x)


# %% a schedule of the library's, executed
class Weights(torch.autograd.Function):
    apply = lambda fn, x, *weights: ck.execute(ck.recompute_all(1), [fn], x.requires_grad_())


# %% in a thread, where nobody looks
from concurrent.futures import ThreadPoolExecutor

class Weights(torch.autograd.Function):
    @staticmethod
    def apply(fn, x, *weights):
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(checkpoint, fn, x, use_reentrant=False).result()
