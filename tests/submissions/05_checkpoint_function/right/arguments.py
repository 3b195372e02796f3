# %% two dicts, and a sum of products
class Arguments(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, names, *values):
        named = dict(zip(names, values))
        ctx.fn = fn
        ctx.names = names
        ctx.plain = {k: v for k, v in named.items() if not torch.is_tensor(v)}
        ctx.tensors = [k for k in names if k not in ctx.plain]
        ctx.save_for_backward(*[named[k] for k in ctx.tensors])
        return fn(**named)

    @staticmethod
    def backward(ctx, *dys):
        copies = {}
        for k, t in zip(ctx.tensors, ctx.saved_tensors):
            copies[k] = t.detach().requires_grad_() if t.requires_grad else t
        with torch.enable_grad():
            ys = ctx.fn(**copies, **ctx.plain)
            ys = ys if isinstance(ys, tuple) else (ys,)
            sum((y * dy).sum() for y, dy in zip(ys, dys) if y.is_floating_point()).backward()
        return (None, None) + tuple(copies[k].grad if k in copies else None for k in ctx.names)
