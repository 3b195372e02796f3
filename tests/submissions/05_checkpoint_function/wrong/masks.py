# %% They come from `generator`
# breaks: and from no other
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


class Masks(Arguments):
    @staticmethod
    def forward(ctx, fn, *args):
        ctx.rng = torch.get_rng_state()
        return Arguments.forward(ctx, fn, *args)

    @staticmethod
    def backward(ctx, *dys):
        now = torch.get_rng_state()
        torch.set_rng_state(ctx.rng)
        try:
            return Arguments.backward(ctx, *dys)
        finally:
            torch.set_rng_state(now)


# %% drew other random numbers
# breaks: draws the same numbers again
class Masks(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, x, generator):
        ctx.fn, ctx.generator = fn, generator
        ctx.save_for_backward(x)
        return fn(x, generator)

    @staticmethod
    def backward(ctx, dy):
        x = ctx.saved_tensors[0].detach().requires_grad_()
        with torch.enable_grad():
            y = ctx.fn(x, ctx.generator)
        y.backward(dy)
        return None, x.grad, None


# %% Put back the state that was there
# breaks: what it would draw after a plain run
class Masks(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, x, generator):
        ctx.fn, ctx.generator, ctx.state = fn, generator, generator.get_state()
        ctx.save_for_backward(x)
        return fn(x, generator)

    @staticmethod
    def backward(ctx, dy):
        x = ctx.saved_tensors[0].detach().requires_grad_()
        ctx.generator.set_state(ctx.state)
        with torch.enable_grad():
            y = ctx.fn(x, ctx.generator)
        y.backward(dy)
        return None, x.grad, None


# %% stands where forward began
class Masks(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, x, generator):
        ctx.fn, ctx.generator, ctx.state = fn, generator, generator.get_state()
        ctx.save_for_backward(x)
        return fn(x, generator)

    @staticmethod
    def backward(ctx, dy):
        x = ctx.saved_tensors[0].detach().requires_grad_()
        ctx.generator.set_state(ctx.state)
        with torch.enable_grad():
            y = ctx.fn(x, ctx.generator)
        ctx.generator.set_state(ctx.state)
        y.backward(dy)
        return None, x.grad, None


# %% Seeding makes both runs equal
# breaks: Your Function does not seed any generator
class Masks(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, x, generator):
        ctx.fn, ctx.generator = fn, generator.manual_seed(0)
        ctx.save_for_backward(x)
        return fn(x, generator)

    @staticmethod
    def backward(ctx, dy):
        x = ctx.saved_tensors[0].detach().requires_grad_()
        ctx.generator.manual_seed(0)
        with torch.enable_grad():
            y = ctx.fn(x, ctx.generator)
        y.backward(dy)
        return None, x.grad, None


# %% remembered after the first run
class Masks(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, x, generator):
        ctx.fn, ctx.generator = fn, generator
        ctx.save_for_backward(x)
        y = fn(x, generator)
        ctx.state = generator.get_state()
        return y

    @staticmethod
    def backward(ctx, dy):
        x = ctx.saved_tensors[0].detach().requires_grad_()
        now = ctx.generator.get_state()
        ctx.generator.set_state(ctx.state)
        with torch.enable_grad():
            y = ctx.fn(x, ctx.generator)
        ctx.generator.set_state(now)
        y.backward(dy)
        return None, x.grad, None


# %% the weights have no gradient
# breaks: their gradients are in their `.grad`
class Masks(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, x, generator):
        ctx.fn, ctx.generator, ctx.state = fn, generator, generator.get_state()
        ctx.save_for_backward(x)
        return fn(x, generator)

    @staticmethod
    def backward(ctx, dy):
        x = ctx.saved_tensors[0].detach().requires_grad_()
        now = ctx.generator.get_state()
        ctx.generator.set_state(ctx.state)
        with torch.enable_grad():
            y = ctx.fn(x, ctx.generator)
        ctx.generator.set_state(now)
        return None, torch.autograd.grad(y, x, dy)[0], None


# %% Nothing is checkpointed
class Masks(torch.autograd.Function):
    @classmethod
    def apply(cls, fn, x, generator):
        return fn(x, generator)


# %% That is PyTorch's checkpoint
class Masks:
    @staticmethod
    def apply(fn, x, generator):
        return checkpoint(fn, x, generator, use_reentrant=False)


# %% set it before the second
class Masks(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, x, generator):
        ctx.fn, ctx.generator = fn, generator
        ctx.state = generator.get_state()
        ctx.save_for_backward(x)
        return fn(x, generator)

    @staticmethod
    def backward(ctx, dy):
        x = ctx.saved_tensors[0].detach().requires_grad_()
        now = ctx.generator.get_state()
        with torch.enable_grad():
            y = ctx.fn(x, ctx.generator)
        ctx.generator.set_state(now)
        torch.autograd.backward(y, dy)
        return None, x.grad, None


# %% The seed leads to the beginning
# breaks: its seed does not determine its current state
class Masks(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, x, generator):
        ctx.fn, ctx.generator = fn, generator
        ctx.state = generator.get_state()
        ctx.save_for_backward(x)
        return fn(x, generator)

    @staticmethod
    def backward(ctx, dy):
        x = ctx.saved_tensors[0].detach().requires_grad_()
        now = ctx.generator.get_state()
        ctx.generator.manual_seed(ctx.generator.initial_seed())
        with torch.enable_grad():
            y = ctx.fn(x, ctx.generator)
        ctx.generator.set_state(now)
        torch.autograd.backward(y, dy)
        return None, x.grad, None


# %% Seeding makes both runs equal
class Masks(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, x, generator):
        ctx.fn, ctx.generator = fn, generator
        generator.manual_seed(0)
        ctx.save_for_backward(x)
        return fn(x, generator)

    @staticmethod
    def backward(ctx, dy):
        x = ctx.saved_tensors[0].detach().requires_grad_()
        now = ctx.generator.get_state()
        ctx.generator.manual_seed(0)
        with torch.enable_grad():
            y = ctx.fn(x, ctx.generator)
        ctx.generator.set_state(now)
        torch.autograd.backward(y, dy)
        return None, x.grad, None


# %% saved as a tensor of the graph
# breaks: a generator's state
class Masks(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, x, generator):
        ctx.fn, ctx.generator = fn, generator
        ctx.state = generator.get_state()
        ctx.save_for_backward(x, ctx.state)
        return fn(x, generator)

    @staticmethod
    def backward(ctx, dy):
        x = ctx.saved_tensors[0].detach().requires_grad_()
        now = ctx.generator.get_state()
        ctx.generator.set_state(ctx.state)
        with torch.enable_grad():
            y = ctx.fn(x, ctx.generator)
        ctx.generator.set_state(now)
        torch.autograd.backward(y, dy)
        return None, x.grad, None


# %% None for generator
class Masks(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, x, generator):
        ctx.fn, ctx.generator = fn, generator
        ctx.state = generator.get_state()
        ctx.save_for_backward(x)
        return fn(x, generator)

    @staticmethod
    def backward(ctx, dy):
        x = ctx.saved_tensors[0].detach().requires_grad_()
        now = ctx.generator.get_state()
        ctx.generator.set_state(ctx.state)
        with torch.enable_grad():
            y = ctx.fn(x, ctx.generator)
        ctx.generator.set_state(now)
        torch.autograd.backward(y, dy)
        return None, x.grad


# %% dy was forgotten
class Masks(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, x, generator):
        ctx.fn, ctx.generator = fn, generator
        ctx.state = generator.get_state()
        ctx.save_for_backward(x)
        return fn(x, generator)

    @staticmethod
    def backward(ctx, dy):
        x = ctx.saved_tensors[0].detach().requires_grad_()
        now = ctx.generator.get_state()
        ctx.generator.set_state(ctx.state)
        with torch.enable_grad():
            y = ctx.fn(x, ctx.generator)
        ctx.generator.set_state(now)
        torch.autograd.backward(y)
        return None, x.grad, None


# %% must be around the second run
class Masks(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, x, generator):
        ctx.fn, ctx.generator = fn, generator
        ctx.state = generator.get_state()
        ctx.save_for_backward(x)
        return fn(x, generator)

    @staticmethod
    def backward(ctx, dy):
        x = ctx.saved_tensors[0].detach().requires_grad_()
        now = ctx.generator.get_state()
        ctx.generator.set_state(ctx.state)
        y = ctx.fn(x, ctx.generator)
        ctx.generator.set_state(now)
        torch.autograd.backward(y, dy)
        return None, x.grad, None


# %% The copy is not detached
# breaks: It gets its gradient from what `backward` returns
class Masks(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, x, generator):
        ctx.fn, ctx.generator = fn, generator
        ctx.state = generator.get_state()
        ctx.save_for_backward(x)
        return fn(x, generator)

    @staticmethod
    def backward(ctx, dy):
        x = ctx.saved_tensors[0]
        now = ctx.generator.get_state()
        ctx.generator.set_state(ctx.state)
        with torch.enable_grad():
            y = ctx.fn(x, ctx.generator)
        ctx.generator.set_state(now)
        torch.autograd.backward(y, dy)
        return None, x.grad, None


# %% tensors with a .grad
class Masks(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, x, generator):
        ctx.fn, ctx.generator, ctx.state = fn, generator, generator.get_state()
        ctx.save_for_backward(x)
        return fn(x, generator)

    @staticmethod
    def backward(ctx, dy):
        x = ctx.saved_tensors[0].detach().requires_grad_()
        ctx.generator.set_state(ctx.state)
        with torch.enable_grad():
            y = ctx.fn(x, ctx.generator)
        return None, *torch.autograd.grad(y, x, dy), None


# %% runs more than once in forward
class Masks(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, x, generator):
        fn(x, generator)
        ctx.fn, ctx.generator, ctx.state = fn, generator, generator.get_state()
        ctx.save_for_backward(x)
        return fn(x, generator)

    @staticmethod
    def backward(ctx, dy):
        x = ctx.saved_tensors[0].detach().requires_grad_()
        now = ctx.generator.get_state()
        ctx.generator.set_state(ctx.state)
        with torch.enable_grad():
            y = ctx.fn(x, ctx.generator)
        ctx.generator.set_state(now)
        torch.autograd.backward(y, dy)
        return None, x.grad, None


# %% the next call of apply overwrites it
class Masks(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, x, generator):
        Masks.fn, Masks.generator, Masks.state = fn, generator, generator.get_state()
        ctx.save_for_backward(x)
        return fn(x, generator)

    @staticmethod
    def backward(ctx, dy):
        x = ctx.saved_tensors[0].detach().requires_grad_()
        now = Masks.generator.get_state()
        Masks.generator.set_state(Masks.state)
        with torch.enable_grad():
            y = Masks.fn(x, Masks.generator)
        Masks.generator.set_state(now)
        torch.autograd.backward(y, dy)
        return None, x.grad, None


# %% stands where forward began
class Masks(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, x, generator):
        ctx.fn, ctx.generator, ctx.state = fn, generator, generator.get_state()
        ctx.save_for_backward(x)
        return fn(x, generator)
    @staticmethod
    def backward(ctx, dy):
        x = ctx.saved_tensors[0].detach().requires_grad_()
        ctx.generator.set_state(ctx.state)
        now = ctx.generator.get_state()
        with torch.enable_grad():
            y = ctx.fn(x, ctx.generator)
        ctx.generator.set_state(now)
        torch.autograd.backward(y, dy)
        return None, x.grad, None
