"""What does Gradescope need to grade an assignment? One zip: how to install the grader, how to run it, what to ask.

Gradescope unpacks it in /autograder/source and runs setup.sh once, when it builds an image. For each submission it
copies the student's files to /autograder/submission, runs run_autograder and reads /autograder/results/results.json.
"""

from __future__ import annotations

import json
import secrets

from ..assignment.assignment import Assignment
from .ckptlib_wheel import constraints, own_wheel, zipped
from .make_release import examined

SETTINGS = "settings.json"
FILES = "assignment"  # the folder of the zip that holds the assignment's source

# AUTOGRADER_ROOT and PYTHON are for a trial on another machine.
_SETUP = """#!/usr/bin/env bash
# Installs the grader into an environment of its own. Gradescope runs this as root when it builds the image.
set -euo pipefail
root=${AUTOGRADER_ROOT:-/autograder}
source=$root/source
if [ -z "${PYTHON:-}" ]; then
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -q
    for version in 3.13 3.12 3.11; do
        if apt-get install -q -y --no-install-recommends "python$version" "python$version-venv"; then
            PYTHON=python$version
            break
        fi
    done
    # The sandbox. Where the container forbids namespaces, grading goes on without it, and says so.
    apt-get install -q -y --no-install-recommends bubblewrap
fi
if [ -z "${PYTHON:-}" ]; then
    echo "This image has no Python 3.11 or newer: choose Ubuntu 22.04 or newer as the base image." >&2
    exit 1
fi
[ -x "$root/venv/bin/python" ] || "$PYTHON" -m venv "$root/venv"
# torch from PyPI brings several GB for GPUs, which this container does not have.
export PIP_EXTRA_INDEX_URL=${PIP_EXTRA_INDEX_URL-https://download.pytorch.org/whl/cpu}
"$root/venv/bin/python" -m pip install -q --no-cache-dir -c "$source/constraints.txt" "$source/WHEEL[grading]"
chmod 700 "$source"
"""

_RUN = """#!/usr/bin/env bash
# Grades one submission. What it prints is for the instructor.
root=${AUTOGRADER_ROOT:-/autograder}
exec "$root/venv/bin/python" -m ckptlib.grading.commands.gradescope "$root"
"""


def autograder(assignment: Assignment, visibility: str) -> bytes:
    """The zip. An assignment that could not be graded is refused here, before Gradescope has it."""
    examined(assignment)
    wheel, raw = own_wheel()
    settings = {"assignment": assignment.name, "visibility": visibility, "secret": secrets.token_hex(32)}
    files = {
        "setup.sh": _SETUP.replace("WHEEL", wheel).encode(),
        "run_autograder": _RUN.encode(),
        "constraints.txt": constraints().encode(),
        SETTINGS: json.dumps(settings, indent=2).encode(),
        wheel: raw,
    }
    files |= {f"{FILES}/{name}": content for name, content in assignment.files.items()}
    return zipped(files, programs=("setup.sh", "run_autograder"))
