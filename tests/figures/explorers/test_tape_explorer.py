"""Does the tape explorer tell the truth, and does it move when a knob does? No kernel is needed."""

import ipywidgets as widgets
import pytest
import torch

import ckptlib as ck
from ckptlib.figures.explorers.tape import PROGRAMS, cut, in_words, steps, tape_explorer, two_uses


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=lambda program: program.__name__)
def test_the_last_step_has_the_gradients_of_the_tape_and_fewer_bytes_are_saved_after_every_step(program):
    tape = ck.Tape()
    variables = program(tape)
    *_, output = variables.values()
    every = steps(program)
    assert sum(every[0].still_saved.values()) == tape.nbytes
    tape.backward(output, torch.ones_like(output.value))
    leaves = {name: var.grad for name, var in variables.items() if var.grad is not None}
    assert leaves.keys() == every[-1].grads.keys()
    assert all(torch.equal(dx, every[-1].grads[name]) for name, dx in leaves.items())
    saved = [sum(step.still_saved.values()) for step in every]
    assert saved == sorted(saved, reverse=True) and saved[-1] == 0


def test_overwriting_loses_a_use_and_the_words_say_so():
    assert steps(two_uses)[-1].grads["x"].tolist() == [7, -1]
    assert steps(two_uses, adds=False)[-1].grads["x"].tolist() != [7, -1]
    assert "a use was lost" in in_words(two_uses, 2, adds=False)
    assert "no use was lost" in in_words(two_uses, 2)


def test_no_gradient_crosses_a_cut_edge():
    assert "s" not in steps(cut)[-1].wanted
    assert steps(cut)[-1].grads["x"].tolist() == torch.tensor([3.0, -1.0]).sigmoid().tolist()


def test_every_knob_changes_the_figure_and_the_words():
    box = tape_explorer()
    program, played, overwrite, figure, words = box.children
    assert figure.value.startswith("<svg") and isinstance(words, widgets.HTML)
    for knob, value in ((played, 3), (overwrite, True), (program, list(PROGRAMS)[0]), (played, 2)):
        before = figure.value, words.value
        knob.value = value
        assert figure.value != before[0] and words.value != before[1], knob.description
    assert played.max == 2
