"""Which modules does a kernel find imported when it starts? They cost a submission no time."""

from __future__ import annotations

import gc
import importlib
import sys
from collections.abc import Sequence

# Whatever a notebook of the book, or a probe, imports, and what IPython would import when it first shows an error or a
# figure. Not matplotlib_inline: it connects to IPython when imported.
PRELOAD = (
    "numpy numpy.random torch torch.utils.checkpoint torch.utils._python_dispatch torch.utils._pytree "
    "torch.utils.flop_counter torch._subclasses.schema_check_mode matplotlib.pyplot "
    "matplotlib.backends.backend_agg PIL.PngImagePlugin PIL.BmpImagePlugin PIL.GifImagePlugin PIL.JpegImagePlugin "
    "PIL.PpmImagePlugin ipykernel.ipkernel ipywidgets tornado.platform.asyncio pdb faulthandler "
    "IPython.core.debugger IPython.core.logger IPython.core.oinspect "
    "IPython.core.completerlib IPython.core.magics.execution IPython.core.magics.pylab IPython.extensions.storemagic "
    "stack_data executing pure_eval asttokens pygments.lexers.python pygments.formatters.terminal256 "
    "pygments.formatters.html pygments.styles.default pexpect "
    "ckptlib ckptlib.models.mlp ckptlib.figures ckptlib.remember.measurement ckptlib.remember.saved_tensors "
    "ckptlib.remember.ledger ckptlib.remember.hooks ckptlib.autodiff.derivatives ckptlib.recompute.checkpoint "
    "ckptlib.recompute.lint ckptlib.planning.profile_stages ckptlib.recompute.policy_report ckptlib.fitting.fit "
    "ckptlib.models.formulas ckptlib.autodiff.tape ckptlib.book.ranks ckptlib.grading.run.probes_in_kernel "
    "ckptlib.grading.tasks.probes ckptlib.grading.tasks.quiz"
).split()
# torch imports this, in 1.5 s, when it first makes a fake tensor or calls a checkpoint. Half of the assignments do
# neither: it is imported when a worker asks for a kernel and has run a reference that needed it.
LATER = ["torch._dynamo"]


def preload(names: Sequence[str]) -> list[str]:
    """Import `names`. Returns those that cannot be imported; the notebook may never need them."""
    # A graded notebook is never debugged, and ipykernel needs 0.2 s to prepare for that.
    sys.modules["debugpy"] = None  # type: ignore[assignment]  # Python's mark for: there is no such module
    importlib.import_module("ipykernel.debugger")
    del sys.modules["debugpy"]
    left_out = []
    for name in names:
        try:
            importlib.import_module(name)
        except Exception:
            left_out.append(name)
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)  # a pool of threads would not survive the fork
    gc.collect()
    gc.freeze()  # the collector would touch, and so copy, every object in every child
    return left_out
