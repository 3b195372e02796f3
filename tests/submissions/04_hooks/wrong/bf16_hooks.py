# %% another dtype than it had
# breaks: It has the dtype that the tensor had
def pack_bf16(t):
    if not t.is_floating_point() or isinstance(t if t._base is None else t._base, nn.Parameter):
        return t
    return t.bfloat16()


def unpack_bf16(packed):
    return packed.float() if packed.dtype == torch.bfloat16 else packed


# %% still bfloat16
def pack_bf16(t):
    if not t.is_floating_point() or isinstance(t if t._base is None else t._base, nn.Parameter):
        return t
    return t.bfloat16()


def unpack_bf16(packed):
    return packed


# %% Parameters were packed, too
def pack_bf16(t):
    if isinstance(t, nn.Parameter) or not t.is_floating_point():
        return t, t.dtype
    return t.bfloat16(), t.dtype


def unpack_bf16(packed):
    return packed[0].to(packed[1])


# %% Integers went through bfloat16
# breaks: A tensor of any other dtype
def pack_bf16(t):
    if isinstance(t._base, nn.Parameter) or isinstance(t, nn.Parameter):
        return t, t.dtype
    return t.bfloat16(), t.dtype


def unpack_bf16(packed):
    return packed[0].to(packed[1])


# %% it ends at 65,504
def pack_bf16(t):
    if not t.is_floating_point() or isinstance(t if t._base is None else t._base, nn.Parameter):
        return t, t.dtype
    return t.half(), t.dtype


def unpack_bf16(packed):
    return packed[0].to(packed[1])


# %% Nothing is packed
def pack_bf16(t):
    t.to(torch.bfloat16)
    return t


def unpack_bf16(t):
    return t


# %% a copy is extra
# breaks: and neither is a view of one
def pack_bf16(t):
    return t.to(torch.bfloat16), t.dtype


def unpack_bf16(packed):
    return packed[0].to(packed[1])


# %% what comes back, gradients: The shape is lost
# breaks: It has the shape that the tensor had
def pack_bf16(t):
    if isinstance(t if t._base is None else t._base, nn.Parameter) or not t.is_floating_point():
        return t, t.dtype
    return t.to(torch.bfloat16).flatten(), t.dtype


def unpack_bf16(packed):
    return packed[0].to(packed[1])


# %% The tensor itself waits, too
# breaks: and nothing else
def pack_bf16(t):
    keep = isinstance(t if t._base is None else t._base, nn.Parameter) or not t.is_floating_point()
    return (t if keep else t.bfloat16()), t


def unpack_bf16(packed):
    return packed[0].to(packed[1].dtype)


# %% requires_grad does not tell a parameter
def pack_bf16(t):
    if t.requires_grad or not t.is_floating_point():
        return t, t.dtype
    return t.to(torch.bfloat16), t.dtype


def unpack_bf16(packed):
    return packed[0].to(packed[1])


# %% nor is_leaf tells a parameter
def pack_bf16(t):
    if (t if t._base is None else t._base).is_leaf or not t.is_floating_point():
        return t, t.dtype
    return t.to(torch.bfloat16), t.dtype


def unpack_bf16(packed):
    return packed[0].to(packed[1])


# %% Only float32 is packed
def pack_bf16(t):
    if isinstance(t if t._base is None else t._base, nn.Parameter) or t.dtype != torch.float32:
        return t, t.dtype
    return t.to(torch.bfloat16), t.dtype


def unpack_bf16(packed):
    return packed[0].to(packed[1])


# %% Neither _base alone
def pack_bf16(t):
    if isinstance(t, nn.Parameter) or t._base is not None or not t.is_floating_point():
        return t, t.dtype
    return t.bfloat16(), t.dtype

def unpack_bf16(p):
    return p[0].to(p[1])


# %% A frozen parameter was packed
# breaks: whether it trains or is frozen
def pack_bf16(t):
    b = t if t._base is None else t._base
    if (b.is_leaf and b.requires_grad) or not t.is_floating_point():
        return t, t.dtype
    return t.bfloat16(), t.dtype

def unpack_bf16(p):
    return p[0].to(p[1])


# %% as many bytes wait as without hooks
# breaks: is kept in 2 bytes per element
def pack_bf16(t):
    b = t if t._base is None else t._base
    if isinstance(b, nn.Parameter) or not t.is_floating_point():
        return t, t.dtype
    return t.bfloat16().to(t.dtype), t.dtype

def unpack_bf16(p):
    return p[0].to(p[1])


# %% nor do strides
def pack_bf16(t):
    if not t.is_contiguous() or not t.is_floating_point():
        return t, t.dtype
    return t.bfloat16(), t.dtype


def unpack_bf16(packed):
    return packed[0].to(packed[1])


# %% holds no tensor that the check can see
# breaks: a tuple, list or dict that holds tensors and dtypes
class Packed:
    def __init__(self, t):
        alone = isinstance(t if t._base is None else t._base, nn.Parameter) or not t.is_floating_point()
        self.kept, self.dtype = t if alone else t.bfloat16(), t.dtype


def pack_bf16(t):
    return Packed(t)


def unpack_bf16(packed):
    return packed.kept.to(packed.dtype)


# %% other dtypes: Tensors that are not float32 or float64 were copied
# breaks: is not copied either
def pack_bf16(t):
    if isinstance(t if t._base is None else t._base, nn.Parameter):
        return t, t.dtype
    return t.to(torch.bfloat16) if t.is_floating_point() else t.detach().clone(), t.dtype


def unpack_bf16(packed):
    return packed[0].to(packed[1])


# %% other dtypes: Complex tensors went through bfloat16
# breaks: unpacking returns it unchanged
def pack_bf16(t):
    integers = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool)
    if isinstance(t if t._base is None else t._base, nn.Parameter) or t.dtype in integers:
        return t, t.dtype
    return t.to(torch.bfloat16), t.dtype


def unpack_bf16(packed):
    return packed[0].to(packed[1])


# %% what comes back: raised
# breaks: with any number of dimensions
def pack_bf16(t):
    if isinstance(t if t._base is None else t._base, nn.Parameter) or not t.is_floating_point():
        return t, t.dtype, None
    return t.bfloat16().flatten(), t.dtype, (len(t), -1)


def unpack_bf16(packed):
    kept, dtype, shape = packed
    return kept.to(dtype) if shape is None else kept.to(dtype).reshape(shape)


# %% Only float32 is packed
def pack_bf16(t):
    base = t._base if t._base is not None else t
    if isinstance(base, nn.Parameter) or t.dtype == torch.float64 or not t.is_floating_point():
        return t, t.dtype
    return t.bfloat16(), t.dtype
def unpack_bf16(p):
    return p[0].to(p[1])
