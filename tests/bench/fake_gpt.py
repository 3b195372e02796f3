"""Claim: a GPT-2 XL training step and a GPT-3 layer are measured in seconds, in less memory than one of their layers.

Peer: the same step's own bytes, which a real run would have to allocate.
"""

from __future__ import annotations

import resource
import time
from dataclasses import replace

from rows import row

import ckptlib as ck
from ckptlib.models.transformer import GPT2_XL, GPT3_175B, gpt_step


def main() -> None:
    for name, config in (("GPT-2 XL", GPT2_XL), ("GPT-3, 1 layer", replace(GPT3_175B, layers=1))):
        start = time.perf_counter()
        result = ck.measure(lambda config=config: gpt_step(config), "sim:cuda", builds=True, fake=True)
        took = time.perf_counter() - start
        resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        claim = f"a training step of {name}, {len(result.trace.ops):,} ops, is measured in {took:.1f} s"
        row(claim, "memory: what the step itself needs", f"{resident / result.peak:.3f}")
        print(
            f"{name:15} {len(result.trace.ops):6} ops in {took:5.1f} s; simulated peak {result.peak / 2**30:6.2f} GiB,"
            f" resident at most {resident / 2**30:5.2f} GiB, ratio {resident / result.peak:6.4f}"
        )


if __name__ == "__main__":
    main()
