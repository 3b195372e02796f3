# %% Here it is one rank's alone
# breaks: of the sum of all dy
class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, dim):
        ctx.dim = dim
        pieces = [torch.empty_like(x) for _ in range(dist.get_world_size())]
        dist.all_gather(pieces, x)
        return torch.cat(pieces, dim)

    @staticmethod
    def backward(ctx, dy):
        return dy.chunk(dist.get_world_size(), ctx.dim)[dist.get_rank()], None


# %% this rank's piece is asked for
class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, dim):
        pieces = [torch.empty_like(x) for _ in range(dist.get_world_size())]
        dist.all_gather(pieces, x)
        return torch.cat(pieces, dim)

    @staticmethod
    def backward(ctx, dy):
        dist.all_reduce(dy)
        return dy, None


# %% gradients of all uses are added up
class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, dim):
        ctx.dim = dim
        pieces = [torch.empty_like(x) for _ in range(dist.get_world_size())]
        dist.all_gather(pieces, x)
        return torch.cat(pieces, dim)

    @staticmethod
    def backward(ctx, dy):
        dist.all_reduce(dy)
        dy /= dist.get_world_size()
        return dy.chunk(dist.get_world_size(), ctx.dim)[dist.get_rank()], None


# %% Along dim 0, whatever dim is
# breaks: is any dimension of `x`
class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, dim):
        y = x.new_empty(len(x) * dist.get_world_size(), *x.shape[1:])
        dist.all_gather_single(y, x.contiguous())
        return y

    @staticmethod
    def backward(ctx, dy):
        dx = dy.new_empty(len(dy) // dist.get_world_size(), *dy.shape[1:])
        dist.reduce_scatter_single(dx, dy.contiguous())
        return dx, None


# %% return one for each, None for dim
class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, dim):
        ctx.dim = dim
        pieces = [torch.empty_like(x) for _ in range(dist.get_world_size())]
        dist.all_gather(pieces, x)
        return torch.cat(pieces, dim)

    @staticmethod
    def backward(ctx, dy):
        dist.all_reduce(dy)
        return dy.chunk(dist.get_world_size(), ctx.dim)[dist.get_rank()]


# %% ask dist.get_world_size()
# breaks: any number of ranks
class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, dim):
        ctx.dim = dim
        pieces = [torch.empty_like(x) for _ in range(dist.get_world_size())]
        dist.all_gather(pieces, x)
        return torch.cat(pieces[:2], dim)

    @staticmethod
    def backward(ctx, dy):
        dist.all_reduce(dy)
        return dy.chunk(dist.get_world_size(), ctx.dim)[dist.get_rank()], None


# %% derives from torch.autograd.Function
# breaks: derives from `torch.autograd.Function`
class Gather:
    @staticmethod
    def apply(x, dim):
        pieces = [torch.empty_like(x) for _ in range(dist.get_world_size())]
        dist.all_gather(pieces, x)
        return torch.cat(pieces, dim)


# %% gave no answer
class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, dim):
        if dist.get_rank() == 0:
            dist.barrier()
        while dist.get_rank() == 1:
            pass

    @staticmethod
    def backward(ctx, dy):
        return dy, None


# %% three ranks: error: It ran on two ranks, and not on three: is 2 written where the number of ranks belongs?
class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, dim):
        ctx.dim = dim
        x = x.movedim(dim, 0).contiguous()
        y = x.new_empty(2 * len(x), *x.shape[1:])
        dist.all_gather_single(y, x)
        return y.movedim(0, dim)

    @staticmethod
    def backward(ctx, dy):
        dy = dy.movedim(ctx.dim, 0).contiguous()
        dx = dy.new_empty(len(dy) // 2, *dy.shape[1:])
        dist.reduce_scatter_single(dx, dy)
        return dx.movedim(0, ctx.dim), None


# %% is 2 written where the number of ranks belongs?
class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, dim):
        ctx.dim = dim
        pieces = [torch.empty_like(x) for _ in range(dist.get_world_size())]
        dist.all_gather(pieces, x)
        return torch.cat(pieces, dim)

    @staticmethod
    def backward(ctx, dy):
        dist.all_reduce(dy)
        return dy.chunk(2, ctx.dim)[dist.get_rank()], None


# %% backward, another dim, three ranks: error: AttributeError
class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, dim):
        pieces = [torch.empty_like(x) for _ in range(dist.get_world_size())]
        dist.all_gather(pieces, x)
        return torch.cat(pieces, dim)

    @staticmethod
    def backward(ctx, dy):
        dist.all_reduce(dy)
        return dy.chunk(dist.get_world_size(), ctx.dim)[dist.get_rank()], None


# %% another dim: y is not moved back
class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, dim):
        ctx.dim = dim
        x = x.movedim(dim, 0).contiguous()
        y = x.new_empty(len(x) * dist.get_world_size(), *x.shape[1:])
        dist.all_gather_single(y, x)
        return y

    @staticmethod
    def backward(ctx, dy):
        dy = dy.movedim(ctx.dim, 0).contiguous()
        dx = dy.new_empty(len(dy) // dist.get_world_size(), *dy.shape[1:])
        dist.reduce_scatter_single(dx, dy)
        return dx.movedim(0, ctx.dim), None


# %% another dim: dx is not moved back
class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, dim):
        ctx.dim = dim
        x = x.movedim(dim, 0).contiguous()
        y = x.new_empty(len(x) * dist.get_world_size(), *x.shape[1:])
        dist.all_gather_single(y, x)
        return y.movedim(0, dim)

    @staticmethod
    def backward(ctx, dy):
        dy = dy.movedim(ctx.dim, 0).contiguous()
        dx = dy.new_empty(len(dy) // dist.get_world_size(), *dy.shape[1:])
        dist.reduce_scatter_single(dx, dy)
        return dx, None


# %% view and reshape move no dimension
class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, dim):
        ctx.dim = dim
        y = x.new_empty(len(x) * dist.get_world_size(), *x.shape[1:])
        dist.all_gather_single(y, x)
        return y.view(*x.shape[:dim], -1, *x.shape[dim + 1 :])

    @staticmethod
    def backward(ctx, dy):
        dy = dy.movedim(ctx.dim, 0).contiguous()
        dx = dy.new_empty(len(dy) // dist.get_world_size(), *dy.shape[1:])
        dist.reduce_scatter_single(dx, dy)
        return dx.movedim(0, ctx.dim), None


# %% Copies of this rank's own piece
class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, dim):
        ctx.dim = dim
        return torch.cat([x] * dist.get_world_size(), dim)

    @staticmethod
    def backward(ctx, dy):
        dy = dy.movedim(ctx.dim, 0).contiguous()
        dx = dy.new_empty(len(dy) // dist.get_world_size(), *dy.shape[1:])
        dist.reduce_scatter_single(dx, dy)
        return dx.movedim(0, ctx.dim), None


# %% rank 0's comes first, on every rank
# breaks: beginning with rank 0's piece
class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, dim):
        ctx.dim = dim
        pieces = [torch.empty_like(x) for _ in range(dist.get_world_size())]
        dist.all_gather(pieces, x)
        return torch.cat(pieces[::-1], dim)

    @staticmethod
    def backward(ctx, dy):
        dy = dy.movedim(ctx.dim, 0).contiguous()
        dx = dy.new_empty(len(dy) // dist.get_world_size(), *dy.shape[1:])
        dist.reduce_scatter_single(dx, dy)
        return dx.movedim(0, ctx.dim), None


# %% backward, another dim, three ranks: error: TypeError: backward is not written yet
class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, dim):
        ctx.dim = dim
        x = x.movedim(dim, 0).contiguous()
        y = x.new_empty(len(x) * dist.get_world_size(), *x.shape[1:])
        dist.all_gather_single(y, x)
        return y.movedim(0, dim)


# %% backward returned None as the gradient of x
class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, dim):
        ctx.dim = dim
        x = x.movedim(dim, 0).contiguous()
        y = x.new_empty(len(x) * dist.get_world_size(), *x.shape[1:])
        dist.all_gather_single(y, x)
        return y.movedim(0, dim)

    @staticmethod
    def backward(ctx, dy):
        dy = dy.movedim(ctx.dim, 0).contiguous()
        dx = dy.new_empty(len(dy) // dist.get_world_size(), *dy.shape[1:])
        dist.reduce_scatter_single(dx, dy)
        dx.movedim(0, ctx.dim)


# %% forward, another dim, three ranks: The pieces are there, but in another order
class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, dim):
        ctx.dim, rank = dim, dist.get_rank()
        found = [torch.empty_like(x) for _ in range(dist.get_world_size())]
        dist.all_gather(found, x.contiguous())
        return torch.cat([x, *(found[i] for i in range(len(found)) if i != rank)], dim)

    @staticmethod
    def backward(ctx, dy):
        dy = dy.clone()
        dist.all_reduce(dy)
        return dy.chunk(dist.get_world_size(), ctx.dim)[dist.get_rank()], None


# %% but in another order
class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, dim):
        ctx.dim, rank = dim, dist.get_rank()
        found = [torch.empty_like(x) for _ in range(dist.get_world_size())]
        dist.all_gather(found, x.contiguous())
        return torch.cat(found[rank:] + found[:rank], dim)

    @staticmethod
    def backward(ctx, dy):
        dy = dy.clone()
        dist.all_reduce(dy)
        return dy.chunk(dist.get_world_size(), ctx.dim)[dist.get_rank()], None
