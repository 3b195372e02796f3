# %% two classes of its own, and the sum in place
class Into(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, dy):
        pieces = [torch.empty_like(dy) for _ in range(dist.get_world_size())]
        dist.all_gather(pieces, dy.contiguous())
        return sum(pieces)


def parallel_mlp(x, a, b, bias):
    y = F.linear(F.gelu(F.linear(Into.apply(x), a)), b)
    dist.all_reduce(y)  # autograd does not see it, and has nothing to do
    return y + bias


# %% rank 0 adds the bias, everybody has its gradient
def parallel_mlp(x, a, b, bias):
    class Sum(torch.autograd.Function):
        @staticmethod
        def forward(ctx, part, bias):
            whole = part + bias if dist.get_rank() == 0 else part.clone()
            dist.all_reduce(whole)
            return whole

        @staticmethod
        def backward(ctx, dy):
            return dy, dy.sum(0)

    def summed(dx):
        dx = dx.contiguous().clone()
        dist.all_reduce(dx)
        return dx

    return Sum.apply(F.gelu(border(torch.clone, summed)(x) @ a.T) @ b.T, bias)


# %% a hook on x, and the others' part added as a constant
def parallel_mlp(x, a, b, bias):
    def summed(t):
        t = t.detach().clone()
        dist.all_reduce(t)
        return t

    x = x.view_as(x)
    x.register_hook(summed)
    y = F.gelu(x @ a.T) @ b.T
    return y + (summed(y) - y.detach()) + bias
