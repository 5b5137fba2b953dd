"""`python -m runtime`: see `cli`."""

import sys

from runtime.cli.interrupts import Interrupted, Interrupts


def _command() -> int:
    interrupts = Interrupts()
    interrupts.hear()
    try:
        from runtime.cli.main import main

        status = main()
    except Interrupted:
        status = 0
    interrupts.over()
    return 128 + interrupts.number if interrupts.number else status


if __name__ == "__main__":
    sys.exit(_command())
