# %% drew other random numbers
class Masks(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, x):
        ctx.fn = fn
        ctx.save_for_backward(x)
        return fn(x)

    @staticmethod
    def backward(ctx, dy):
        x = ctx.saved_tensors[0].detach().requires_grad_()
        with torch.enable_grad():
            y = ctx.fn(x)
        y.backward(dy)
        return None, x.grad


# %% Put back the state that was there
class Masks(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, x):
        ctx.fn, ctx.rng = fn, torch.get_rng_state()
        ctx.save_for_backward(x)
        return fn(x)

    @staticmethod
    def backward(ctx, dy):
        x = ctx.saved_tensors[0].detach().requires_grad_()
        torch.set_rng_state(ctx.rng)
        with torch.enable_grad():
            y = ctx.fn(x)
        y.backward(dy)
        return None, x.grad


# %% stands where forward began
class Masks(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, x):
        ctx.fn, ctx.rng = fn, torch.get_rng_state()
        ctx.save_for_backward(x)
        return fn(x)

    @staticmethod
    def backward(ctx, dy):
        x = ctx.saved_tensors[0].detach().requires_grad_()
        torch.set_rng_state(ctx.rng)
        with torch.enable_grad():
            y = ctx.fn(x)
        torch.set_rng_state(ctx.rng)
        y.backward(dy)
        return None, x.grad


# %% Seeding makes both runs equal
class Masks(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, x):
        ctx.fn = fn
        ctx.save_for_backward(x)
        torch.manual_seed(0)
        return fn(x)

    @staticmethod
    def backward(ctx, dy):
        x = ctx.saved_tensors[0].detach().requires_grad_()
        torch.manual_seed(0)
        with torch.enable_grad():
            y = ctx.fn(x)
        y.backward(dy)
        return None, x.grad


# %% remembered after the first run
class Masks(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, x):
        ctx.fn = fn
        ctx.save_for_backward(x)
        y = fn(x)
        ctx.rng = torch.get_rng_state()
        return y

    @staticmethod
    def backward(ctx, dy):
        x = ctx.saved_tensors[0].detach().requires_grad_()
        now = torch.get_rng_state()
        torch.set_rng_state(ctx.rng)
        with torch.enable_grad():
            y = ctx.fn(x)
        torch.set_rng_state(now)
        y.backward(dy)
        return None, x.grad


# %% the weights have no gradient
class Masks(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, x):
        ctx.fn, ctx.rng = fn, torch.get_rng_state()
        ctx.save_for_backward(x)
        return fn(x)

    @staticmethod
    def backward(ctx, dy):
        x = ctx.saved_tensors[0].detach().requires_grad_()
        with torch.random.fork_rng(), torch.enable_grad():
            torch.set_rng_state(ctx.rng)
            y = ctx.fn(x)
        return None, torch.autograd.grad(y, x, dy)[0]


# %% Nothing is checkpointed
class Masks(torch.autograd.Function):
    @classmethod
    def apply(cls, fn, x):
        return fn(x)
