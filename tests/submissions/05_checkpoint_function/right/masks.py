# %% a twin of the generator
class Masks(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, x, generator):
        ctx.fn, ctx.twin = fn, generator.clone_state()
        ctx.save_for_backward(x)
        return fn(x, generator)

    @staticmethod
    def backward(ctx, dy):
        x = ctx.saved_tensors[0].detach().requires_grad_()
        with torch.enable_grad():
            y = ctx.fn(x, ctx.twin)
        y.backward(dy)
        return None, x.grad, None


# %% one tensor more to save, and try and finally
class Masks(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, x, generator):
        ctx.run = fn
        ctx.generator = generator
        ctx.save_for_backward(x)
        ctx.state = generator.get_state().clone()
        return fn(x, generator)

    @staticmethod
    def backward(ctx, dy):
        (x,) = ctx.saved_tensors
        leaf = x.detach().clone().requires_grad_()
        found = ctx.generator.get_state()
        try:
            ctx.generator.set_state(ctx.state)
            with torch.enable_grad():
                (ctx.run(leaf, ctx.generator) * dy).sum().backward()
        finally:
            ctx.generator.set_state(found)
        return None, leaf.grad, None


# %% a generator of its own for the second run, made from the state
class Masks(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, x, generator):
        ctx.begin = {"state": generator.get_state(), "device": generator.device}
        ctx.fn = fn
        ctx.save_for_backward(x)
        return fn(x, generator)

    @staticmethod
    def backward(ctx, dy):
        second = torch.Generator(ctx.begin["device"])
        second.set_state(ctx.begin["state"])
        with torch.enable_grad():
            x = ctx.saved_tensors[0].detach().requires_grad_()
            ctx.fn(x, second).backward(gradient=dy)
        return (None, x.grad) + (None,)
