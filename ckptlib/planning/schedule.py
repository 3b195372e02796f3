"""What is computed, saved and recomputed, in which order? A list of primitive actions on a chain of stages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from numbers import Integral
from typing import NamedTuple

from ..errors import CkptError
from .stage_costs import Costs

FORWARD, SAVE_INPUT, SAVE_ALL, RESTORE, BACKWARD = "forward", "save input", "save all", "restore", "backward"
FORWARDS = (FORWARD, SAVE_INPUT, SAVE_ALL)
LEGEND = "· forward   c save input   A save all   r restore   B backward"
LETTERS = {FORWARD: "·", SAVE_INPUT: "c", SAVE_ALL: "A", RESTORE: "r", BACKWARD: "B"}


class Action(NamedTuple):
    """One step. Stage i reads value i and writes value i + 1. Value 0 is the chain's input, which is always in memory.

    forward     run the stage on the current value, and save nothing
    save input  run the stage, and save its input as a checkpoint to restart from
    save all    run the stage, and save its input and everything that its backward needs
    restore     make the stage's input, which was saved earlier, the current value
    backward    reverse the stage, and free everything that was saved for it
    """

    kind: str
    stage: int

    def __str__(self) -> str:
        return f"{self.kind} {self.stage}"


class Step(NamedTuple):
    """One action as a box in a picture of time and stages. `nbytes` are in use while the action runs."""

    action: Action
    start: float
    end: float
    again: bool  # a forward that has run before
    nbytes: int


@dataclass(frozen=True)
class Cost:
    forwards: int  # number of forwards, including repeated ones
    time: float  # of all forwards and all backwards
    peak: int  # bytes
    steps: list[Step] = field(repr=False)


class Schedule:
    """A valid list of actions on a chain of n stages, which can be costed, drawn and executed.

    >>> last = [("save input", 0), ("save all", 1), ("backward", 1)]
    >>> Schedule(2, [*last, ("restore", 0), ("save all", 0), ("backward", 0)]).cost()
    Cost(forwards=3, time=5, peak=3)
    """

    def __init__(self, n: int, actions: Iterable[tuple[str, int]]):
        self.n = n
        self.actions = tuple(Action(*action) for action in actions)
        self.cost()  # raises where an action is impossible

    def cost(self, costs: Costs | None = None) -> Cost:
        """Count forwards, time and peak bytes. Without costs, all stages are equal."""
        costs = costs or Costs.unit(self.n)
        if costs.n != self.n:
            raise CkptError(f"costs has {costs.n} stages, but the schedule has {self.n}")
        state, steps = _State(costs), []
        time: float = 0
        ran: Counter[int] = Counter()
        for number, action in enumerate(self.actions):
            nbytes = state.do(number, action)
            again = action.kind in FORWARDS and ran[action.stage] > 0
            ran[action.stage] += action.kind in FORWARDS
            start, time = time, time + _duration(action, costs)
            steps.append(Step(action, start, time, again, nbytes))
        if state.frontier >= 0:
            raise CkptError(f"the schedule ends before the backward of stage {state.frontier}")
        return Cost(ran.total(), time, max(step.nbytes for step in steps), steps)

    def forwards(self) -> list[int]:
        """How many times each stage runs forward."""
        ran = Counter(stage for kind, stage in self.actions if kind in FORWARDS)
        return [ran[stage] for stage in range(self.n)]

    def draw(self) -> str:
        """A picture in text. Time runs from left to right, one column per action, and stages go up.

        · forward   c save input   A save all   r restore   B backward
        """
        lines = []
        for stage in reversed(range(self.n)):
            row = "".join(LETTERS[kind] if at == stage else " " for kind, at in self.actions)
            lines.append(f"{stage:>{len(str(self.n))}} |{row}".rstrip())
        return "\n".join(lines)

    def __len__(self) -> int:
        return len(self.actions)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schedule) and (self.n, self.actions) == (other.n, other.actions)

    def __hash__(self) -> int:
        return hash((self.n, self.actions))

    def __repr__(self) -> str:
        cost = self.cost()
        return f"<Schedule: {self.n} stages, {cost.forwards} forwards, at most {cost.peak} activations>"


def _duration(action: Action, costs: Costs) -> float:
    if action.kind == RESTORE:
        return 0
    return costs.btime[action.stage] if action.kind == BACKWARD else costs.ftime[action.stage]


class _State:
    """What is in memory between two actions. `do` performs an action and returns the bytes in use while it runs."""

    def __init__(self, costs: Costs):
        self.costs = costs
        self.frontier = costs.n - 1  # the next stage to reverse
        self.current: int | None = 0  # which value the next forward reads
        self.inputs: set[int] = {0}  # values that can be restored
        self.owned: set[int] = set()  # values with memory of their own, which the stage before does not save anyway
        self.contents: set[int] = set()  # stages that save everything
        self.saved = costs.x[0]  # bytes of all of these
        self.gradient = costs.dx[costs.n] if costs.dy_at_start else 0  # of the output of the next stage to reverse

    def do(self, number: int, action: Action) -> int:
        kind, stage = action
        if kind not in LETTERS:
            raise CkptError(f"action {number} is {kind!r}, expected one of {', '.join(LETTERS)}")
        if not isinstance(stage, Integral) or not 0 <= stage < self.costs.n:
            raise CkptError(f"action {number} ({action}) names a stage that a chain of {self.costs.n} does not have")
        if stage > self.frontier:
            raise CkptError(f"action {number} ({action}): stage {stage} has already been reversed")
        problem = {RESTORE: self._restore, BACKWARD: self._cannot_reverse}.get(kind, self._cannot_run)(stage)
        if problem:
            raise CkptError(f"action {number} ({action}): {problem}")
        if kind == RESTORE:
            return self.saved + self.gradient
        return self._backward(stage) if kind == BACKWARD else self._forward(kind, stage)

    def _restore(self, stage: int) -> str:
        if stage not in self.inputs:
            return f"the input of stage {stage} was not saved"
        self.current = stage
        return ""

    def _cannot_run(self, stage: int) -> str:
        if self.current == stage:
            return "" if stage not in self.contents else f"stage {stage} has already saved everything"
        now = "no value is current" if self.current is None else f"the current value is the input of {self.current}"
        return f"{now}. Restore the input of stage {stage} first"

    def _cannot_reverse(self, stage: int) -> str:
        if stage != self.frontier:
            return f"stage {self.frontier} must be reversed first"
        return "" if stage in self.contents else f"stage {stage} has not saved anything. Run it with {SAVE_ALL!r} first"

    def _forward(self, kind: str, stage: int) -> int:
        c = self.costs
        mine = 0 if self._is_held(stage) else c.x[stage]  # the current input, if only this step holds it
        out, tmp = (c.xbar[stage], c.atmp[stage]) if kind == SAVE_ALL else (c.x[stage + 1], c.ftmp[stage])
        alive = self.saved + mine + out + self.gradient + tmp
        if kind == SAVE_ALL:
            self._save_all(stage)
        elif kind == SAVE_INPUT:
            self._own(stage)
        self.current = stage + 1
        return alive

    def _save_all(self, stage: int) -> None:
        if self.costs.saves_x[stage]:
            self._own(stage)
        else:
            self._disown(stage)
        self.inputs.add(stage)
        self.contents.add(stage)
        self.saved += self._content(stage)
        if stage < self.frontier:  # a stage that will read it
            self._own(stage + 1)

    def _content(self, stage: int) -> int:
        """Bytes that stay in use until the stage is reversed; without its output if the stage does not save that."""
        c = self.costs
        return c.xbar[stage] - (0 if c.saves_y[stage] else c.x[stage + 1])

    def _own(self, value: int) -> None:
        if not self._is_held(value):
            self.owned.add(value)
            self.saved += self.costs.x[value]
        self.inputs.add(value)

    def _disown(self, value: int) -> None:
        if value in self.owned:
            self.owned.remove(value)
            self.saved -= self.costs.x[value]

    def _is_held(self, value: int) -> bool:
        inside = value - 1 in self.contents and self.costs.saves_y[value - 1]
        return inside or value == 0 or value in self.owned

    def _backward(self, stage: int) -> int:
        c = self.costs
        alive = self.saved + c.dx[stage + 1] + c.btmp[stage]
        self.contents.remove(stage)
        self.inputs.discard(stage)
        self.saved -= self._content(stage)
        self._disown(stage)
        self.gradient = c.dx[stage]
        self.current, self.frontier = None, stage - 1
        return alive
