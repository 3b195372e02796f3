"""Are the sample answers judged as they deserve whatever numbers a course's secret draws? Some minutes a round.

python tests/grading/many_secrets.py 20                  every assignment, twenty secrets; the tests try one
python tests/grading/many_secrets.py 20 07_planning      after a change of its tasks.py or key.py
"""

from __future__ import annotations

import argparse
import sys

from test_answers import ALL, ASSIGNMENTS, SEEDS, complaint, judged
from tqdm import tqdm


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("secrets", type=int)
    parser.add_argument("assignments", nargs="*")
    parser.add_argument("--first", type=int, default=0, help="the first secret's number")
    options = parser.parse_args()
    if unknown := set(options.assignments) - set(ASSIGNMENTS):
        parser.error(f"there is no {', '.join(unknown)}: the assignments are {', '.join(ASSIGNMENTS)}")
    asked = [answer for answer in ALL if answer.assignment in (options.assignments or ASSIGNMENTS)]
    found = 0
    for secret in tqdm(range(options.first, options.first + options.secrets), unit="secret"):
        seeds = tuple(1000 + 10 * secret + i for i in range(len(SEEDS)))
        for answer in tqdm(asked, unit="answer", leave=False):
            if text := complaint(answer, judged(answer, seeds)):
                found += 1
                tqdm.write(f"secret {secret}: {answer} {text}")
    print(f"{options.secrets} secrets, {len(asked)} answers: {found} misjudged")
    return found > 0


if __name__ == "__main__":
    sys.exit(main())
