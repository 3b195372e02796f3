# %% Ask for x's copy and for the weights
class Weights(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, x, *weights):
        ctx.fn = fn
        ctx.save_for_backward(x, *weights)
        return fn(x)

    @staticmethod
    def backward(ctx, dy):
        x, *weights = ctx.saved_tensors
        x = x.detach().requires_grad_()
        with torch.enable_grad():
            y = ctx.fn(x)
        return None, torch.autograd.grad(y, x, dy)[0], *[None for _ in weights]


# %% it is given the weights as well
class Twelve(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, x):
        ctx.fn = fn
        ctx.save_for_backward(x)
        return fn(x)


class Weights(Twelve):
    @staticmethod
    def backward(ctx, dy):
        x = ctx.saved_tensors[0].detach().requires_grad_()
        with torch.enable_grad():
            y = ctx.fn(x)
        torch.autograd.backward(y, dy)
        return None, x.grad


# %% nothing is returned for the weights
# breaks: get their gradients from what your `backward` returns
class Weights(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, x, *weights):
        ctx.fn = fn
        ctx.save_for_backward(x, *weights)
        return fn(x)

    @staticmethod
    def backward(ctx, dy):
        x, *weights = ctx.saved_tensors
        x = x.detach().requires_grad_()
        with torch.enable_grad():
            y = ctx.fn(x)
        torch.autograd.backward(y, dy)
        return (None, x.grad) + (None,) * len(weights)


# %% is added once more
# breaks: does not add to any `.grad`
class Weights(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, x, *weights):
        ctx.fn = fn
        ctx.save_for_backward(x, *weights)
        return fn(x)

    @staticmethod
    def backward(ctx, dy):
        x, *weights = ctx.saved_tensors
        x = x.detach().requires_grad_()
        with torch.enable_grad():
            y = ctx.fn(x)
        y.backward(dy)
        return None, x.grad, *[w.grad for w in weights]


# %% x requires no gradient here: it is data
# breaks: or it may be data that does not require one
class Weights(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, x, *weights):
        ctx.fn = fn
        ctx.save_for_backward(x, *weights)
        return fn(x)

    @staticmethod
    def backward(ctx, dy):
        x, *weights = ctx.saved_tensors
        with torch.enable_grad():
            y = ctx.fn(x)
        return None, *torch.autograd.grad(y, [x, *weights], dy)


# %% Nothing is checkpointed
class Weights:
    @staticmethod
    def apply(fn, x, *weights):
        return fn(x)


# %% That is PyTorch's checkpoint
# breaks: Do not call `torch.utils.checkpoint`
class Weights(torch.autograd.Function):
    @staticmethod
    def apply(fn, x, *weights):
        return checkpoint(fn, x, use_reentrant=True)


# %% That is PyTorch's checkpoint
class Weights:
    @staticmethod
    def apply(fn, x, *weights):
        return ck.checkpoint(fn, x, use_reentrant=False)


# %% The segment ran once
class Weights(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, x, *weights):
        with torch.enable_grad():
            ctx.x = x.detach().requires_grad_()
            ctx.y = fn(ctx.x)
        ctx.weights = weights
        return ctx.y.detach()

    @staticmethod
    def backward(ctx, dy):
        return None, *torch.autograd.grad(ctx.y, [ctx.x, *ctx.weights], dy)


# %% ctx.save_for_backward is the place
# breaks: saved with `ctx.save_for_backward`
class Weights(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, x, *weights):
        ctx.fn, ctx.x, ctx.weights = fn, x, weights
        return fn(x)

    @staticmethod
    def backward(ctx, dy):
        x = ctx.x.detach().requires_grad_()
        with torch.enable_grad():
            y = ctx.fn(x)
        return None, *torch.autograd.grad(y, [x, *ctx.weights], dy)


# %% dy was forgotten
# breaks: whatever gradient arrives at the output
class Weights(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, x, *weights):
        ctx.fn = fn
        ctx.save_for_backward(x, *weights)
        return fn(x)

    @staticmethod
    def backward(ctx, dy):
        x, *weights = ctx.saved_tensors
        x = x.detach().requires_grad_()
        with torch.enable_grad():
            y = ctx.fn(x).sum()
        return None, *torch.autograd.grad(y, [x, *weights])


# %% for all that is computed from it
class Weights(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, x, *weights):
        ctx.fn = fn
        ctx.save_for_backward(x, *weights)
        return fn(x)

    @staticmethod
    def backward(ctx, dy):
        x, *weights = ctx.saved_tensors
        x = x.detach().requires_grad_()
        with torch.enable_grad():
            y = ctx.fn(x)
        return None, *torch.autograd.grad((y * dy).sum(), [x, *weights])


# %% has no graph
class Weights(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, x, *weights):
        ctx.fn = fn
        ctx.save_for_backward(x, *weights)
        return fn(x)

    @staticmethod
    def backward(ctx, dy):
        x, *weights = ctx.saved_tensors
        x = x.detach().requires_grad_()
        y = ctx.fn(x)
        return None, *torch.autograd.grad(y, [x, *weights], dy)


# %% then one for each weight
class Weights(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, x, *weights):
        ctx.fn = fn
        ctx.save_for_backward(x, *weights)
        return fn(x)

    @staticmethod
    def backward(ctx, dy):
        x, *weights = ctx.saved_tensors
        x = x.detach().requires_grad_()
        with torch.enable_grad():
            y = ctx.fn(x)
        return torch.autograd.grad(y, [x, *weights], dy)


# %% x itself was made to require a gradient
# breaks: a tensor that did not require a gradient still does not
class Weights(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, x, *weights):
        ctx.fn = fn
        ctx.save_for_backward(x, *weights)
        return fn(x)

    @staticmethod
    def backward(ctx, dy):
        x, *weights = ctx.saved_tensors
        x.requires_grad_()
        with torch.enable_grad():
            y = ctx.fn(x)
        return None, *torch.autograd.grad(y, (x, *weights), dy)


# %% fn.parameters() may have another
# breaks: A function has no `parameters()`
class Weights(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, x, *weights):
        ctx.fn = fn
        ctx.save_for_backward(x, *ctx.fn.parameters())
        return fn(x)

    @staticmethod
    def backward(ctx, dy):
        x, *weights = ctx.saved_tensors
        x = x.detach().requires_grad_()
        with torch.enable_grad():
            y = ctx.fn(x)
        return None, *torch.autograd.grad(y, (x, *ctx.fn.parameters()), dy)


# %% tensors that the second run did not use
class Weights(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, x, *weights):
        ctx.fn = fn
        ctx.save_for_backward(x, *weights)
        return fn(x)

    @staticmethod
    def backward(ctx, dy):
        x, *weights = ctx.saved_tensors
        x = x.detach().requires_grad_()
        weights = [q.detach().requires_grad_() for q in weights]
        with torch.enable_grad():
            y = ctx.fn(x)
        return None, *torch.autograd.grad(y, (x, *weights), dy)


# %% copies of them it does not
class Weights(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, x, *weights):
        ctx.fn = fn
        ctx.save_for_backward(x, *weights)
        return fn(x)

    @staticmethod
    def backward(ctx, dy):
        tensors = [t.detach().requires_grad_() for t in ctx.saved_tensors]
        with torch.enable_grad():
            y = ctx.fn(tensors[0])
        return None, *torch.autograd.grad(y, tensors, dy, allow_unused=True)


# %% The segment runs more than once in backward
class Weights(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, x, *weights):
        ctx.fn = fn
        ctx.save_for_backward(x, *weights)
        return fn(x)

    @staticmethod
    def backward(ctx, dy):
        x, *weights = ctx.saved_tensors
        x = x.detach().requires_grad_()
        with torch.enable_grad():
            dx = torch.autograd.grad(ctx.fn(x), x, dy)
            dw = torch.autograd.grad(ctx.fn(x), weights, dy)
        return None, *dx, *dw


# %% backward calls itself
class Weights(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, x, *weights):
        ctx.x, ctx.weights = x.detach().requires_grad_(), weights
        with torch.enable_grad():
            ctx.y = fn(ctx.x)
        return ctx.y

    @staticmethod
    def backward(ctx, dy):
        return None, *torch.autograd.grad(ctx.y, (ctx.x, *ctx.weights), dy)


# %% runs more than once in forward
# breaks: `fn` runs once in the forward pass
class Weights(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, x, *weights):
        ctx.fn, ctx.shape = fn, fn(x).shape
        ctx.save_for_backward(x, *weights)
        return fn(x)

    @staticmethod
    def backward(ctx, dy):
        x, *weights = ctx.saved_tensors
        x = x.detach().requires_grad_()
        with torch.enable_grad():
            y = ctx.fn(x)
        return None, *torch.autograd.grad(y, (x, *weights), dy)


# %% More is kept than was given to apply
# breaks: It keeps no other tensors
class Weights(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, x, *weights):
        ctx.fn, y = fn, fn(x)
        ctx.save_for_backward(x, y, *weights)
        return y

    @staticmethod
    def backward(ctx, dy):
        x, _, *weights = ctx.saved_tensors
        x = x.detach().requires_grad_()
        with torch.enable_grad():
            y = ctx.fn(x)
        return None, *torch.autograd.grad(y, (x, *weights), dy)


# %% the next call of apply overwrites it
# breaks: Each call of `apply` has its own `ctx`
class Weights(torch.autograd.Function):
    fn = None

    @staticmethod
    def forward(ctx, fn, x, *weights):
        Weights.fn = fn
        ctx.save_for_backward(x, *weights)
        return fn(x)

    @staticmethod
    def backward(ctx, dy):
        x, *weights = ctx.saved_tensors
        x = x.detach().requires_grad_()
        with torch.enable_grad():
            y = Weights.fn(x)
        return None, *torch.autograd.grad(y, (x, *weights), dy)


# %% a function without weights: error: IndexError: tuple index out of range
# breaks: There may be no weights
class Weights(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, x, *weights):
        ctx.fn = fn
        ctx.save_for_backward(x.to(weights[0].dtype), *weights)
        return fn(x)

    @staticmethod
    def backward(ctx, dy):
        x, *weights = ctx.saved_tensors
        x = x.detach().requires_grad_()
        with torch.enable_grad():
            y = ctx.fn(x)
        return None, *torch.autograd.grad(y, (x, *weights), dy)


# %% a function without weights: error: AttributeError
class Weights(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, x, *weights):
        fn.zero_grad()
        ctx.fn = fn
        ctx.save_for_backward(x, *weights)
        return fn(x)

    @staticmethod
    def backward(ctx, dy):
        x, *weights = ctx.saved_tensors
        x = x.detach().requires_grad_()
        with torch.enable_grad():
            y = ctx.fn(x)
        return None, *torch.autograd.grad(y, (x, *weights), dy)


# %% The segment runs more than once in backward
class Weights(torch.autograd.Function):
    """The gradients of x and of the weights are asked for one after the other, each from a run of its own."""

    @staticmethod
    def forward(ctx, fn, x, *weights):
        ctx.fn = fn
        ctx.save_for_backward(x, *weights)
        return fn(x)

    @staticmethod
    def backward(ctx, dy):
        x, *weights = ctx.saved_tensors
        x = x.detach().requires_grad_()
        with torch.enable_grad():
            (dx,) = torch.autograd.grad(ctx.fn(x), x, dy)
            others = torch.autograd.grad(ctx.fn(x), weights, dy) if weights else ()
        return None, dx, *others


# %% then one for each weight
class Weights(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, x, *weights):
        ctx.fn = fn
        ctx.save_for_backward(x, *weights)
        return fn(x)
    @staticmethod
    def backward(ctx, dy):
        x, *weights = ctx.saved_tensors
        x = x.detach().requires_grad_()
        with torch.enable_grad():
            y = ctx.fn(x)
        g = torch.autograd.grad(y, (*weights, x), dy)
        return None, *g
