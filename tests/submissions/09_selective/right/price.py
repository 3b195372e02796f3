# %% counted on tensors that hold no numbers
def price(b, m, inner, k, itemsize):
    from torch.utils.flop_counter import FlopCounterMode

    x, y = torch.empty(b, m, inner, device="meta"), torch.empty(b, inner, k, device="meta")
    with FlopCounterMode(display=False) as counter:
        z = torch.bmm(x, y)
    flops = counter.get_total_flops()
    return flops, z.numel() * itemsize, 2 * inner / itemsize
