"""What is still saved on a tape while it is read backwards? One op at a time, with the gradients so far."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import ipywidgets as widgets
import torch
from matplotlib.patches import Rectangle
from torch import Tensor

from ...autodiff.tape import Entry, Tape, Var, _pull_back
from .. import styles
from ..styles import Drawing
from ._panel import look

Program = Callable[[Tape], dict[str, Var]]  # records ops; returns its variables by name, inputs first, the output last


# ---- what is recorded -----------------------------------------------------------------------------------------------
def two_uses(tape: Tape) -> dict[str, Var]:
    x = tape.var(torch.tensor([3.0, -1.0]))
    a = x * x
    return {"x": x, "a": a, "y": a + x}


def residual(tape: Tape) -> dict[str, Var]:
    x, w = tape.var(torch.tensor([2.0, -1.0])), tape.var(torch.tensor([[1.0, 0.5], [1.0, 3.0]]))
    h = tape.linear(x, w)
    r = tape.relu(h)
    return {"x": x, "w": w, "h": h, "r": r, "y": r + x}


def three_uses(tape: Tape) -> dict[str, Var]:
    x = tape.var(torch.tensor([0.0, 1.0]))
    s = tape.sigmoid(x)
    t = s * s
    return {"x": x, "s": s, "t": t, "y": t + s}


def cut(tape: Tape) -> dict[str, Var]:
    x = tape.var(torch.tensor([3.0, -1.0]))
    s = tape.sigmoid(x)
    return {"x": x, "s": s, "y": x * s.detach()}


PROGRAMS: dict[str, Program] = {
    "x is used twice: y = x · x + x": two_uses,
    "a residual connection: y = relu(x wᵀ) + x": residual,
    "s is used three times: y = s · s + s": three_uses,
    "an edge is cut: y = x · detach(s)": cut,
}


# ---- played backwards -----------------------------------------------------------------------------------------------
class TapeStep(NamedTuple):
    """The tape after some of its ops were played, last first."""

    lines: list[str]  # one per op, in the order of the forward pass
    saved: list[dict[str, int]]  # by each op: name -> bytes
    played: int
    grads: dict[str, Tensor]  # those that exist now, by variable
    wanted: list[str]  # all variables that a gradient reaches in the end, last first

    @property
    def now(self) -> int | None:
        """The op that was played last."""
        return len(self.lines) - self.played if self.played else None

    @property
    def still_saved(self) -> dict[str, int]:
        """What the ops that are still to be played have saved: a tensor that two of them saved counts once."""
        return {name: nbytes for saved in self.saved[: len(self.lines) - self.played] for name, nbytes in saved.items()}


def steps(program: Program, adds: bool = True) -> list[TapeStep]:
    """Every moment of backward, from the gradient of the output (ones) to the gradients of the inputs.

    adds    False makes the famous mistake: a second gradient for a variable overwrites the first
    """
    tape = Tape()
    variables = program(tape)
    names = {var.slot: name for name, var in variables.items()}
    by_address = {var.value.data_ptr(): name for name, var in variables.items()}
    entries = list(tape._entries or ())
    lines = [_line(entry, names) for entry in entries]
    saved = [
        {by_address[entry.saved[n].data_ptr()]: entry.saved[n].nbytes for n in entry.versions} for entry in entries
    ]
    *_, output = variables.values()
    grads, seen = {output.slot: torch.ones_like(output.value)}, [{output.slot: torch.ones_like(output.value)}]
    for entry in reversed(entries):
        dy = grads.pop(entry.output, None)
        for slot, dx in _pull_back(entry, dy) if dy is not None else ():
            grads[slot] = grads[slot] + dx if adds and slot in grads else dx
        seen.append(dict(grads))
    wanted = [name for slot, name in reversed(names.items()) if any(slot in moment for moment in seen)]
    return [
        TapeStep(lines, saved, played, {names[slot]: dx for slot, dx in moment.items()}, wanted)
        for played, moment in enumerate(seen)
    ]


def _line(entry: Entry, names: dict[int, str]) -> str:
    targets = [target for name, target in entry.inputs.items() if target or name != "b" or entry.op != "linear"]
    inputs = ", ".join(names[target[0]] if target else "constant" for target in targets)
    return f"{names[entry.output]} = {entry.op}({inputs})"


def _shown(dx: Tensor) -> str:
    return "[" + ", ".join(f"{value + 0.0:.4g}" for value in dx.flatten().tolist()) + "]"


# ---- shown ----------------------------------------------------------------------------------------------------------
@styles.style()
def tape_figure(program: str | Program, played: int, adds: bool = True) -> Drawing:
    """The tape after so many steps of backward: left its ops and what they saved, right the gradients there are."""
    step = steps(PROGRAMS[program] if isinstance(program, str) else program, adds)[played]
    pitch, rows = 0.27, max(len(step.lines), len(step.wanted))
    figure, paper = styles.sheet(0.75 + rows * pitch)
    top = 0.35 + rows * pitch
    for x, title in (0.3, "op, in forward order"), (2.35, "saved for backward"), (5.2, "gradient"):
        paper.text(x, top + 0.12, title, weight="bold")
    for i, (line, saved) in enumerate(zip(step.lines, step.saved, strict=True)):
        y, done = top - (i + 0.5) * pitch, i >= len(step.lines) - step.played
        if i == step.now:
            paper.add_patch(Rectangle((0.05, y - 0.12), 4.95, 0.24, fc="#EDEDED", ec="0.4", linewidth=0.8))
            paper.text(0.12, y, "◂", va="center_baseline")
        paper.text(0.3, y, line, va="center_baseline", color="0.4" if done else "black")
        text = ", ".join(f"{name} {nbytes} B" for name, nbytes in saved.items()) or "nothing"
        category = "free" if done or not saved else "activation"
        styles.swatch(paper, 2.35, y, category, text + ", freed" * bool(done and saved))
    for i, name in enumerate(step.wanted):
        y = top - (i + 0.5) * pitch
        there = name in step.grads
        text = f"d{name} = {_shown(step.grads[name])}" if there else f"d{name}"
        styles.swatch(paper, 5.2, y, "gradient" if there else "free", text)
    paper.text(0.3, 0.1, f"still saved on the tape: {sum(step.still_saved.values())} B" + _names(step.still_saved))
    return Drawing(figure, in_words(program, played, adds))


def _names(saved: dict[str, int]) -> str:
    return f" ({', '.join(saved)})" if saved else ""


def in_words(program: str | Program, played: int, adds: bool = True) -> str:
    """A sentence on what the figure shows. After the last step it says whether the gradients are right."""
    program = PROGRAMS[program] if isinstance(program, str) else program
    every = steps(program, adds)
    step = every[played]
    there = ", ".join(f"d{name} = {_shown(dx)}" for name, dx in step.grads.items())
    saved = f"the tape still needs {', '.join(step.still_saved) or 'nothing'}"
    if played < len(every) - 1:
        done = "before the first step" if step.now is None else f"after {step.lines[step.now]} was played"
        return f"Backward, step {played} of {len(every) - 1}, {done}: {saved}; the gradients are {there}."
    right = steps(program)[-1].grads
    wrong = [f"d{name} should be {_shown(dx)}" for name, dx in right.items() if not torch.equal(dx, step.grads[name])]
    verdict = "; ".join(wrong) + ": a use was lost" if wrong else "no use was lost"
    return f"Backward, step {played} of {len(every) - 1}, the last: {saved}; {there}; {verdict}."


def tape_explorer() -> widgets.VBox:
    """Choose a program, step through its backward pass, and break it by overwriting instead of adding."""
    program = widgets.Dropdown(options=list(PROGRAMS), value=list(PROGRAMS)[1], description="program", **look(460))
    played = widgets.IntSlider(0, min=0, max=3, description="ops played backwards", **look(460))
    text = "overwrite a gradient instead of adding to it"
    overwrite = widgets.Checkbox(False, description=text, indent=False, **look(460))
    figure, words = widgets.HTML(), widgets.HTML()

    def draw(_: object = None) -> None:
        chosen = program.value, min(played.value, played.max), not overwrite.value
        figure.value, words.value = tape_figure(*chosen).svg(), in_words(*chosen)

    def restart(_: object) -> None:
        played.max, played.value = len(steps(PROGRAMS[program.value])) - 1, 0
        draw()

    program.observe(restart, names="value")
    for knob in (played, overwrite):
        knob.observe(draw, names="value")
    draw()
    return widgets.VBox([program, played, overwrite, figure, words])
