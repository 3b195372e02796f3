"""What can be asked about assignments from the command line?

A command is a function that gives its parser arguments and returns what to run; its docstring is its help. It imports
what it needs inside that inner function, so that `--help` does not wait for torch.
"""

from __future__ import annotations

import argparse
import errno
import inspect
import io
import sys
from collections.abc import Callable, Sequence

from ..errors import CkptError, require

Run = Callable[[argparse.Namespace], int]
Command = Callable[[argparse.ArgumentParser], Run]
_NOT_WRITABLE = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT)  # the machine's state, not a bug
_WRITABLE = "Expected a disk with room, where this user may write. Put that right, and give the command again"


def check(parser: argparse.ArgumentParser) -> Run:
    """Check an exercise now: points and a message for every task.

    PATH is an exercise's folder or its notebook. Exit code: 0 = full marks; 1 = not yet; 2 = there is nothing to check.
    """
    parser.add_argument("path", metavar="PATH", help="such as exercises/01_activation_memory")
    parser.add_argument("--json", action="store_true", help="print the verdicts as JSON")

    def run(args: argparse.Namespace) -> int:
        from .commands.check import check_path

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
        from .commands.grade import grade

        text, code = grade(args)
        print(text)
        return code

    return run


def _at_least_one(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of workers: expected 1 or more")
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
        from .commands.report import report

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
        from .commands.release import new_exercise

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
        from .commands.release import release

        print(release(args))
        return 0

    return run


# Every command, in the order of the help. The function's name, with hyphens, is what the user types.
COMMANDS: tuple[Command, ...] = (check, grade, report, new_exercise, release)


def build_parser(
    commands: Sequence[Command] = COMMANDS,
    prog: str = "python -m ckptlib.grading.cli",
    description: str = "Grade assignments, and write them.",
) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=prog, description=description)
    subparsers = parser.add_subparsers(title="commands", metavar="command", required=True)
    for command in commands:
        name, help_text = command.__name__.replace("_", "-"), inspect.getdoc(command) or ""
        child = subparsers.add_parser(
            name,
            help=help_text.splitlines()[0],
            description=help_text,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        child.set_defaults(run=command(child), command=name, extra="grading" if command in COMMANDS else None)
    return parser


def main(argv: Sequence[str] | None = None, parser: argparse.ArgumentParser | None = None) -> int:
    """Run one command. A CkptError is the user's mistake: one line on stderr and exit code 2, as argparse does."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # Windows writes to a file or a pipe as cp1252, which has no √
    args = (parser or build_parser()).parse_args(argv)
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
