"""Does `ckptlib plan --chain FILE --budget N` answer, and explain in one line what it cannot read?"""

import json
from dataclasses import asdict

import pytest

from ckptlib.cli import main
from ckptlib.planning.stage_costs import Costs

CHAIN = {"ftime": [1, 2, 3], "btime": [2, 2, 2], "x": [4, 5, 6, 7], "xbar": [9, 9, 9]}


@pytest.fixture
def ask(tmp_path, capsys):
    """(exit code, what was printed, what went to stderr)"""

    def run(content, budget, *options):
        path = tmp_path / "chain.json"
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        code = main(["plan", "--chain", str(path), f"--budget={budget}", *options])
        return code, *capsys.readouterr()

    return run


def test_a_plan_is_printed(ask):
    code, text, _ = ask(CHAIN, 38, "--json")
    answer = json.loads(text)
    assert (answer["makespan"], answer["peak"], answer["forwards"], code) == (12, 38, 3, 0)
    answer = json.loads(ask(CHAIN, 37, "--json")[1])
    assert (answer["makespan"], answer["peak"]) == (13, 34)  # 4 + 5 kept inputs, 9 + 9 kept, 7 the gradient
    assert answer["actions"][0] == ["save input", 0]
    text = ask(CHAIN, 37)[1]
    assert "makespan         13" in text and "0 |c" in text


def test_the_gradient_of_the_output_is_counted_while_the_chain_first_runs(ask):
    """By hand: stage 1 reads 6 and writes 6 while the gradient of the output, 10, waits. Later never more than 20."""
    chain = {"ftime": [1] * 4, "btime": [1] * 4, "x": [0, 6, 6, 0, 10], "xbar": [6, 6, 0, 10]}
    assert json.loads(ask(chain, 21, "--json")[1])["smallest_budget"] == 6 + 6 + 10
    assert json.loads(ask(chain, 22, "--json")[1])["peak"] == 22


def test_every_field_of_costs_counts(ask):
    """By hand: x0 is 1, x1 8, x2 1, the last gradient 4. The largest is stage 1, forward with 6 more, backward with 9.

    A value that neither stage saves is gone in backward; a gradient that the loss makes is not there in forward.
    """
    chain = {"ftime": [1, 1], "btime": [1, 1], "x": [1, 8, 1], "xbar": [8, 1], "dx": [0, 0, 4]}
    chain |= {"ftmp": [0, 0], "atmp": [0, 6], "btmp": [0, 9]}
    freed = {"saves_x": [True, False], "saves_y": [False, True]}
    for fields, peak in [
        ({}, 1 + 8 + 1 + 4 + 9),
        ({"saves_x": freed["saves_x"]}, 1 + 8 + 1 + 4 + 9),
        (freed, 1 + 8 + 1 + 4 + 6),
        ({**freed, "dy_at_start": False}, 1 + 8 + 1 + 6),
    ]:
        assert json.loads(ask({**chain, **fields}, 100, "--json")[1])["peak"] == peak
    every = asdict(Costs(**chain, **freed, dy_at_start=False))
    assert json.loads(ask(every, 100, "--json")[1])["peak"] == 1 + 8 + 1 + 6


def test_where_all_times_are_0_it_says_what_was_counted(ask, tmp_path):
    free = {**CHAIN, "ftime": [0] * 3, "btime": [0] * 3}
    text = ask(free, 37, f"--plot={tmp_path / 'free.svg'}")[1]
    assert "All times are 0: planned with 1 for each forward." in text
    assert "All times are 0" not in ask(CHAIN, 37)[1]
    assert "all times are 0" in (tmp_path / "free.svg").read_text()


@pytest.mark.parametrize("budget", [0, 10, 25])
def test_the_smallest_budget_is_named(ask, budget):
    code, text, _ = ask(CHAIN, budget, "--json")
    assert json.loads(text) == {"feasible": False, "budget": budget, "smallest_budget": 26}
    assert code == 1
    assert json.loads(ask(CHAIN, 26, "--json")[1])["peak"] == 26
    assert "It needs at least 26" in ask(CHAIN, budget)[1]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is not JSON"),
        ("{", "is not JSON"),
        ("[1]", "holds a list, expected an object"),
        ({"ftime": [1]}, "has no btime, x, xbar"),
        ({**CHAIN, "x": 3}, "is 3, expected a list of numbers"),
        ({**CHAIN, "bttmp": [9, 9, 9]}, "has 'bttmp', expected only ftime, btime, x, xbar, dx"),
        ({**CHAIN, "bttmp": [9, 9, 9]}, ". Did you mean btmp?"),
        ({"ftimes": [1]}, "Did you mean ftime?"),
        ({**CHAIN, "qqq": 1}, "saves_y, once, dy_at_start\n"),
        ({**CHAIN, "saves_x": True}, "is True, expected a list of booleans"),
        ({**CHAIN, "saves_x": [True, False]}, "saves_x has 2 entries for 3 stages, expected 3"),
        ({**CHAIN, "saves_y": [True, "false", True]}, 'is "false", expected true or false'),
        ({**CHAIN, "dy_at_start": 0}, "is 0, expected true or false"),
        ({**CHAIN, "x": [1, 2, 3]}, "x has 3 entries for 3 stages, expected 4 (the input of stage 0 first"),
        ({**CHAIN, "btime": [1]}, "btime has 1 entries for 3 stages, expected 3"),
        ({**CHAIN, "ftime": []}, "ftime is empty"),
        ({**CHAIN, "xbar": [9, -9, 9]}, "xbar[1] is -9, expected a whole number of bytes, 0 or more"),
        ({**CHAIN, "xbar": [9, 9.5, 9]}, "xbar[1] is 9.5, expected a whole number of bytes"),
        ({**CHAIN, "xbar": [9, 10**30, 9]}, "xbar[1] is 1000000000000000000000000000000, expected"),
        ({**CHAIN, "ftime": [1, float("nan"), 1]}, "ftime[1] is nan, expected a number"),
        ({**CHAIN, "ftime": [1, float("inf"), 1]}, "ftime[1] is inf, expected a number"),
        ({**CHAIN, "x": [4, None, 6, 7]}, "x[1] is None, expected a whole number of bytes"),
        ({**CHAIN, "x": [4, "5", 6, 7]}, "x[1] is '5', expected a whole number of bytes"),
        ({**CHAIN, "x": [4, True, 6, 7]}, "x[1] is True, expected a whole number of bytes"),
    ],
)
def test_a_bad_chain_is_explained_in_one_line(ask, content, message):
    code, text, error = ask(content, 10, "--json")
    assert (code, text, error.count("\n")) == (2, "", 1)
    assert error.startswith("ckptlib: ") and message in error


@pytest.mark.parametrize("path", ["/no/such/chain.json", "."])
def test_a_file_that_cannot_be_read_is_explained(capsys, path):
    assert main(["plan", "--chain", path, "--budget", "10"]) == 2
    assert capsys.readouterr().err.startswith("ckptlib: cannot read the chain: ")


def test_a_negative_budget_is_explained(ask):
    code, _, error = ask(CHAIN, -1)
    assert (code, error) == (2, "ckptlib: the budget is -1, expected a number of bytes, 0 or more\n")


@pytest.mark.parametrize("budget", ["80 elephants", "1.5", ""])
def test_a_budget_that_is_no_number_is_named(ask, capsys, budget):
    with pytest.raises(SystemExit) as caught:
        ask(CHAIN, budget)
    assert caught.value.code == 2
    assert "argument --budget" in capsys.readouterr().err
