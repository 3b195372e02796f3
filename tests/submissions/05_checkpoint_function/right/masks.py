# %% with fork_rng
class Masks(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, x):
        ctx.state = torch.random.get_rng_state()
        ctx.fn = fn
        ctx.save_for_backward(x)
        return fn(x)

    @staticmethod
    def backward(ctx, dy):
        (x,) = ctx.saved_tensors
        x = x.detach().requires_grad_()
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            torch.random.set_rng_state(ctx.state)
            torch.autograd.backward([ctx.fn(x)], [dy])
        return None, x.grad


# %% the library's picture of the surroundings
from ckptlib.recompute.surroundings import Surroundings


class Masks(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, x):
        ctx.fn, ctx.picture = fn, Surroundings(True, (x,))
        ctx.save_for_backward(x)
        return fn(x)

    @staticmethod
    def backward(ctx, dy):
        x = ctx.saved_tensors[0].detach().requires_grad_()
        with ctx.picture.again(), torch.enable_grad():
            y = ctx.fn(x)
        y.backward(dy)
        return None, x.grad
