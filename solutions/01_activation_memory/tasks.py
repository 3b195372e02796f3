"""How the answers of assignment 1 are asked. Grading asks the same questions, with other numbers."""

import torch
from torch import nn

from ckptlib.grading import Checks

check = Checks(__file__)

OPS = "times_3 plus square exp cos relu softmax layer_norm max_pool linear".split()


@check.task(points=2, section="1.2", parts=True)
def predict_saved(given, predict_saved):
    n, d = given.integer(2, 300), 2 * given.integer(151, 300)  # never as many rows as columns
    return {op: lambda op=op: predict_saved(op, n, d) for op in OPS}


@check.task(points=2.5, section="1.3", cases=3, parts=True)
def saved_nbytes(given, saved_nbytes):
    n, d = given.integer(3, 40), given.integer(3, 40)
    x = given.normal(n, d).requires_grad_()
    wide = given.normal(n, 3 * d).requires_grad_()
    given.seeded()
    # Weights, batch and activations have one shape; and it is deep: what pack does not keep has its address used again.
    side = given.integer(20, 40)
    square = [layer for _ in range(16) for layer in (nn.Linear(side, side), nn.ReLU())]
    model = nn.Sequential(*square, nn.Linear(side, 1)).double()
    batch = given.normal(side, side, dtype=torch.float64)

    def thirds():
        q, k, v = (wide + wide).chunk(3, dim=1)
        return (q * q + k * k + v).sum()  # v is not saved, but it lives in the same storage

    listed = given.normal(n, d).requires_grad_()  # a tensor, and not a Parameter
    unlisted, table = nn.Parameter(given.normal(1, d)), given.normal(n, d).requires_grad_()
    rows = torch.arange(2 * given.integer(3, 40)) % n

    def called_once(fn, parameters):
        calls = []

        def once():
            calls.append(1)
            if len(calls) > 1:
                raise RuntimeError("fn was called a second time. Call it once: a forward pass is expensive")
            return fn()

        return lambda: saved_nbytes(once, parameters)

    return {
        "nothing": called_once(lambda: (x + x).sum(), []),
        "one storage twice": called_once(lambda: x * x, []),
        "weights behind a view": called_once(lambda: model(batch), list(model.parameters())),
        "three views of one storage": called_once(thirds, []),
        "only what is listed": called_once(lambda: listed * unlisted, [listed]),
        "indices": called_once(lambda: table.index_select(0, rows), []),
    }


@check.task(points=2, section="1.4", cases=3, parts=True)
def ledger(given, ledger):
    d, k, frozen = (given.integer(low, low + 30) for low in (3, 40, 80))
    model = nn.ModuleList([nn.Linear(d, k), nn.BatchNorm1d(k), nn.Linear(k, frozen), nn.Linear(d, k)]).bfloat16()
    model.append(nn.Linear(frozen, 7).float())
    model[2].requires_grad_(False)
    model[3].weight = model[0].weight  # tied
    nested = nn.Module()
    nested.scale, nested.inner = nn.Parameter(torch.ones(d)), nn.Sequential(nn.Sequential(nn.Linear(k, d)))
    asked = [(each, optimizer) for each in (model, nested) for optimizer in ("sgd", "momentum", "adamw")]
    return {
        entry: lambda entry=entry: [ledger(*each)[entry] for each in asked]
        for entry in ("parameters", "gradients", "optimizer")
    }


@check.task(points=1.5, section="1.6", cases=3, parts=True)
def largest_batch(given, largest_batch):
    def batch_for(fixed, per_sample, gpu_gib):
        def measure(batch):
            if batch < 1:
                raise ValueError(f"batch {batch}: ask for 1 to 8 only")
            if batch > 8:
                raise MemoryError(f"batch {batch}: out of memory. Measure small batches, and draw the line")
            return fixed + batch * per_sample

        return lambda: largest_batch(measure, gpu_gib)

    gpu_gib = given.choice([8, 16, 24, 40, 80])
    fixed = given.integer(2**30, 4 * 2**30)
    per_sample = given.integer(2**20, 200 * 2**20)
    fixed += (gpu_gib * 2**30 - fixed) % per_sample - 3 * per_sample // 4  # what is left is no sample, but nearly one
    exact = (gpu_gib * 2**30 - fixed) // 77
    return {
        "a batch that fits": batch_for(fixed, per_sample, gpu_gib),
        "a batch that fits to the byte": batch_for(gpu_gib * 2**30 - 77 * exact, exact, gpu_gib),
        "one sample that fits to the byte": batch_for(gpu_gib * 2**30 - per_sample, per_sample, gpu_gib),
        "not even one sample fits": batch_for(gpu_gib * 2**30 + 3 * per_sample, per_sample, gpu_gib),
    }


@check.task(points=1, section="1.6", parts=True)
def audit(given, audit):
    heads = given.integer(4, 32)
    return audit(
        layers=given.integer(6, 60),
        width=heads * given.choice([32, 64, 128]),
        heads=heads,
        ffn=given.integer(1000, 9000),
        vocabulary=given.integer(20000, 130000),
        tokens=given.choice([256, 512, 1024, 2048]),
    )


check.add_quiz(points=1, names="q1, q2, q3, q4", section="1.5")
