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


# %% a template with places for the tensors, and torch.autograd.grad
class Place:
    def __init__(self, index):
        self.index = index


class Arguments(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, names, *values):
        tensors, template = [], {}
        for name, value in zip(names, values):
            template[name] = Place(len(tensors)) if isinstance(value, Tensor) else value
            if isinstance(value, Tensor):
                tensors.append(value)
        ctx.fn, ctx.template = fn, template
        ctx.save_for_backward(*tensors)
        return fn(**{name: tensors[v.index] if isinstance(v, Place) else v for name, v in template.items()})

    @staticmethod
    def backward(ctx, *dys):
        copies = [t.detach().requires_grad_() if t.requires_grad else t for t in ctx.saved_tensors]
        with torch.enable_grad():
            ys = ctx.fn(**{k: copies[v.index] if isinstance(v, Place) else v for k, v in ctx.template.items()})
        if not isinstance(ys, tuple):
            ys = [ys]
        asked = [(y, dy) for y, dy in zip(ys, dys) if y.requires_grad]
        wanted = [c for c in copies if c.requires_grad]
        found = torch.autograd.grad([y for y, _ in asked], wanted, [dy for _, dy in asked], allow_unused=True)
        by_copy = {id(c): g for c, g in zip(wanted, found)}
        entries = [by_copy.get(id(copies[v.index])) if isinstance(v, Place) else None for v in ctx.template.values()]
        return (None, None, *entries)
