"""How much memory has the GPU? Sizes as people write them, and cards by name."""

from __future__ import annotations

import re

import torch

from ..errors import CkptError
from .gpus import GENERATIONS, PRESETS, Gpu, at_release, preset

GiB = 2**30
# What is soldered on the card. The driver and the CUDA context take some hundred MiB of it, which are not counted.
MEMORY: dict[str, int] = {
    name: gib * GiB
    for gib, names in {
        16: "t4",
        24: "a10g rtx3090 rtx4090 l4",
        32: "v100 rtx5090",
        40: "a100-40gb",
        48: "a6000 l40s",
        80: "a100 h100 h100-pcie",
    }.items()
    for name in names.split()
} | {"h200": 141 * 10**9, "b200": 180 * 10**9}


def capacity(gpu: str | int) -> tuple[int, Gpu]:
    """Bytes, and the GPU to imagine: of a size such as "80GiB" or 80 * 10**9 (an A100 then), or a card's name.

    >>> capacity("80GB")[0], capacity("80GiB")[0], capacity("h100")[1].name
    (80000000000, 85899345920, 'h100')
    """
    release = ".".join(torch.__version__.split(".")[:2])
    text = str(gpu).strip().lower()
    if text in MEMORY:
        card = text.removesuffix("-40gb")
        return MEMORY[text], at_release(preset(card if card in PRESETS else GENERATIONS[card]), release)
    size = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)(b?)", text)
    if not size or (size[3] and not size[2]) or (size[2] and not size[4]):
        raise CkptError(f"gpu is {gpu!r}, expected a size such as 80GiB or 80GB, or one of {', '.join(MEMORY)}")
    number, unit, binary, _ = size.groups()
    nbytes = int(float(number) * (1024 if binary else 1000) ** " kmgt".index(unit or " "))
    if nbytes < 2**20:
        raise CkptError(
            f"gpu is {gpu!r}, {nbytes} bytes: no GPU is that small. Is the unit missing, as in {number}GiB?"
        )
    return nbytes, at_release(preset(), release)
