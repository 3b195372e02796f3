# %% it was asked for x
class Weights(torch.autograd.Function):
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
        return None, torch.autograd.grad(y, x, dy)[0]


# %% not detached
class Weights(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, x):
        ctx.fn = fn
        ctx.save_for_backward(x)
        return fn(x)

    @staticmethod
    def backward(ctx, dy):
        (x,) = ctx.saved_tensors
        with torch.enable_grad():
            y = ctx.fn(x)
        x.retain_grad()
        y.backward(dy)
        return None, x.grad


# %% Nothing is checkpointed
class Weights:
    @staticmethod
    def apply(fn, x):
        return fn(x)


# %% That is PyTorch's checkpoint
class Weights(torch.autograd.Function):
    @staticmethod
    def apply(fn, x):
        return checkpoint(fn, x, use_reentrant=True)


# %% That is PyTorch's checkpoint
class Weights:
    @staticmethod
    def apply(fn, x):
        return ck.checkpoint(fn, x, use_reentrant=False)


# %% The segment ran once
class Weights(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, x):
        with torch.enable_grad():
            ctx.x = x.detach().requires_grad_()
            ctx.y = fn(ctx.x)
        return ctx.y.detach()

    @staticmethod
    def backward(ctx, dy):
        ctx.y.backward(dy)
        return None, ctx.x.grad


# %% ctx.save_for_backward is the place
class Weights(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, x):
        ctx.fn, ctx.x = fn, x
        return fn(x)

    @staticmethod
    def backward(ctx, dy):
        x = ctx.x.detach().requires_grad_()
        with torch.enable_grad():
            y = ctx.fn(x)
        y.backward(dy)
        return None, x.grad


# %% one entry for each argument
class Weights(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, x):
        ctx.fn = fn
        ctx.save_for_backward(x)
        return fn(x)

    @staticmethod
    def backward(ctx, dy):
        x = ctx.saved_tensors[0].detach().requires_grad_()
        with torch.enable_grad():
            ctx.fn(x).backward(dy)
        return None, None


# %% dy was forgotten
class Weights(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, x):
        ctx.fn = fn
        ctx.save_for_backward(x)
        return fn(x)

    @staticmethod
    def backward(ctx, dy):
        x = ctx.saved_tensors[0].detach().requires_grad_()
        with torch.enable_grad():
            ctx.fn(x).sum().backward()
        return None, x.grad


# %% The second run recorded no graph
class Weights(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, x):
        ctx.fn = fn
        ctx.save_for_backward(x)
        return fn(x)

    @staticmethod
    def backward(ctx, dy):
        x = ctx.saved_tensors[0].detach().requires_grad_()
        y = ctx.fn(x)
        y.backward(dy)
        return None, x.grad
