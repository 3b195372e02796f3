"""What can be done with assignments from the command line?

A command is a function that gives its parser arguments and returns the function to run; its docstring is its help.
"""

from __future__ import annotations

import argparse
import errno
import importlib
import inspect
import io
import sys
from collections.abc import Callable, Sequence

from ..errors import CkptError, require

CommandFunction = Callable[[argparse.Namespace], int]
Command = Callable[[argparse.ArgumentParser], CommandFunction]
_FORMATS = ("text", "csv", "canvas", "moodle", "json")
_NOT_WRITABLE = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT)  # the machine's state, not a bug
_WRITABLE = "Expected a disk with room, where this user may write. Fix that, and run the command again"


def _later(module: str, function: str) -> CommandFunction:
    """Run a function of commands/ and print its text. It is imported then, so that `--help` does not wait for torch."""

    def run(args: argparse.Namespace) -> int:
        found = getattr(importlib.import_module(f"ckptlib.grading.commands.{module}"), function)(args)
        text, code = found if isinstance(found, tuple) else (found, 0)
        print(text)
        return code

    return run


def check(parser: argparse.ArgumentParser) -> CommandFunction:
    """Check an exercise now: points and a message for every task.

    PATH is an exercise's folder or its notebook. Exit code: 0 = full marks; 1 = not yet; 2 = there is nothing to check.
    """
    parser.add_argument("path", metavar="PATH", help="such as exercises/01_activation_memory")
    parser.add_argument("--json", action="store_true", help="print the verdicts as JSON")
    return _later("check", "check_path")


def grade(parser: argparse.ArgumentParser) -> CommandFunction:
    """Grade everything that was submitted for an assignment of an nbgrader course.

    Scores go into nbgrader's gradebook, notebooks into autograded/, pages for students into feedback/. Answers are
    kept, so a submission that has not changed is scored again without being run again. Exit code: 0 = every submission
    has a score and a reason; 1 = some could not be run because of a problem on this machine, and --resume retries them;
    2 = there is nothing to grade.
    """
    parser.add_argument("assignment", metavar="ASSIGNMENT", help="such as 01_activation_memory")
    parser.add_argument("--course", default=".", metavar="DIR", help="the course's folder (default: here)")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--workers", type=_at_least_one, metavar="N", help="processes here (default: one per core)")
    where.add_argument("--cluster", metavar="tcp://…", help="the address of a dask scheduler")
    parser.add_argument("--student", metavar="S", help="only this student")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--resume", action="store_true", help="finish a run that was interrupted")
    how.add_argument(
        "--fresh", action="store_true", help="run every submission again (if interrupted, --resume finishes it)"
    )
    parser.add_argument("--json", action="store_true", help="print the results as JSON")
    return _later("grade", "grade")


def _at_least_one(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of workers: expected 1 or more")
    return int(text)


def report(parser: argparse.ArgumentParser) -> CommandFunction:
    """Report how a graded assignment went: scores, missed ideas and reasons, and which submissions are alike.

    text and json hold everything. csv has a row per student with points and message per task. canvas and moodle are the
    formats that their gradebooks import; they have no row for students who submitted nothing.
    """
    parser.add_argument("assignment", metavar="ASSIGNMENT", help="such as 01_activation_memory")
    parser.add_argument("--course", default=".", metavar="DIR", help="the course's folder (default: here)")
    parser.add_argument("--format", default="text", choices=_FORMATS, help="default: text")
    parser.add_argument("--canvas-id", default="", metavar="N", help="the assignment's number in Canvas")
    whose = "what --format moodle names students by (default: username)"
    parser.add_argument("--moodle-id", default="username", choices=["username", "email", "idnumber"], help=whose)
    parser.add_argument("--output", metavar="FILE", help="write the report to this file (default: print it)")
    return _later("report", "report")


def new_exercise(parser: argparse.ArgumentParser) -> CommandFunction:
    """Begin an assignment of your own with a small one that works.

    The course's source folder gets a notebook, probes (tasks.py), known mistakes (key.py) and a quiz (quiz.json).
    """
    parser.add_argument("name", metavar="NAME", help="such as 11_my_topic")
    parser.add_argument("--course", default=".", metavar="DIR", help="the course's folder (default: here)")
    return _later("release", "new_exercise")


def release(parser: argparse.ArgumentParser) -> CommandFunction:
    """Make the version of an assignment that students get: no solutions, no hidden tests, no key.

    Like `nbgrader generate_assignment`, and it adds the answers that the visible checks expect, from your solutions.
    """
    parser.add_argument("assignment", metavar="ASSIGNMENT", help="such as 01_activation_memory")
    parser.add_argument("--course", default=".", metavar="DIR", help="the course's folder (default: here)")
    return _later("release", "release")


def gradescope(parser: argparse.ArgumentParser) -> CommandFunction:
    """Make an autograder of an assignment for Gradescope: one zip that installs the grader and asks every task.

    It holds your solutions and your key. A submission has one test for each task, with its points and its message.
    """
    parser.add_argument("assignment", metavar="ASSIGNMENT", help="such as 01_activation_memory")
    parser.add_argument("--course", default=".", metavar="DIR", help="the course's folder (default: here)")
    when = ["visible", "after_due_date", "after_published", "hidden"]
    parser.add_argument(
        "--visibility", default="visible", choices=when, help="when students see the tests (default: visible, at once)"
    )
    parser.add_argument("--output", metavar="FILE", help="where to write it (default: ASSIGNMENT-gradescope.zip, here)")
    return _later("gradescope", "gradescope")


def github(parser: argparse.ArgumentParser) -> CommandFunction:
    """Make a template repository for a class on GitHub: the release, and a workflow that checks every push.

    The workflow runs the visible checks and shows points and a message for each task. Students can change it, so grade
    the cloned repositories with `ckptlib grade`.
    """
    parser.add_argument("assignment", metavar="ASSIGNMENT", help="such as 01_activation_memory")
    parser.add_argument("--course", default=".", metavar="DIR", help="the course's folder (default: here)")
    parser.add_argument("--output", metavar="DIR", help="a new folder (default: ASSIGNMENT-github, here)")
    return _later("release", "github")


# Every command, in the order of the help. The function's name, with hyphens, is what the user types.
COMMANDS: tuple[Command, ...] = (check, grade, report, new_exercise, release, gradescope, github)


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
