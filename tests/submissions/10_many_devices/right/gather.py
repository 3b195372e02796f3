# %% with lists of pieces, and an all-reduce
class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, dim):
        ctx.dim = dim
        pieces = [torch.empty_like(x, memory_format=torch.contiguous_format) for _ in range(dist.get_world_size())]
        dist.all_gather(pieces, x.contiguous())
        return torch.cat(pieces, dim)

    @staticmethod
    def backward(ctx, dy):
        total = dy.contiguous().clone()
        dist.all_reduce(total)
        return total.chunk(dist.get_world_size(), ctx.dim)[dist.get_rank()].clone(), None


# %% transposed, and reduced to one rank after another
class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, dim):
        ctx.dim, ctx.size = dim, x.shape[dim]
        flat = x.transpose(0, dim).contiguous()
        y = torch.cat([flat] * dist.get_world_size())
        dist.all_gather_single(y, flat)
        return y.transpose(0, dim)

    @staticmethod
    def backward(ctx, dy):
        mine = None
        for rank, piece in enumerate(dy.split(ctx.size, ctx.dim)):
            piece = piece.contiguous().clone()
            dist.reduce(piece, rank)
            mine = piece if rank == dist.get_rank() else mine
        return mine, None
