# %% Two mistakes do that in silence
policy_a = broken_a
policy_b = lambda ctx, op, *args, **kwargs: op in PRODUCTS and ctx.op_output.nbytes >= LARGE


# %% MUST_CPU_OFFLOAD recomputes in eager mode
def policy_a(ctx, op, *args, **kwargs):
    return CheckpointPolicy.MUST_SAVE if op.overloadpacket in PRODUCTS else CheckpointPolicy.PREFER_RECOMPUTE


def policy_b(ctx, op, *args, **kwargs):
    if op.overloadpacket in PRODUCTS and ctx.op_output.nbytes >= LARGE:
        return CheckpointPolicy.MUST_CPU_OFFLOAD
    return CheckpointPolicy.PREFER_SAVE


# %% that no derivative asks for
# breaks: for everything else
policy_a = lambda ctx, op, *args, **kwargs: CheckpointPolicy.PREFER_SAVE
policy_b = broken_b


# %% Batched products are products as well
# breaks: mm, addmm, bmm and baddbmm
def policy_a(ctx, op, *args, **kwargs):
    return op in (aten.mm.default, aten.addmm.default)


def policy_b(ctx, op, *args, **kwargs):
    return policy_a(ctx, op) and ctx.op_output.nbytes >= LARGE


# %% Every large result is kept
def policy_b(ctx, op, *args, **kwargs):
    large = isinstance(ctx.op_output, torch.Tensor) and ctx.op_output.nbytes >= LARGE
    return CheckpointPolicy.MUST_SAVE if large else CheckpointPolicy.PREFER_RECOMPUTE


# %% Every product is kept, whatever its size
policy_b = policy_a


# %% of exactly LARGE bytes is recomputed
# breaks: `LARGE` bytes or more
def policy_b(ctx, op, *args, **kwargs):
    keep = op.overloadpacket in PRODUCTS and ctx.op_output.nbytes > LARGE
    return CheckpointPolicy.MUST_SAVE if keep else CheckpointPolicy.PREFER_RECOMPUTE


# %% nbytes, not numel
def policy_b(ctx, op, *args, **kwargs):
    keep = op.overloadpacket in PRODUCTS and ctx.op_output.numel() >= LARGE
    return CheckpointPolicy.MUST_SAVE if keep else CheckpointPolicy.PREFER_RECOMPUTE


# %% policy a, policy b: Only some of the products are kept
# breaks: of one of these products
def policy_a(ctx, op, *args, **kwargs):
    return op in (aten.mm.default, aten.addmm.default, aten.bmm.default)


def policy_b(ctx, op, *args, **kwargs):
    return policy_a(ctx, op) and ctx.op_output.nbytes >= LARGE


# %% policy b: Only some of the products are kept
def policy_b(ctx, op, *args, **kwargs):
    return op.overloadpacket in (aten.addmm, aten.bmm, aten.baddbmm) and ctx.op_output.nbytes >= LARGE


# %% policy a: Products are recomputed, and everything else is kept
def policy_a(ctx, op, *args, **kwargs):
    return CheckpointPolicy.PREFER_RECOMPUTE if op.overloadpacket in PRODUCTS else CheckpointPolicy.MUST_SAVE


# %% policy a: Only large results are kept
# breaks: the size of a result does not matter
def policy_a(ctx, op, *args, **kwargs):
    if op.overloadpacket in PRODUCTS and ctx.op_output.nbytes >= LARGE:
        return CheckpointPolicy.MUST_SAVE
    return CheckpointPolicy.PREFER_RECOMPUTE


# %% policy b: What is kept depends on the bytes of an argument
def policy_b(ctx, op, *args, **kwargs):
    if op.overloadpacket in PRODUCTS and args[0].nbytes >= LARGE:
        return CheckpointPolicy.MUST_SAVE
    return CheckpointPolicy.PREFER_RECOMPUTE


# %% policy a: error: TypeError: the policy returned None for aten.view.default
# breaks: `None` is not a verdict
def policy_a(ctx, op, *args, **kwargs):
    CheckpointPolicy.MUST_SAVE if op.overloadpacket in PRODUCTS else CheckpointPolicy.PREFER_RECOMPUTE


# %% policy b: error: not answered yet
def policy_b(ctx, op, *args, **kwargs):
    raise NotImplementedError()


# %% policy a: error: TypeError: the policy returned None
def policy_a(ctx, op, *args, **kwargs):
    if op.overloadpacket in PRODUCTS:
        return CheckpointPolicy.MUST_SAVE


# %% policy a, policy b: Only mm and bmm are kept
def policy_a(ctx, op, *args, **kwargs):
    keep = op.overloadpacket in (aten.mm, aten.bmm)
    return CheckpointPolicy.MUST_SAVE if keep else CheckpointPolicy.PREFER_RECOMPUTE


def policy_b(ctx, op, *args, **kwargs):
    large = op.overloadpacket in PRODUCTS and ctx.op_output.nbytes >= LARGE
    return policy_a(ctx, op) if large else CheckpointPolicy.PREFER_RECOMPUTE


# %% policy b: Small results are kept, and large ones are recomputed
def policy_b(ctx, op, *args, **kwargs):
    keep = op.overloadpacket in PRODUCTS and ctx.op_output.nbytes <= LARGE
    return CheckpointPolicy.MUST_SAVE if keep else CheckpointPolicy.PREFER_RECOMPUTE


# %% policy b: error: AttributeError
# breaks: whose result is not a single tensor
def policy_b(ctx, op, *args, **kwargs):
    large = ctx.op_output.nbytes >= LARGE
    keep = large and op.overloadpacket in PRODUCTS
    return CheckpointPolicy.MUST_SAVE if keep else CheckpointPolicy.PREFER_RECOMPUTE
