"""What can be asked from the command line?

A command is a function that gives its parser arguments and returns what to run; its docstring is its help. It imports
what it needs inside that inner function, so that `ckptlib --help` does not wait for torch.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from ckptlib.errors import CkptError
from ckptlib.grading import cli as grading
from ckptlib.grading.cli import Command, CommandFunction
from ckptlib.units import parse_bytes


def doctor(parser: argparse.ArgumentParser) -> CommandFunction:
    """Check that the library works here, that the book can be read, and that grading can be sandboxed.

    Exit code: 0 = all of it; 1 = the book cannot be read; 2 = grading cannot be sandboxed; 3 = neither, for example
    because only the library is installed, without its extras.
    """
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")

    def run(args: argparse.Namespace) -> int:
        from ckptlib.book.doctor import examine

        report = examine()
        print(report.to_json() if args.json else report)
        return report.exit_code

    return run


def measure(parser: argparse.ArgumentParser) -> CommandFunction:
    """Report how much memory a training step needs, when, and for what.

    TARGET is mlp, the book's model, or package.module:function: a function of yours without arguments that returns
    (model, inputs) or (model, inputs, loss), of which forward and backward are measured; (model, inputs, loss,
    optimizer), of which the update is measured as well; or else the step to measure, itself a function without
    arguments. inputs is a tensor, a tuple of arguments, or a dict of named ones. Without a loss, the model's output is
    the loss, or has it as output.loss.
    """
    parser.add_argument("target", metavar="TARGET", help="mlp, or package.module:function")
    parser.add_argument("--checkpoint", default="none", help="mlp only: none, reentrant or nonreentrant")
    _add_device(parser)
    help_of_step = "which step to measure: 1, in which an optimizer makes its state (the default), or a later one"
    parser.add_argument("--step", type=int, default=1, metavar="N", help=help_of_step)
    parser.add_argument("--plot", metavar="FILE.svg", help="also draw the timeline")
    parser.add_argument("--snapshot", metavar="FILE.pickle", help="also write a snapshot for PyTorch's memory viewer")
    parser.add_argument("--html", metavar="FILE.html", help=PAGE)
    parser.add_argument("--json", action="store_true", help="print bytes as JSON")

    def run(args: argparse.Namespace) -> int:
        from ckptlib.commands.measure import measure_target

        print(measure_target(args))
        return 0

    return run


PAGE = "also write a page that shows every block in a browser; it needs no network"


def explain(parser: argparse.ArgumentParser) -> CommandFunction:
    """Report what the peak of a memory snapshot was made of.

    FILE is a pickle that torch.cuda.memory's _dump_snapshot has written, on any machine, or measure --snapshot. Nothing
    in the file is executed.
    """
    parser.add_argument("file", metavar="FILE", help="the snapshot")
    parser.add_argument("--device", type=int, help="which GPU of several (default: the one that held most)")
    parser.add_argument("--html", metavar="FILE.html", help=PAGE)
    parser.add_argument("--json", action="store_true", help="print bytes as JSON")

    def run(args: argparse.Namespace) -> int:
        from ckptlib.commands.explain import explain_snapshot

        print(explain_snapshot(args))
        return 0

    return run


def plan(parser: argparse.ArgumentParser) -> CommandFunction:
    """Find what to recompute, so that a training step fits in a memory budget.

    TARGET is package.module:function: a function of yours that returns (model, inputs) or (model, inputs, loss), as for
    measure. Its chain is found and planned, and the whole step is run by the plan and measured. Without --budget, plans
    to choose from are printed.

    Or give a chain as a JSON file of lists: ftime, btime, x (one more entry: the input of stage 0 first) and xbar
    (what a stage saves if it saves everything, with its output). Then --budget is the chain's own.

    Exit code: 0 = planned; 1 = the budget is too small, and the smallest is printed.
    """
    parser.add_argument("target", metavar="TARGET", nargs="?", help="package.module:function")
    parser.add_argument("--chain", metavar="FILE.json", help="a chain's costs, instead of a model")
    parser.add_argument("--budget", type=_bytes, metavar="BYTES", help="bytes, or a size such as 20GiB or 500MB")
    _add_device(parser)
    parser.add_argument("--write", metavar="FILE.json", help="also write the plan, for ck.apply(model, FILE)")
    parser.add_argument("--plot", metavar="FILE.svg", help="also draw the schedule, or the plans to choose from")
    parser.add_argument("--json", action="store_true", help="print the plan as JSON")

    def run(args: argparse.Namespace) -> int:
        from ckptlib.commands.plan import plan_command

        if args.device.startswith("phantom"):
            from ckptlib.cuda.phantom.launch import become, card_of, running

            if not running():  # every plan is run there, so the whole command is
                become(card_of(args.device), ["-m", "ckptlib.cli", *args.argv])
        text, code = plan_command(args)
        print(text)
        return code

    return run


def phantom(parser: argparse.ArgumentParser) -> CommandFunction:
    """Run a program on a GPU that is not there: PyTorch's own CUDA code on a stand-in for CUDA.

    Everything that torch allocates is counted as on the card, and the memory ends where the card's would. Kernels do
    not run, so every value that is read from the device is zero. It needs Linux, a C compiler and torch's CUDA build.
    """
    parser.add_argument("--gpu", default="a100", help="a100 (default), h100, b200, rtx4090, rtx3090, t4, v100, ...")
    rest = argparse.REMAINDER
    parser.add_argument("-m", metavar="MODULE", dest="module", nargs=rest, help="run a module, with its arguments")
    parser.add_argument("program", metavar="PROGRAM", nargs=rest, help="a script, with its arguments")

    def run(args: argparse.Namespace) -> int:
        from ckptlib.cuda.phantom.launch import become, card_of

        if not (program := ["-m", *args.module] if args.module else args.program):
            raise CkptError("no program was given: expected a script, as in `ckptlib phantom --gpu h100 train.py`")
        if not args.module and not os.path.exists(program[0]):
            raise CkptError(f"there is no script {program[0]!r} in {os.getcwd()}")
        become(card_of(args.gpu), program)

    return run


DEVICES = "cpu, sim:cuda (default), phantom:a100 or another card, or an accelerator of this machine such as cuda"


def _add_device(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--device", default="sim:cuda", help=DEVICES)
    parser.add_argument("--gpu", help="which GPU sim:cuda simulates (default: a100)")
    parser.add_argument("--torch", metavar="RELEASE", help="simulate that GPU under another torch, such as 2.9")
    parser.add_argument("--fake", action="store_true", help="use fake tensors: allocate nothing")


def _bytes(text: str) -> int:
    try:
        return parse_bytes(text)
    except CkptError as error:
        raise argparse.ArgumentTypeError(str(error)) from None  # argparse shows this message, and no other error's


def fit(parser: argparse.ArgumentParser) -> CommandFunction:
    """Report the largest batch that fits on a GPU, with nothing, attention or whole blocks recomputed.

    MODEL is a name, or package.module:function: a function of yours with a parameter called batch that returns
    (model, inputs) or (model, inputs, loss), as for measure. AdamW is added, unless an optimizer is returned as well.
    Nothing is allocated.

    Exit code: 0 = a batch fits with at least one of the strategies; 1 = nothing fits.
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
        from ckptlib.commands.fit import fit_model

        text, code = fit_model(args)
        print(text)
        return code

    return run


# Every command, in the order of the help. The function's name, with hyphens, is what the user types.
COMMANDS: tuple[Command, ...] = (doctor, measure, explain, plan, fit, phantom, *grading.COMMANDS)


def build_parser() -> argparse.ArgumentParser:
    return grading.build_parser(COMMANDS, "ckptlib", "What a model remembers, and what it can recompute.")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command, of these or of grading's, which has a command line of its own."""
    argv = sys.argv[1:] if argv is None else argv
    parser = build_parser()
    parser.set_defaults(argv=argv)
    return grading.main(argv, parser)


if __name__ == "__main__":
    sys.exit(main())
