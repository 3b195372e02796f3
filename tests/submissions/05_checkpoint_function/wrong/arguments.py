# %% names and values in a row
class Arguments(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, *args):
        ctx.fn = fn
        ctx.save_for_backward(*(a for a in args if isinstance(a, Tensor)))
        ctx.rest = {i: a for i, a in enumerate(args) if not isinstance(a, Tensor)}
        return fn(*args)

    @staticmethod
    def backward(ctx, *dys):
        args = [t.detach().requires_grad_(t.requires_grad) for t in ctx.saved_tensors]
        for i, value in ctx.rest.items():
            args.insert(i, value)
        with torch.enable_grad():
            ys = ctx.fn(*args)
        ys = (ys,) if isinstance(ys, Tensor) else ys
        torch.autograd.backward(ys, dys)
        return None, *(a.grad if isinstance(a, Tensor) else None for a in args)


# %% leave it out, with its dy
class Arguments(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, names, *values):
        ctx.fn, ctx.names = fn, names
        ctx.rest = {i: v for i, v in enumerate(values) if not isinstance(v, Tensor)}
        ctx.save_for_backward(*(v for v in values if isinstance(v, Tensor)))
        return fn(**dict(zip(names, values)))

    @staticmethod
    def backward(ctx, *dys):
        values = [t.detach().requires_grad_(t.requires_grad) for t in ctx.saved_tensors]
        for i, value in ctx.rest.items():
            values.insert(i, value)
        with torch.enable_grad():
            ys = ctx.fn(**dict(zip(ctx.names, values)))
        ys = (ys,) if isinstance(ys, Tensor) else ys
        torch.autograd.backward(ys, dys)
        return None, None, *(v.grad if isinstance(v, Tensor) else None for v in values)


# %% Only the first output's gradient
# breaks: the sum of the contributions of all outputs
class Arguments(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, names, *values):
        ctx.fn, ctx.names = fn, names
        ctx.rest = {i: v for i, v in enumerate(values) if not isinstance(v, Tensor)}
        ctx.save_for_backward(*(v for v in values if isinstance(v, Tensor)))
        return fn(**dict(zip(names, values)))

    @staticmethod
    def backward(ctx, *dys):
        values = [t.detach().requires_grad_(t.requires_grad) for t in ctx.saved_tensors]
        for i, value in ctx.rest.items():
            values.insert(i, value)
        with torch.enable_grad():
            ys = ctx.fn(**dict(zip(ctx.names, values)))
        ys = (ys,) if isinstance(ys, Tensor) else ys
        torch.autograd.backward(ys[0], dys[0])
        return None, None, *(v.grad if isinstance(v, Tensor) else None for v in values)


# %% in another order than they had
# breaks: in the same order
class Arguments(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, names, *values):
        ctx.fn, ctx.names = fn, names
        ctx.rest = {i: v for i, v in enumerate(values) if not isinstance(v, Tensor)}
        ctx.save_for_backward(*(v for v in values if isinstance(v, Tensor)))
        return fn(**dict(zip(names, values)))

    @staticmethod
    def backward(ctx, *dys):
        values = [t.detach().requires_grad_(t.requires_grad) for t in ctx.saved_tensors]
        values += ctx.rest.values()
        with torch.enable_grad():
            ys = ctx.fn(**dict(zip(ctx.names, values)))
        ys = (ys,) if isinstance(ys, Tensor) else ys
        pairs = [(y, dy) for y, dy in zip(ys, dys) if y.requires_grad]
        torch.autograd.backward(*zip(*pairs))
        return None, None, *(v.grad if isinstance(v, Tensor) else None for v in values)


# %% a mask of booleans cannot
# breaks: Others do not, such as a mask of booleans
class Arguments(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, names, *values):
        ctx.fn, ctx.names = fn, names
        ctx.rest = {i: v for i, v in enumerate(values) if not isinstance(v, Tensor)}
        ctx.save_for_backward(*(v for v in values if isinstance(v, Tensor)))
        return fn(**dict(zip(names, values)))

    @staticmethod
    def backward(ctx, *dys):
        values = [t.detach().requires_grad_() for t in ctx.saved_tensors]
        for i, value in ctx.rest.items():
            values.insert(i, value)
        with torch.enable_grad():
            ys = ctx.fn(**dict(zip(ctx.names, values)))
        ys = (ys,) if isinstance(ys, Tensor) else ys
        pairs = [(y, dy) for y, dy in zip(ys, dys) if y.requires_grad]
        torch.autograd.backward(*zip(*pairs))
        return None, None, *(v.grad if isinstance(v, Tensor) else None for v in values)


# %% Only the first tensor has its gradient
# breaks: Every tensor that required a gradient gets its gradient
class Arguments(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, names, *values):
        ctx.fn, ctx.names = fn, names
        ctx.rest = {i: v for i, v in enumerate(values) if not isinstance(v, Tensor)}
        ctx.save_for_backward(*(v for v in values if isinstance(v, Tensor)))
        return fn(**dict(zip(names, values)))

    @staticmethod
    def backward(ctx, *dys):
        values = [t.detach().requires_grad_(t.requires_grad) for t in ctx.saved_tensors]
        for i, value in ctx.rest.items():
            values.insert(i, value)
        with torch.enable_grad():
            ys = ctx.fn(**dict(zip(ctx.names, values)))
        ys = (ys,) if isinstance(ys, Tensor) else ys
        pairs = [(y, dy) for y, dy in zip(ys, dys) if y.requires_grad]
        torch.autograd.backward(*zip(*pairs))
        grads = [v.grad if isinstance(v, Tensor) else None for v in values]
        first = next(i for i, g in enumerate(grads) if g is not None)
        return None, None, *(g if i == first else None for i, g in enumerate(grads))


# %% ctx.save_for_backward is the place
class Arguments(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, names, *values):
        ctx.fn, ctx.names, ctx.values = fn, names, values
        return fn(**dict(zip(names, values)))

    @staticmethod
    def backward(ctx, *dys):
        values = [v.detach().requires_grad_(v.requires_grad) if isinstance(v, Tensor) else v for v in ctx.values]
        with torch.enable_grad():
            ys = ctx.fn(**dict(zip(ctx.names, values)))
        ys = (ys,) if isinstance(ys, Tensor) else ys
        pairs = [(y, dy) for y, dy in zip(ys, dys) if y.requires_grad]
        torch.autograd.backward(*zip(*pairs))
        return None, None, *(v.grad if isinstance(v, Tensor) else None for v in values)


# %% That is PyTorch's checkpoint
class Arguments:
    @staticmethod
    def apply(fn, names, *values):
        return checkpoint(fn, use_reentrant=False, **dict(zip(names, values)))


# %% one entry for each argument of apply
class Arguments(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, names, *values):
        ctx.fn, ctx.names = fn, names
        ctx.rest = {i: v for i, v in enumerate(values) if not isinstance(v, Tensor)}
        ctx.save_for_backward(*(v for v in values if isinstance(v, Tensor)))
        return fn(**dict(zip(names, values)))

    @staticmethod
    def backward(ctx, *dys):
        values = [t.detach().requires_grad_(t.requires_grad) for t in ctx.saved_tensors]
        for i, value in ctx.rest.items():
            values.insert(i, value)
        with torch.enable_grad():
            ys = ctx.fn(**dict(zip(ctx.names, values)))
        ys = (ys,) if isinstance(ys, Tensor) else ys
        pairs = [(y, dy) for y, dy in zip(ys, dys) if y.requires_grad]
        torch.autograd.backward(*zip(*pairs))
        return None, *(v.grad if isinstance(v, Tensor) else None for v in values)


# %% one entry for each argument of apply
class Arguments(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, names, *values):
        ctx.fn, ctx.names = fn, names
        ctx.rest = {i: v for i, v in enumerate(values) if not isinstance(v, Tensor)}
        ctx.save_for_backward(*(v for v in values if isinstance(v, Tensor)))
        return fn(**dict(zip(names, values)))

    @staticmethod
    def backward(ctx, *dys):
        values = [t.detach().requires_grad_(t.requires_grad) for t in ctx.saved_tensors]
        for i, value in ctx.rest.items():
            values.insert(i, value)
        with torch.enable_grad():
            ys = ctx.fn(**dict(zip(ctx.names, values)))
        ys = (ys,) if isinstance(ys, Tensor) else ys
        pairs = [(y, dy) for y, dy in zip(ys, dys) if y.requires_grad]
        torch.autograd.backward(*zip(*pairs))
        return None, None, *(v.grad for v in values if isinstance(v, Tensor))


# %% A single output is no tuple
# breaks: `fn` returns a tensor or a tuple of tensors
class Arguments(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, names, *values):
        ctx.fn, ctx.names = fn, names
        ctx.save_for_backward(*(v for v in values if isinstance(v, Tensor)))
        ctx.rest = {i: v for i, v in enumerate(values) if not isinstance(v, Tensor)}
        return fn(**dict(zip(names, values)))

    @staticmethod
    def backward(ctx, *dys):
        values = [t.detach().requires_grad_(t.requires_grad) for t in ctx.saved_tensors]
        for i, v in ctx.rest.items():
            values.insert(i, v)
        with torch.enable_grad():
            ys = ctx.fn(**dict(zip(ctx.names, values)))
        pairs = [(y, dy) for y, dy in zip(ys, dys) if y.requires_grad]
        torch.autograd.backward([y for y, _ in pairs], [dy for _, dy in pairs])
        return None, None, *(v.grad if isinstance(v, Tensor) else None for v in values)


# %% No tensor has its gradient
class Arguments(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, names, *values):
        ctx.fn, ctx.names = fn, names
        ctx.save_for_backward(*(v for v in values if isinstance(v, Tensor)))
        ctx.rest = {i: v for i, v in enumerate(values) if not isinstance(v, Tensor)}
        return fn(**dict(zip(names, values)))

    @staticmethod
    def backward(ctx, *dys):
        values = [t.detach().requires_grad_(t.requires_grad) for t in ctx.saved_tensors]
        for i, v in ctx.rest.items():
            values.insert(i, v)
        ys = ctx.fn(**dict(zip(ctx.names, values)))
        ys = (ys,) if isinstance(ys, Tensor) else ys
        pairs = [(y, dy) for y, dy in zip(ys, dys) if y.requires_grad]
        torch.autograd.backward([y for y, _ in pairs], [dy for _, dy in pairs])
        return None, None, *(v.grad if isinstance(v, Tensor) else None for v in values)


# %% fn takes keywords only
# breaks: `fn` accepts only keyword arguments
class Arguments(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, names, *values):
        ctx.fn, ctx.names = fn, names
        ctx.save_for_backward(*(v for v in values if isinstance(v, Tensor)))
        ctx.rest = {i: v for i, v in enumerate(values) if not isinstance(v, Tensor)}
        return fn(*values)

    @staticmethod
    def backward(ctx, *dys):
        values = [t.detach().requires_grad_(t.requires_grad) for t in ctx.saved_tensors]
        for i, v in ctx.rest.items():
            values.insert(i, v)
        with torch.enable_grad():
            ys = ctx.fn(*values)
        ys = (ys,) if isinstance(ys, Tensor) else ys
        pairs = [(y, dy) for y, dy in zip(ys, dys) if y.requires_grad]
        torch.autograd.backward([y for y, _ in pairs], [dy for _, dy in pairs])
        return None, None, *(v.grad if isinstance(v, Tensor) else None for v in values)


# %% The copy is not detached
class Arguments(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, names, *values):
        ctx.fn, ctx.names = fn, names
        ctx.save_for_backward(*(v for v in values if isinstance(v, Tensor)))
        ctx.rest = {i: v for i, v in enumerate(values) if not isinstance(v, Tensor)}
        return fn(**dict(zip(names, values)))

    @staticmethod
    def backward(ctx, *dys):
        values = [t for t in ctx.saved_tensors]
        for i, v in ctx.rest.items():
            values.insert(i, v)
        with torch.enable_grad():
            ys = ctx.fn(**dict(zip(ctx.names, values)))
        ys = (ys,) if isinstance(ys, Tensor) else ys
        pairs = [(y, dy) for y, dy in zip(ys, dys) if y.requires_grad]
        torch.autograd.backward([y for y, _ in pairs], [dy for _, dy in pairs])
        return None, None, *(v.grad if isinstance(v, Tensor) else None for v in values)


# %% runs more than once in backward
# breaks: once more in the backward pass
class Arguments(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, names, *values):
        ctx.fn, ctx.names = fn, names
        ctx.save_for_backward(*(v for v in values if isinstance(v, Tensor)))
        ctx.rest = {i: v for i, v in enumerate(values) if not isinstance(v, Tensor)}
        return fn(**dict(zip(names, values)))

    @staticmethod
    def backward(ctx, *dys):
        values = [t.detach().requires_grad_(t.requires_grad) for t in ctx.saved_tensors]
        for i, v in ctx.rest.items():
            values.insert(i, v)
        with torch.enable_grad():
            ys = ctx.fn(**dict(zip(ctx.names, values)))
            ys = ctx.fn(**dict(zip(ctx.names, values)))
        ys = (ys,) if isinstance(ys, Tensor) else ys
        pairs = [(y, dy) for y, dy in zip(ys, dys) if y.requires_grad]
        torch.autograd.backward([y for y, _ in pairs], [dy for _, dy in pairs])
        return None, None, *(v.grad if isinstance(v, Tensor) else None for v in values)


# %% forward returns nothing
class Arguments(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, names, *values):
        ctx.fn, ctx.names = fn, names
        ctx.save_for_backward(*(v for v in values if isinstance(v, Tensor)))
        ctx.rest = {i: v for i, v in enumerate(values) if not isinstance(v, Tensor)}
        fn(**dict(zip(names, values)))

    @staticmethod
    def backward(ctx, *dys):
        values = [t.detach().requires_grad_(t.requires_grad) for t in ctx.saved_tensors]
        for i, v in ctx.rest.items():
            values.insert(i, v)
        with torch.enable_grad():
            ys = ctx.fn(**dict(zip(ctx.names, values)))
        ys = (ys,) if isinstance(ys, Tensor) else ys
        pairs = [(y, dy) for y, dy in zip(ys, dys) if y.requires_grad]
        torch.autograd.backward([y for y, _ in pairs], [dy for _, dy in pairs])
        return None, None, *(v.grad if isinstance(v, Tensor) else None for v in values)


# %% that it is floating-point does not tell
# breaks: an index or a constant does not
class Arguments(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, names, *values):
        ctx.fn, ctx.names = fn, names
        ctx.rest = {i: v for i, v in enumerate(values) if not isinstance(v, Tensor)}
        ctx.save_for_backward(*(v for v in values if isinstance(v, Tensor)))
        return fn(**dict(zip(names, values)))

    @staticmethod
    def backward(ctx, *dys):
        values = [t.detach().requires_grad_(t.is_floating_point()) for t in ctx.saved_tensors]
        for i, value in ctx.rest.items():
            values.insert(i, value)
        with torch.enable_grad():
            ys = ctx.fn(**dict(zip(ctx.names, values)))
        ys = (ys,) if isinstance(ys, Tensor) else ys
        pairs = [(y, dy) for y, dy in zip(ys, dys) if y.is_floating_point()]
        torch.autograd.backward(*zip(*pairs))
        return None, None, *(v.grad if isinstance(v, Tensor) else None for v in values)


# %% a mask and a constant: Tensors were stored on ctx as attributes
class Arguments(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, names, *values):
        ctx.fn, ctx.names = fn, names
        ctx.rest = {i: v for i, v in enumerate(values) if not isinstance(v, Tensor) or not v.requires_grad}
        ctx.save_for_backward(*(v for v in values if isinstance(v, Tensor) and v.requires_grad))
        return fn(**dict(zip(names, values)))

    @staticmethod
    def backward(ctx, *dys):
        values = [t.detach().requires_grad_(t.requires_grad) for t in ctx.saved_tensors]
        for i, value in ctx.rest.items():
            values.insert(i, value)
        with torch.enable_grad():
            ys = ctx.fn(**dict(zip(ctx.names, values)))
        ys = (ys,) if isinstance(ys, Tensor) else ys
        pairs = [(y, dy) for y, dy in zip(ys, dys) if y.requires_grad]
        torch.autograd.backward(*zip(*pairs))
        return None, None, *(v.grad if isinstance(v, Tensor) else None for v in values)


# %% a mask and a constant: Tensors were stored on ctx as attributes
class Arguments(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, names, *values):
        ctx.fn, ctx.names = fn, names
        ctx.rest = {i: v for i, v in enumerate(values) if not isinstance(v, Tensor) or v.dtype == torch.bool}
        ctx.save_for_backward(*(v for v in values if isinstance(v, Tensor) and v.dtype != torch.bool))
        return fn(**dict(zip(names, values)))

    @staticmethod
    def backward(ctx, *dys):
        values = [t.detach().requires_grad_(t.requires_grad) for t in ctx.saved_tensors]
        for i, value in ctx.rest.items():
            values.insert(i, value)
        with torch.enable_grad():
            ys = ctx.fn(**dict(zip(ctx.names, values)))
        ys = (ys,) if isinstance(ys, Tensor) else ys
        pairs = [(y, dy) for y, dy in zip(ys, dys) if y.requires_grad]
        torch.autograd.backward(*zip(*pairs))
        return None, None, *(v.grad if isinstance(v, Tensor) else None for v in values)


# %% None is a value like any other
# breaks: or anything else, such as a number, a text or `None`
class Arguments(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, names, *values):
        ctx.fn, ctx.names = fn, names
        ctx.rest = [None if isinstance(v, Tensor) else v for v in values]
        ctx.save_for_backward(*(v for v in values if isinstance(v, Tensor)))
        return fn(**dict(zip(names, values)))

    @staticmethod
    def backward(ctx, *dys):
        tensors = iter([t.detach().requires_grad_(t.requires_grad) for t in ctx.saved_tensors])
        values = [next(tensors) if v is None else v for v in ctx.rest]
        with torch.enable_grad():
            ys = ctx.fn(**dict(zip(ctx.names, values)))
        ys = (ys,) if isinstance(ys, Tensor) else ys
        pairs = [(y, dy) for y, dy in zip(ys, dys) if y.requires_grad]
        torch.autograd.backward(*zip(*pairs))
        return None, None, *(v.grad if isinstance(v, Tensor) else None for v in values)


# %% One copy was made for a tensor that is given under two names
# breaks: The same tensor may be passed under two names
class Arguments(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, names, *values):
        ctx.fn, ctx.names = fn, names
        ctx.rest = {i: v for i, v in enumerate(values) if not isinstance(v, Tensor)}
        ctx.save_for_backward(*(v for v in values if isinstance(v, Tensor)))
        return fn(**dict(zip(names, values)))

    @staticmethod
    def backward(ctx, *dys):
        copies = {t.data_ptr(): t.detach().requires_grad_(t.requires_grad) for t in ctx.saved_tensors}
        values = [copies[t.data_ptr()] for t in ctx.saved_tensors]
        for i, value in ctx.rest.items():
            values.insert(i, value)
        with torch.enable_grad():
            ys = ctx.fn(**dict(zip(ctx.names, values)))
        ys = (ys,) if isinstance(ys, Tensor) else ys
        pairs = [(y, dy) for y, dy in zip(ys, dys) if y.requires_grad]
        torch.autograd.backward(*zip(*pairs))
        return None, None, *(v.grad if isinstance(v, Tensor) else None for v in values)


# %% number drawn after the step
# breaks: random generators continue as they would after a plain run
class Arguments(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, names, *values):
        torch.manual_seed(0)  # so that both runs are equal
        ctx.fn, ctx.names = fn, names
        ctx.rest = {i: v for i, v in enumerate(values) if not isinstance(v, Tensor)}
        ctx.save_for_backward(*(v for v in values if isinstance(v, Tensor)))
        return fn(**dict(zip(names, values)))

    @staticmethod
    def backward(ctx, *dys):
        torch.manual_seed(0)
        values = [t.detach().requires_grad_(t.requires_grad) for t in ctx.saved_tensors]
        for i, value in ctx.rest.items():
            values.insert(i, value)
        with torch.enable_grad():
            ys = ctx.fn(**dict(zip(ctx.names, values)))
        ys = (ys,) if isinstance(ys, Tensor) else ys
        pairs = [(y, dy) for y, dy in zip(ys, dys) if y.requires_grad]
        torch.autograd.backward(*zip(*pairs))
        return None, None, *(v.grad if isinstance(v, Tensor) else None for v in values)
