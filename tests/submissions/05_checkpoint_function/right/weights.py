# %% in one with, grad of everything by hand
class Weights(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, x):
        with torch.no_grad():
            y = fn(x)
        ctx.save_for_backward(x)
        ctx.again = fn
        return y

    @staticmethod
    def backward(ctx, dy):
        leaf = ctx.saved_tensors[0].clone().detach()
        leaf.requires_grad = True
        with torch.enable_grad():
            (ctx.again(leaf) * dy).sum().backward()
        return None, leaf.grad.clone()
