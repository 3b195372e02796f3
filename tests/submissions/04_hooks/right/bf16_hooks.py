# %% a dict, and storages instead of the base
def pack_bf16(t):
    plain = t._base if t._is_view() else t
    keep = isinstance(plain, nn.Parameter) or t.dtype not in (torch.float32, torch.float64)
    if keep:
        return {"as it is": t}
    return {"low": t.bfloat16(), "like": t.new_empty(0)}


def unpack_bf16(packed):
    return packed["as it is"] if "as it is" in packed else packed["low"].type_as(packed["like"])


# %% rounded, and stored as the upper half of float32
def pack_bf16(t):
    base = t if t._base is None else t._base
    if type(base) is nn.Parameter or not torch.is_floating_point(t):
        return (t,)
    return t.bfloat16().view(torch.int16), t.dtype


def unpack_bf16(packed):
    if len(packed) == 1:
        return packed[0]
    bits, dtype = packed
    return bits.view(torch.bfloat16).to(dtype)


# %% parameters known by their storages, everything else by a table of dtypes
WIDTH = {torch.float32: "single", torch.float64: "double"}


def pack_bf16(t):
    owner = t
    while owner._base is not None:
        owner = owner._base
    how = WIDTH.get(t.dtype) if not isinstance(owner, nn.Parameter) else None
    return [t] if how is None else [t.detach().to(torch.bfloat16), how]


def unpack_bf16(packed):
    t, *how = packed
    return {"single": t.float, "double": t.double}[how[0]]() if how else t
