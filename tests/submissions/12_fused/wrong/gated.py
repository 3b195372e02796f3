# %% The derivative of SiLU is σ(g) + g·σ(g)·(1 − σ(g)). The second term is missing
# breaks: The derivative of SiLU is
class Gated(torch.autograd.Function):
    @staticmethod
    def forward(ctx, gate, up, w_down):
        ctx.save_for_backward(gate, up, w_down)
        return (F.silu(gate) * up) @ w_down.T

    @staticmethod
    def backward(ctx, dy):
        gate, up, w_down = ctx.saved_tensors
        sigmoid = gate.sigmoid()
        silu = gate * sigmoid
        d_product = dy @ w_down
        d_gate = d_product * up * sigmoid
        d_up = d_product * silu
        d_down = dy.T @ (silu * up)
        return d_gate, d_up, d_down


# %% The derivative of SiLU is σ(g) + g·σ(g)·(1 − σ(g)). The first term is missing
# breaks: The derivative of SiLU is
class Gated(torch.autograd.Function):
    @staticmethod
    def forward(ctx, gate, up, w_down):
        ctx.save_for_backward(gate, up, w_down)
        return (F.silu(gate) * up) @ w_down.T

    @staticmethod
    def backward(ctx, dy):
        gate, up, w_down = ctx.saved_tensors
        sigmoid = gate.sigmoid()
        silu = gate * sigmoid
        d_product = dy @ w_down
        d_gate = d_product * up * (silu * (1 - sigmoid))
        d_up = d_product * silu
        d_down = dy.T @ (silu * up)
        return d_gate, d_up, d_down


# %% This is the derivative of the sigmoid. SiLU is g·σ(g), and the product rule gives two terms
# breaks: The derivative of SiLU is
class Gated(torch.autograd.Function):
    @staticmethod
    def forward(ctx, gate, up, w_down):
        ctx.save_for_backward(gate, up, w_down)
        return (F.silu(gate) * up) @ w_down.T

    @staticmethod
    def backward(ctx, dy):
        gate, up, w_down = ctx.saved_tensors
        sigmoid = gate.sigmoid()
        silu = gate * sigmoid
        d_product = dy @ w_down
        d_gate = d_product * up * (sigmoid * (1 - sigmoid))
        d_up = d_product * silu
        d_down = dy.T @ (silu * up)
        return d_gate, d_up, d_down


# %% In the second term of SiLU's derivative, the factor 1 − σ(g) is missing
# breaks: The derivative of SiLU is
class Gated(torch.autograd.Function):
    @staticmethod
    def forward(ctx, gate, up, w_down):
        ctx.save_for_backward(gate, up, w_down)
        return (F.silu(gate) * up) @ w_down.T

    @staticmethod
    def backward(ctx, dy):
        gate, up, w_down = ctx.saved_tensors
        sigmoid = gate.sigmoid()
        silu = gate * sigmoid
        d_product = dy @ w_down
        d_gate = d_product * up * (sigmoid + silu)
        d_up = d_product * silu
        d_down = dy.T @ (silu * up)
        return d_gate, d_up, d_down


# %% In the second term of SiLU's derivative, the factor g is missing
# breaks: The derivative of SiLU is
class Gated(torch.autograd.Function):
    @staticmethod
    def forward(ctx, gate, up, w_down):
        ctx.save_for_backward(gate, up, w_down)
        return (F.silu(gate) * up) @ w_down.T

    @staticmethod
    def backward(ctx, dy):
        gate, up, w_down = ctx.saved_tensors
        sigmoid = gate.sigmoid()
        silu = gate * sigmoid
        d_product = dy @ w_down
        d_gate = d_product * up * (sigmoid + sigmoid * (1 - sigmoid))
        d_up = d_product * silu
        d_down = dy.T @ (silu * up)
        return d_gate, d_up, d_down


# %% In the second term of SiLU's derivative, the factor σ(g) is missing
# breaks: The derivative of SiLU is
class Gated(torch.autograd.Function):
    @staticmethod
    def forward(ctx, gate, up, w_down):
        ctx.save_for_backward(gate, up, w_down)
        return (F.silu(gate) * up) @ w_down.T

    @staticmethod
    def backward(ctx, dy):
        gate, up, w_down = ctx.saved_tensors
        sigmoid = gate.sigmoid()
        silu = gate * sigmoid
        d_product = dy @ w_down
        d_gate = d_product * up * (sigmoid + gate * (1 - sigmoid))
        d_up = d_product * silu
        d_down = dy.T @ (silu * up)
        return d_gate, d_up, d_down


# %% The two terms of SiLU's derivative were subtracted, not added
class Gated(torch.autograd.Function):
    @staticmethod
    def forward(ctx, gate, up, w_down):
        ctx.save_for_backward(gate, up, w_down)
        return (F.silu(gate) * up) @ w_down.T

    @staticmethod
    def backward(ctx, dy):
        gate, up, w_down = ctx.saved_tensors
        sigmoid = gate.sigmoid()
        silu = gate * sigmoid
        d_product = dy @ w_down
        d_gate = d_product * up * (sigmoid - silu * (1 - sigmoid))
        d_up = d_product * silu
        d_down = dy.T @ (silu * up)
        return d_gate, d_up, d_down


# %% The gate was treated as if there were no SiLU: its derivative is missing
class Gated(torch.autograd.Function):
    @staticmethod
    def forward(ctx, gate, up, w_down):
        ctx.save_for_backward(gate, up, w_down)
        return (F.silu(gate) * up) @ w_down.T

    @staticmethod
    def backward(ctx, dy):
        gate, up, w_down = ctx.saved_tensors
        sigmoid = gate.sigmoid()
        silu = gate * sigmoid
        d_product = dy @ w_down
        d_gate = d_product * up
        d_up = d_product * silu
        d_down = dy.T @ (silu * up)
        return d_gate, d_up, d_down


# %% The gradient of the gate needs the other factor of the product, up
# breaks: returns the gradient of the gate
class Gated(torch.autograd.Function):
    @staticmethod
    def forward(ctx, gate, up, w_down):
        ctx.save_for_backward(gate, up, w_down)
        return (F.silu(gate) * up) @ w_down.T

    @staticmethod
    def backward(ctx, dy):
        gate, up, w_down = ctx.saved_tensors
        sigmoid = gate.sigmoid()
        silu = gate * sigmoid
        d_product = dy @ w_down
        d_gate = d_product * (sigmoid + silu * (1 - sigmoid))
        d_up = d_product * silu
        d_down = dy.T @ (silu * up)
        return d_gate, d_up, d_down


# %% SiLU was used where its derivative belongs
class Gated(torch.autograd.Function):
    @staticmethod
    def forward(ctx, gate, up, w_down):
        ctx.save_for_backward(gate, up, w_down)
        return (F.silu(gate) * up) @ w_down.T

    @staticmethod
    def backward(ctx, dy):
        gate, up, w_down = ctx.saved_tensors
        sigmoid = gate.sigmoid()
        silu = gate * sigmoid
        d_product = dy @ w_down
        d_gate = d_product * up * silu
        d_up = d_product * silu
        d_down = dy.T @ (silu * up)
        return d_gate, d_up, d_down


# %% The derivative of SiLU is taken at the gate. Here it is taken at SiLU of the gate
class Gated(torch.autograd.Function):
    @staticmethod
    def forward(ctx, gate, up, w_down):
        ctx.save_for_backward(gate, up, w_down)
        return (F.silu(gate) * up) @ w_down.T

    @staticmethod
    def backward(ctx, dy):
        gate, up, w_down = ctx.saved_tensors
        sigmoid = gate.sigmoid()
        silu = gate * sigmoid
        d_product = dy @ w_down
        d_gate = d_product * up * (silu.sigmoid() * (1 + silu * (1 - silu.sigmoid())))
        d_up = d_product * silu
        d_down = dy.T @ (silu * up)
        return d_gate, d_up, d_down


# %% The gradient of up needs the other factor of the product. That is SiLU of the gate, not the gate
# breaks: returns the gradient of up
class Gated(torch.autograd.Function):
    @staticmethod
    def forward(ctx, gate, up, w_down):
        ctx.save_for_backward(gate, up, w_down)
        return (F.silu(gate) * up) @ w_down.T

    @staticmethod
    def backward(ctx, dy):
        gate, up, w_down = ctx.saved_tensors
        sigmoid = gate.sigmoid()
        silu = gate * sigmoid
        d_product = dy @ w_down
        d_gate = d_product * up * (sigmoid + silu * (1 - sigmoid))
        d_up = d_product * gate
        d_down = dy.T @ (silu * up)
        return d_gate, d_up, d_down


# %% The gradient of up needs the other factor of the product, SiLU of the gate. It is σ(gate) here
# breaks: returns the gradient of up
class Gated(torch.autograd.Function):
    @staticmethod
    def forward(ctx, gate, up, w_down):
        ctx.save_for_backward(gate, up, w_down)
        return (F.silu(gate) * up) @ w_down.T

    @staticmethod
    def backward(ctx, dy):
        gate, up, w_down = ctx.saved_tensors
        sigmoid = gate.sigmoid()
        silu = gate * sigmoid
        d_product = dy @ w_down
        d_gate = d_product * up * (sigmoid + silu * (1 - sigmoid))
        d_up = d_product * sigmoid
        d_down = dy.T @ (silu * up)
        return d_gate, d_up, d_down


# %% The gradient of up is that of the product here: the other factor is missing
# breaks: returns the gradient of up
class Gated(torch.autograd.Function):
    @staticmethod
    def forward(ctx, gate, up, w_down):
        ctx.save_for_backward(gate, up, w_down)
        return (F.silu(gate) * up) @ w_down.T

    @staticmethod
    def backward(ctx, dy):
        gate, up, w_down = ctx.saved_tensors
        sigmoid = gate.sigmoid()
        silu = gate * sigmoid
        d_product = dy @ w_down
        d_gate = d_product * up * (sigmoid + silu * (1 - sigmoid))
        d_up = d_product
        d_down = dy.T @ (silu * up)
        return d_gate, d_up, d_down


# %% The gradient of up contains up itself. It needs the other factor
class Gated(torch.autograd.Function):
    @staticmethod
    def forward(ctx, gate, up, w_down):
        ctx.save_for_backward(gate, up, w_down)
        return (F.silu(gate) * up) @ w_down.T

    @staticmethod
    def backward(ctx, dy):
        gate, up, w_down = ctx.saved_tensors
        sigmoid = gate.sigmoid()
        silu = gate * sigmoid
        d_product = dy @ w_down
        d_gate = d_product * up * (sigmoid + silu * (1 - sigmoid))
        d_up = d_product * up
        d_down = dy.T @ (silu * up)
        return d_gate, d_up, d_down


# %% The gradients of gate and up were exchanged
class Gated(torch.autograd.Function):
    @staticmethod
    def forward(ctx, gate, up, w_down):
        ctx.save_for_backward(gate, up, w_down)
        return (F.silu(gate) * up) @ w_down.T

    @staticmethod
    def backward(ctx, dy):
        gate, up, w_down = ctx.saved_tensors
        sigmoid = gate.sigmoid()
        silu = gate * sigmoid
        d_product = dy @ w_down
        d_gate = d_product * up * (sigmoid + silu * (1 - sigmoid))
        d_up = d_product * silu
        d_down = dy.T @ (silu * up)
        return d_up, d_gate, d_down


# %% The input of the last product is SiLU times up. Here it is SiLU alone
# breaks: returns the gradient of `w_down`
class Gated(torch.autograd.Function):
    @staticmethod
    def forward(ctx, gate, up, w_down):
        ctx.save_for_backward(gate, up, w_down)
        return (F.silu(gate) * up) @ w_down.T

    @staticmethod
    def backward(ctx, dy):
        gate, up, w_down = ctx.saved_tensors
        sigmoid = gate.sigmoid()
        silu = gate * sigmoid
        d_product = dy @ w_down
        d_gate = d_product * up * (sigmoid + silu * (1 - sigmoid))
        d_up = d_product * silu
        d_down = dy.T @ silu
        return d_gate, d_up, d_down


# %% The input of the last product is SiLU times up. Here it is up alone
# breaks: returns the gradient of `w_down`
class Gated(torch.autograd.Function):
    @staticmethod
    def forward(ctx, gate, up, w_down):
        ctx.save_for_backward(gate, up, w_down)
        return (F.silu(gate) * up) @ w_down.T

    @staticmethod
    def backward(ctx, dy):
        gate, up, w_down = ctx.saved_tensors
        sigmoid = gate.sigmoid()
        silu = gate * sigmoid
        d_product = dy @ w_down
        d_gate = d_product * up * (sigmoid + silu * (1 - sigmoid))
        d_up = d_product * silu
        d_down = dy.T @ up
        return d_gate, d_up, d_down


# %% The input of the last product is SiLU times up. Here it is the gate times up
# breaks: returns the gradient of `w_down`
class Gated(torch.autograd.Function):
    @staticmethod
    def forward(ctx, gate, up, w_down):
        ctx.save_for_backward(gate, up, w_down)
        return (F.silu(gate) * up) @ w_down.T

    @staticmethod
    def backward(ctx, dy):
        gate, up, w_down = ctx.saved_tensors
        sigmoid = gate.sigmoid()
        silu = gate * sigmoid
        d_product = dy @ w_down
        d_gate = d_product * up * (sigmoid + silu * (1 - sigmoid))
        d_up = d_product * silu
        d_down = dy.T @ (gate * up)
        return d_gate, d_up, d_down


# %% The gradient of w_down has the shape of w_down, (h, f). It is transposed here
# breaks: `w_down` has the shape
class Gated(torch.autograd.Function):
    @staticmethod
    def forward(ctx, gate, up, w_down):
        ctx.save_for_backward(gate, up, w_down)
        return (F.silu(gate) * up) @ w_down.T

    @staticmethod
    def backward(ctx, dy):
        gate, up, w_down = ctx.saved_tensors
        sigmoid = gate.sigmoid()
        silu = gate * sigmoid
        d_product = dy @ w_down
        d_gate = d_product * up * (sigmoid + silu * (1 - sigmoid))
        d_up = d_product * silu
        d_down = (silu * up).T @ dy
        return d_gate, d_up, d_down


# %% The gradient of w_down was averaged over the rows. It is a sum over them
class Gated(torch.autograd.Function):
    @staticmethod
    def forward(ctx, gate, up, w_down):
        ctx.save_for_backward(gate, up, w_down)
        return (F.silu(gate) * up) @ w_down.T

    @staticmethod
    def backward(ctx, dy):
        gate, up, w_down = ctx.saved_tensors
        sigmoid = gate.sigmoid()
        silu = gate * sigmoid
        d_product = dy @ w_down
        d_gate = d_product * up * (sigmoid + silu * (1 - sigmoid))
        d_up = d_product * silu
        d_down = dy.T @ (silu * up) / len(dy)
        return d_gate, d_up, d_down


# %% The output is SiLU(gate) times up, times w_down transposed. SiLU was given up in place of the gate
# breaks: returns `(silu(gate)
class Gated(torch.autograd.Function):
    @staticmethod
    def forward(ctx, gate, up, w_down):
        ctx.save_for_backward(gate, up, w_down)
        return (F.silu(up) * gate) @ w_down.T

    @staticmethod
    def backward(ctx, dy):
        gate, up, w_down = ctx.saved_tensors
        sigmoid = gate.sigmoid()
        silu = gate * sigmoid
        d_product = dy @ w_down
        d_gate = d_product * up * (sigmoid + silu * (1 - sigmoid))
        d_up = d_product * silu
        d_down = dy.T @ (silu * up)
        return d_gate, d_up, d_down


# %% The output lacks SiLU
# breaks: returns `(silu(gate)
class Gated(torch.autograd.Function):
    @staticmethod
    def forward(ctx, gate, up, w_down):
        ctx.save_for_backward(gate, up, w_down)
        return (gate * up) @ w_down.T

    @staticmethod
    def backward(ctx, dy):
        gate, up, w_down = ctx.saved_tensors
        sigmoid = gate.sigmoid()
        silu = gate * sigmoid
        d_product = dy @ w_down
        d_gate = d_product * up * (sigmoid + silu * (1 - sigmoid))
        d_up = d_product * silu
        d_down = dy.T @ (silu * up)
        return d_gate, d_up, d_down


# %% The output is a product with the sigmoid of the gate. SiLU is g·σ(g)
# breaks: returns `(silu(gate)
class Gated(torch.autograd.Function):
    @staticmethod
    def forward(ctx, gate, up, w_down):
        ctx.save_for_backward(gate, up, w_down)
        return (gate.sigmoid() * up) @ w_down.T

    @staticmethod
    def backward(ctx, dy):
        gate, up, w_down = ctx.saved_tensors
        sigmoid = gate.sigmoid()
        silu = gate * sigmoid
        d_product = dy @ w_down
        d_gate = d_product * up * (sigmoid + silu * (1 - sigmoid))
        d_up = d_product * silu
        d_down = dy.T @ (silu * up)
        return d_gate, d_up, d_down


# %% SiLU of the gate is saved as well. It can be computed from the gate, without a matrix product
# breaks: only the gate and up are saved
class Gated(torch.autograd.Function):
    @staticmethod
    def forward(ctx, gate, up, w_down):
        silu = F.silu(gate)
        ctx.save_for_backward(gate, up, w_down, silu)
        return (F.silu(gate) * up) @ w_down.T

    @staticmethod
    def backward(ctx, dy):
        gate, up, w_down, silu = ctx.saved_tensors
        sigmoid = gate.sigmoid()
        d_product = dy @ w_down
        d_gate = d_product * up * (sigmoid + silu * (1 - sigmoid))
        d_up = d_product * silu
        d_down = dy.T @ (silu * up)
        return d_gate, d_up, d_down


# %% The tensors of BrokenGated are still saved, all four. SiLU and the product can be computed again
# breaks: only the gate and up are saved
class Gated(torch.autograd.Function):
    @staticmethod
    def forward(ctx, gate, up, w_down):
        silu = F.silu(gate)
        ctx.save_for_backward(gate, up, w_down, silu, silu * up)
        return (F.silu(gate) * up) @ w_down.T

    @staticmethod
    def backward(ctx, dy):
        gate, up, w_down = ctx.saved_tensors[:3]
        sigmoid = gate.sigmoid()
        silu = gate * sigmoid
        d_product = dy @ w_down
        d_gate = d_product * up * (sigmoid + silu * (1 - sigmoid))
        d_up = d_product * silu
        d_down = dy.T @ (silu * up)
        return d_gate, d_up, d_down
