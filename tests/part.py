"""`python -m tests.part SECONDS`: the part of the slow tests that `.ci/run` has time for, as an option
of pytest.

SECONDS are those since `.ci/run` began: its preparation and the tests that are not slow. A machine
that needed more of them than usual would need hours for the slow tests too, so it runs one part of
two or more, which the commit chooses: other commits run the other parts.
"""

from __future__ import annotations

import math
import subprocess
import sys

LIMIT = 40 * 60  # seconds of the whole of .ci/run
LEAST = 10 * 60  # seconds for slow tests on the slowest machine
SLOW = 2.9  # times the seconds of everything before (1.8 and 2.9 measured, 2026-11-29)


def part(seconds: float, commit: str) -> tuple[int, int]:
    """The number of the part, from 0, and how many there are, for the hexadecimal name of a
    commit."""
    count = max(1, math.ceil(SLOW * seconds / max(LEAST, LIMIT - seconds)))
    return int(commit or "0", 16) % count, count


def main(seconds: str) -> None:
    """Print the option; nothing if there is time for all slow tests."""
    command = ["git", "rev-parse", "--short=12", "HEAD"]
    commit = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    number, count = part(float(seconds), commit)
    if count > 1:
        print(f"--part={number}/{count}")
        told = f"this machine has time for part {number} of {count} of the slow tests"
        print(f"{told}; all of them: python -m pytest -m slow", file=sys.stderr)


if __name__ == "__main__":
    main(*sys.argv[1:])
