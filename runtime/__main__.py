"""`python -m runtime`: see `cli`."""

import sys
from contextlib import ExitStack

from runtime.cli.interrupts import Interrupted, Interrupts


def _command() -> int:
    interrupts = Interrupts()
    interrupts.hear()
    try:
        with ExitStack() as ends:
            if sys.argv[1:2] == ["up"]:  # before the imports that it takes to read the command line, 0.2 s
                from runtime.cluster import birth

                ends.callback(birth.end)
                birth.begin()
            from runtime.cli.main import main

            status = main()
    except Interrupted:
        status = 0
    interrupts.over()
    return 128 + interrupts.number if interrupts.number else status


if __name__ == "__main__":
    sys.exit(_command())
