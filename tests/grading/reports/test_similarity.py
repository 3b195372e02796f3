"""Are copies found through their disguise, and are honest neighbours left alone?"""

import random
import time

import pytest

from ckptlib.grading.reports.similarity import SHORT, compare, fingerprints, normalised

STUB = '''
def ledger(model, optimizer):
    """Bytes of parameters, gradients and optimizer state."""
    raise NotImplementedError
'''
ORIGINAL = """
def ledger(model, optimizer):
    seen = set()
    parameters = 0
    gradients = 0
    for p in model.parameters():
        if p.data_ptr() in seen:
            continue
        seen.add(p.data_ptr())
        parameters += p.numel() * p.element_size()
        if p.grad is not None:
            gradients += p.grad.numel() * p.grad.element_size()
    held = [v for s in optimizer.state.values() for v in s.values() if torch.is_tensor(v)]
    state = sum(v.numel() * v.element_size() for v in held)
    return {"parameters": parameters, "gradients": gradients, "state": state}
"""
# Other names, comments, a docstring, an annotation, statements and factors in another order
DISGUISED = '''
def ledger(net: "nn.Module", opt):
    """All my own work."""
    g_total = 0   # gradients
    p_total = 0
    done = set()
    for weight in net.parameters():
        if weight.data_ptr() in done:
            continue
        p_total += weight.element_size() * weight.numel()
        done.add(weight.data_ptr())

        if weight.grad is not None:
            g_total += weight.grad.element_size() * weight.grad.numel()
    # the optimizer
    kept = [t for q in opt.state.values() for t in q.values() if torch.is_tensor(t)]
    st = sum(t.numel() * t.element_size() for t in kept)
    return {"parameters": p_total, "gradients": g_total, "state": st}
'''
INDEPENDENT = """
def ledger(model, optimizer):
    def size(t):
        return t.numel() * t.element_size()
    params = list({id(p): p for p in model.parameters()}.values())
    out = {}
    out["parameters"] = sum(map(size, params))
    out["gradients"] = sum(size(p.grad) for p in params if p.grad is not None)
    total = 0
    for group in optimizer.state.values():
        for value in group.values():
            if isinstance(value, torch.Tensor):
                total += size(value)
    out["state"] = total
    return out
"""


def students(**texts):
    return {student: {"ledger": text} for student, text in texts.items()}


def test_a_disguised_copy_is_found_and_an_independent_answer_is_not():
    found = compare(students(ada=ORIGINAL, bob=DISGUISED, cy=INDEPENDENT), {"ledger": [STUB]})
    (pair,) = found.pairs
    assert pair.students == ("ada", "bob")
    assert pair.score > 0.9
    assert [(match.task, match.verbatim) for match in pair.tasks] == [("ledger", False)]
    assert "ada and bob" in str(found)


def test_word_for_word_is_said():
    (pair,) = compare(students(ada=ORIGINAL, bob=ORIGINAL.replace("    ", "  "))).pairs
    assert pair.score == 1 and pair.tasks[0].verbatim


def test_two_right_answers_of_two_lines_are_too_short_to_tell():
    answer = (
        "def largest_batch(measure, gpu_gib):\n    each = measure(2) - measure(1)\n    return gpu_gib * 2**30 // each"
    )
    found = compare({"ada": {"largest_batch": answer}, "bob": {"largest_batch": answer}})
    assert found.pairs == []
    assert found.too_short == {"largest_batch": 2}
    assert "Too short to compare: largest_batch (2 answers)" in str(found)


def test_what_the_reference_gives_accuses_nobody():
    assert len(compare(students(ada=ORIGINAL, bob=DISGUISED)).pairs) == 1
    assert compare(students(ada=ORIGINAL, bob=DISGUISED), {"ledger": [STUB, ORIGINAL]}).pairs == []


def test_what_much_of_the_class_has_accuses_nobody():
    usual = {f"s{i}": ORIGINAL.replace("seen", f"seen_{i}") for i in range(20)}
    assert compare(students(**usual)).pairs == []


def test_an_unanswered_task_is_neither_alike_nor_short():
    found = compare(students(ada=STUB, bob=STUB, cy=""), {"ledger": [STUB]})
    assert (found.pairs, found.too_short) == ([], {})


def test_an_answer_with_a_syntax_error_is_compared_by_its_words():
    broken = ORIGINAL.replace("gradients}", "gradients")
    (pair,) = compare(students(ada=broken, bob=broken.replace("seen", "visited"))).pairs
    assert pair.score == 1


def test_no_source_can_stop_it():
    for source in ["(" * 20_000, "-" * 20_000 + "1", "a" + ".b" * 9000, "\0", "lambda:" * 3000, "\ud800 = 1", "'\\d'"]:
        assert isinstance(normalised(source), list)


def test_magics_and_own_names_leave_no_trace():
    assert normalised("%timeit x\n!ls\ntotal = torch.ones(3)") == normalised("y = torch.ones(3)  # why\n")
    assert normalised("y = torch.ones(3)") != normalised("y = torch.zeros(3)")


def test_equal_runs_share_a_fingerprint_wherever_they_stand():
    run = "\n".join(f"x = f{i}(x, {i})" for i in range(8))
    assert fingerprints(run) & fingerprints(f"import os\nz = os.getcwd()\n{run}\nprint(len(z))")


@pytest.mark.slow
def test_four_hundred_students_take_seconds():
    draw = random.Random(1)

    def written_by_someone() -> str:
        ops = ["numel", "element_size", "data_ptr", "dim", "size", "stride", "storage_offset"]
        lines = [
            f"    a{i} = p.{draw.choice(ops)}() * {draw.randrange(99)} + q.{draw.choice(ops)}()" for i in range(25)
        ]
        return "def ledger(p, q):\n" + "\n".join(lines) + "\n    return a1"

    answers = {f"s{i}": {task: written_by_someone() for task in ("one", "two", "three", "four")} for i in range(400)}
    answers["s399"]["two"] = answers["s7"]["two"].replace("a1", "b1")
    start = time.process_time()
    found = compare(answers)
    assert time.process_time() - start < 20  # of its own: about 3 on an idle core
    assert [pair.students for pair in found.pairs] == [("s399", "s7")]
    assert found.pairs[0].tasks[0].shared >= SHORT
