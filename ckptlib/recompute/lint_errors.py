"""Which pitfall made a run end in an error? PyTorch's message tells, or ck.selective's."""

from __future__ import annotations

import re

from .lint_calls import CheckpointCall
from .pitfalls import Finding, Pitfall

# A part of the message -> the pitfall that raises this error
ERRORS = {
    "incompatible with .grad() or": Pitfall.AUTOGRAD_GRAD,
    "mark a variable ready only once": Pitfall.DDP,
    "marked as ready twice": Pitfall.DDP,
    "Unexpected keyword arguments": Pitfall.TENSORS_IN_CONTAINERS,
    "never matches: ": Pitfall.POLICY_NEVER_MATCHES,
    "never ran in this segment": Pitfall.POLICY_NEVER_MATCHES,
    "ran in this segment. Are they another block's?": Pitfall.POLICY_NEVER_MATCHES,
    "the policy picked no op that ran": Pitfall.POLICY_NEVER_MATCHES,
    "eager torch recomputes it instead": Pitfall.POLICY_WRONG_AMOUNT,
}


def known_by_message(error: Exception) -> Pitfall | None:
    return next((pitfall for text, pitfall in ERRORS.items() if text in str(error)), None)


def from_error(error: Exception, calls: list[CheckpointCall]) -> list[Finding]:
    if pitfall := known_by_message(error):
        return [Finding(pitfall, "the run", f"{type(error).__name__}: {error!s:.80}")]
    guilty = any(call.drew and not call.preserve_rng_state for call in calls)
    return [] if guilty else [Finding(Pitfall.OTHER_VALUES, "the run", _compared(error)[:130])]


def _compared(error: Exception) -> str:
    """The first line of an error about a second run. Torch says "metadata" there, but lint had it compare values."""
    first, *lines = str(error).splitlines()
    shown = [line.partition(":")[2] for line in lines if line.startswith(("saved metadata:", "recomputed metadata:"))]
    bare = [re.sub("'[0-9a-f]{32}'", "", line) for line in shown]  # without the hash of the values
    return first.replace("different metadata", "different values") if bare and bare[::2] == bare[1::2] else first
