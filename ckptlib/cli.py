"""What can be asked from the command line?

A command is a function that gives its parser arguments and returns what to run; its docstring is its help. It imports
what it needs inside that inner function, so that `ckptlib --help` does not wait for torch.
"""

from __future__ import annotations

import argparse
import errno
import inspect
import io
import re
import sys
from collections.abc import Callable, Sequence

from ckptlib.errors import CkptError, require

Run = Callable[[argparse.Namespace], int]
_NOT_WRITABLE = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT)  # the machine's state, no bug
_WRITABLE = "Expected a disk with room, where this user may write. Put that right, and give the command again"


def doctor(parser: argparse.ArgumentParser) -> Run:
    """Check that the library works here, that the book can be read, and that grading can be sandboxed.

    Exit code: 0 = all of it; 1 = the book cannot be read; 2 = grading cannot be sandboxed; 3 = neither, for example
    because only the library is installed, without its extras.
    """
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")

    def run(args: argparse.Namespace) -> int:
        from ckptlib.doctor import examine

        report = examine()
        print(report.to_json() if args.json else report)
        return report.exit_code

    return run


def measure(parser: argparse.ArgumentParser) -> Run:
    """Tell what memory a training step needs, when, and for what.

    TARGET is mlp, the book's model, or package.module:function: a function of yours without arguments that returns
    (model, inputs) or (model, inputs, loss), of which forward and backward are measured; or else the step to measure,
    itself a function without arguments. inputs is a tensor, a tuple of arguments, or a dict of named ones. Without a
    loss, the model's output is it, or has it as output.loss.
    """
    parser.add_argument("target", metavar="TARGET", help="mlp, or package.module:function")
    parser.add_argument("--checkpoint", default="none", help="mlp only: none, reentrant or nonreentrant")
    _add_device(parser)
    parser.add_argument("--plot", metavar="FILE.svg", help="also draw the timeline")
    parser.add_argument("--json", action="store_true", help="print bytes as JSON")

    def run(args: argparse.Namespace) -> int:
        from ckptlib.measure_command import measure_target

        print(measure_target(args))
        return 0

    return run


def plan(parser: argparse.ArgumentParser) -> Run:
    """Find what to recompute, so that a training step fits in a memory budget.

    TARGET is package.module:function: a function of yours that returns (model, inputs) or (model, inputs, loss), as for
    measure. Its chain is found and planned, and the whole step is run by the plan and measured. Without --budget, plans
    to choose from are printed.

    Or give a chain as a JSON file of lists: ftime, btime, x (one more entry: the input of stage 0 first) and xbar (all
    that a stage keeps, its output included). Then --budget is the chain's own.

    Exit code: 0 = planned; 1 = the budget is too small, and the smallest is printed.
    """
    parser.add_argument("target", metavar="TARGET", nargs="?", help="package.module:function")
    parser.add_argument("--chain", metavar="FILE.json", help="a chain's costs, instead of a model")
    parser.add_argument("--budget", type=_bytes, metavar="BYTES", help="bytes, or a size such as 20GiB or 500MB")
    _add_device(parser)
    parser.add_argument("--plot", metavar="FILE.svg", help="also draw the schedule, or the plans to choose from")
    parser.add_argument("--json", action="store_true", help="print the plan as JSON")

    def run(args: argparse.Namespace) -> int:
        from ckptlib.plan_command import plan_command

        text, code = plan_command(args)
        print(text)
        return code

    return run


def _add_device(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--device", default="sim:cuda", help="cpu, sim:cuda (default), or an accelerator such as cuda")
    parser.add_argument("--gpu", help="which GPU sim:cuda simulates (default: a100)")
    parser.add_argument("--torch", metavar="RELEASE", help="simulate that GPU under another torch, such as 2.9")
    parser.add_argument("--fake", action="store_true", help="use fake tensors: allocate nothing")


def _bytes(text: str) -> int:
    """
    >>> _bytes("1000"), _bytes("1.5GiB"), _bytes("2MB")
    (1000, 1610612736, 2000000)
    """
    size = re.fullmatch(r"(-?\d+)|(\d+(?:\.\d+)?)\s*([KMGT])(i?)B", text.strip(), re.IGNORECASE)
    if not size:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of bytes: expected such as 1000000, 500MB or 20GiB")
    if size[1]:
        return int(size[1])
    return int(float(size[2]) * (1024 if size[4] else 1000) ** (1 + "KMGT".index(size[3].upper())))


def fit(parser: argparse.ArgumentParser) -> Run:
    """Tell the largest batch that fits on a GPU, with nothing, attention or whole blocks recomputed.

    MODEL is a name, or package.module:function: a function of yours with a parameter called batch that returns
    (model, inputs) or (model, inputs, loss), as for measure. AdamW is added, and nothing is allocated.
    """
    parser.add_argument("model", metavar="MODEL", help="gpt2-xl, llama3-8b, ..., or package.module:function")
    parser.add_argument("--gpu", default="80GiB", help="80GiB, 80GB, bytes, or a card such as h100")
    parser.add_argument("--seq", type=int, help="tokens (default: the model's own)")
    parser.add_argument("--precision", help="fp32, bf16 or mixed (default: mixed; your own model's as it is built)")
    parser.add_argument("--strategy", default="all", help="none, selective, full, planned or all (default)")
    parser.add_argument("--fused", action="store_true", help="fused attention")
    parser.add_argument("--plot", metavar="FILE.svg", help="also draw the memory of each strategy")
    parser.add_argument("--json", action="store_true", help="print bytes as JSON")

    def run(args: argparse.Namespace) -> int:
        from ckptlib.fit_command import fit_model

        print(fit_model(args))
        return 0

    return run


def check(parser: argparse.ArgumentParser) -> Run:
    """Check an exercise now: points and a message for every task.

    PATH is an exercise's folder or its notebook. Exit code: 0 = full marks; 1 = not yet; 2 = there is nothing to check.
    """
    parser.add_argument("path", metavar="PATH", help="such as exercises/01_activation_memory")
    parser.add_argument("--json", action="store_true", help="print the verdicts as JSON")

    def run(args: argparse.Namespace) -> int:
        from ckptlib.check_command import check_path

        text, code = check_path(args)
        print(text)
        return code

    return run


def grade(parser: argparse.ArgumentParser) -> Run:
    """Grade everything that was submitted for an assignment of an nbgrader course.

    Scores go into nbgrader's gradebook, notebooks into autograded/, pages for students into feedback/. Answers are
    kept: a submission that has not changed is judged again without being run again. Exit code: 0 = every submission
    has a score and a reason; 1 = some could not be run for a fault of this machine, and --resume tries them again;
    2 = nothing to grade.
    """
    parser.add_argument("assignment", metavar="ASSIGNMENT", help="such as 01_activation_memory")
    parser.add_argument("--course", default=".", metavar="DIR", help="the course's folder (default: here)")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--workers", type=_at_least_one, metavar="N", help="processes here (default: one per core)")
    where.add_argument("--cluster", metavar="tcp://…", help="the address of a dask scheduler")
    parser.add_argument("--student", metavar="S", help="only this one")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--resume", action="store_true", help="finish a run that was cut short")
    how.add_argument("--fresh", action="store_true", help="run every submission again; cut short, --resume finishes it")
    parser.add_argument("--json", action="store_true", help="print the results as JSON")

    def run(args: argparse.Namespace) -> int:
        from ckptlib.grade_command import grade

        text, code = grade(args)
        print(text)
        return code

    return run


def _at_least_one(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of workers: expected 1 or more")
    return int(text)


def report(parser: argparse.ArgumentParser) -> Run:
    """Tell how a graded assignment went: scores, what was missed and why, which submissions are alike.

    text and json hold everything; csv has a row per student with points and message per task; canvas is what Canvas's
    gradebook imports.
    """
    parser.add_argument("assignment", metavar="ASSIGNMENT", help="such as 01_activation_memory")
    parser.add_argument("--course", default=".", metavar="DIR", help="the course's folder (default: here)")
    parser.add_argument("--format", default="text", choices=["text", "csv", "canvas", "json"], help="default: text")
    parser.add_argument("--canvas-id", default="", metavar="N", help="the assignment's number in Canvas")
    parser.add_argument("--output", metavar="FILE", help="write it there (default: print it)")

    def run(args: argparse.Namespace) -> int:
        from ckptlib.report_command import report

        print(report(args))
        return 0

    return run


def new_exercise(parser: argparse.ArgumentParser) -> Run:
    """Begin an assignment of your own: a small one that works, to be changed.

    Written into the course's source folder: notebook, probes (tasks.py), known mistakes (key.py), quiz (quiz.json).
    """
    parser.add_argument("name", metavar="NAME", help="such as 11_my_topic")
    parser.add_argument("--course", default=".", metavar="DIR", help="the course's folder (default: here)")

    def run(args: argparse.Namespace) -> int:
        from ckptlib.release_command import new_exercise

        print(new_exercise(args))
        return 0

    return run


def release(parser: argparse.ArgumentParser) -> Run:
    """Make what students get of an assignment: no solutions, no hidden tests, no key.

    As `nbgrader generate_assignment`, but with what the visible checks expect, computed from your solutions.
    """
    parser.add_argument("assignment", metavar="ASSIGNMENT", help="such as 01_activation_memory")
    parser.add_argument("--course", default=".", metavar="DIR", help="the course's folder (default: here)")

    def run(args: argparse.Namespace) -> int:
        from ckptlib.release_command import release

        print(release(args))
        return 0

    return run


# Every command, in the order of the help. The function's name, with hyphens, is what the user types.
GRADING: tuple[Callable[[argparse.ArgumentParser], Run], ...] = (check, grade, report, new_exercise, release)
COMMANDS: tuple[Callable[[argparse.ArgumentParser], Run], ...] = (doctor, measure, plan, fit, *GRADING)


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="ckptlib", description="What a model remembers, and what it can recompute.")
    subparsers = parser.add_subparsers(title="commands", metavar="command", required=True)
    for command in COMMANDS:
        name, description = command.__name__.replace("_", "-"), inspect.getdoc(command) or ""
        child = subparsers.add_parser(
            name,
            help=description.splitlines()[0],
            description=description,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        child.set_defaults(run=command(child), command=name, extra="grading" if command in GRADING else None)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. A CkptError is the user's mistake: one line on stderr and exit code 2, as argparse does."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # Windows writes to a file or a pipe as cp1252, which has no √
    args = build_parser().parse_args(argv)
    try:
        if args.extra:
            require(args.extra, f"`ckptlib {args.command}`")
        return args.run(args)
    except BrokenPipeError:  # the reader, `head` perhaps, has seen enough
        sys.stdout = None
        return 0
    except CkptError as error:
        print(f"ckptlib: {error}", file=sys.stderr)
        return error.exit_code
    except OSError as error:
        if error.errno not in _NOT_WRITABLE:
            raise
        where = error.filename or "a file"
        print(f"ckptlib: {where} cannot be written or read: {error.strerror}. {_WRITABLE}", file=sys.stderr)
        return CkptError.exit_code


if __name__ == "__main__":
    sys.exit(main())
