# %% by name, and as truth values
NAMES = {"aten.mm.default", "aten.addmm.default", "aten.bmm.default", "aten.baddbmm.default"}


def policy_a(ctx, op, *args, **kwargs):
    return str(op) in NAMES


def policy_b(ctx, op, *args, **kwargs):
    return policy_a(ctx, op) and ctx.op_output.untyped_storage().nbytes() >= LARGE


# %% by overload
MEMBERS = [family.default for family in PRODUCTS]


def policy_a(ctx, op, *args, **kwargs):
    return CheckpointPolicy.PREFER_SAVE if op in MEMBERS else CheckpointPolicy.MUST_RECOMPUTE


def policy_b(ctx, op, *args, **kwargs):
    if op not in MEMBERS:
        return CheckpointPolicy.MUST_RECOMPUTE
    y = ctx.op_output
    return CheckpointPolicy.MUST_SAVE if y.numel() * y.element_size() >= LARGE else CheckpointPolicy.PREFER_RECOMPUTE
