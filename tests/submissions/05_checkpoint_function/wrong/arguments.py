# %% Only the first output's gradient
class Arguments(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, *args):
        ctx.fn = fn
        ctx.rest = {i: a for i, a in enumerate(args) if not isinstance(a, Tensor)}
        ctx.save_for_backward(*(a for a in args if isinstance(a, Tensor)))
        return fn(*args)

    @staticmethod
    def backward(ctx, *dys):
        args = [t.detach().requires_grad_(t.requires_grad) for t in ctx.saved_tensors]
        for i, value in ctx.rest.items():
            args.insert(i, value)
        with torch.enable_grad():
            ys = ctx.fn(*args)
        torch.autograd.backward(ys if isinstance(ys, Tensor) else ys[0], dys[0])
        return None, *(a.grad if isinstance(a, Tensor) else None for a in args)


# %% in another order than they had
class Arguments(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, *args):
        ctx.fn = fn
        ctx.rest = {i: a for i, a in enumerate(args) if not isinstance(a, Tensor)}
        ctx.save_for_backward(*(a for a in args if isinstance(a, Tensor)))
        return fn(*args)

    @staticmethod
    def backward(ctx, *dys):
        args = [t.detach().requires_grad_(t.requires_grad) for t in ctx.saved_tensors]
        args += ctx.rest.values()
        with torch.enable_grad():
            ys = ctx.fn(*args)
        torch.autograd.backward([ys] if isinstance(ys, Tensor) else ys, dys)
        return None, *(a.grad if isinstance(a, Tensor) else None for a in args)


# %% a mask of booleans cannot
class Arguments(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, *args):
        ctx.fn = fn
        ctx.rest = {i: a for i, a in enumerate(args) if not isinstance(a, Tensor)}
        ctx.save_for_backward(*(a for a in args if isinstance(a, Tensor)))
        return fn(*args)

    @staticmethod
    def backward(ctx, *dys):
        args = [t.detach().requires_grad_(True) for t in ctx.saved_tensors]
        for i, value in ctx.rest.items():
            args.insert(i, value)
        with torch.enable_grad():
            ys = ctx.fn(*args)
        torch.autograd.backward([ys] if isinstance(ys, Tensor) else ys, dys)
        return None, *(a.grad if isinstance(a, Tensor) else None for a in args)


# %% Only the first tensor has its gradient
class Arguments(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, *args):
        ctx.fn = fn
        ctx.rest = {i: a for i, a in enumerate(args) if not isinstance(a, Tensor)}
        ctx.save_for_backward(*(a for a in args if isinstance(a, Tensor)))
        return fn(*args)

    @staticmethod
    def backward(ctx, *dys):
        args = [t.detach().requires_grad_(t.requires_grad) for t in ctx.saved_tensors]
        for i, value in ctx.rest.items():
            args.insert(i, value)
        with torch.enable_grad():
            ys = ctx.fn(*args)
        torch.autograd.backward([ys] if isinstance(ys, Tensor) else ys, dys)
        grads = [a.grad if isinstance(a, Tensor) else None for a in args]
        first = next(i for i, g in enumerate(grads) if g is not None)
        return None, *(g if i == first else None for i, g in enumerate(grads))


# %% ctx.save_for_backward is the place
class Arguments(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, *args):
        ctx.fn, ctx.args = fn, args
        return fn(*args)

    @staticmethod
    def backward(ctx, *dys):
        args = [a.detach().requires_grad_(a.requires_grad) if isinstance(a, Tensor) else a for a in ctx.args]
        with torch.enable_grad():
            ys = ctx.fn(*args)
        torch.autograd.backward([ys] if isinstance(ys, Tensor) else ys, dys)
        return None, *(a.grad if isinstance(a, Tensor) else None for a in args)


# %% it should take any number of them
class Arguments(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, x):
        ctx.fn = fn
        ctx.save_for_backward(x)
        return fn(x)


# %% That is PyTorch's checkpoint
class Arguments:
    @staticmethod
    def apply(fn, *args):
        return checkpoint(fn, *args, use_reentrant=False)


# %% one entry for each argument of apply
class Arguments(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, *args):
        ctx.fn = fn
        ctx.rest = {i: a for i, a in enumerate(args) if not isinstance(a, Tensor)}
        ctx.save_for_backward(*(a for a in args if isinstance(a, Tensor)))
        return fn(*args)

    @staticmethod
    def backward(ctx, *dys):
        args = [t.detach().requires_grad_(t.requires_grad) for t in ctx.saved_tensors]
        for i, value in ctx.rest.items():
            args.insert(i, value)
        with torch.enable_grad():
            ys = ctx.fn(*args)
        torch.autograd.backward([ys] if isinstance(ys, Tensor) else ys, dys)
        return None, *(a.grad for a in args if isinstance(a, Tensor))
