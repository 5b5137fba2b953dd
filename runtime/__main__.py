"""The command `convoy`, also `python -m runtime`; see `cli`."""

import gc
import sys

from runtime import standard_streams
from runtime.cli.interrupts import Interrupts

# new objects between two garbage collections; `check` takes 0.61 s of a core, 0.69 with Python's
# 700
OBJECTS = 100_000


def command() -> int:
    """Run the command line of this process. Return its exit status."""
    standard_streams.open_missing()
    standard_streams.show_any_text()
    interrupts = Interrupts()
    interrupts.hear()
    try:
        # before the imports that are needed to read the command line, which take 0.2 s
        if sys.argv[1:2] in (["up"], ["join"]):
            from runtime.cluster import nursery_start

            status = nursery_start.bearing(_main, early=sys.argv[1] == "join")
        else:
            status = _main()
    except BaseException:
        # an interrupt; while a class is being made, Python 3.11 turns it into a RuntimeError
        if not interrupts.number:
            raise
        status = 0
    interrupts.over()
    gc.freeze()  # else Python searches all objects for garbage at its end
    return 128 + interrupts.number if interrupts.number else status


def _main() -> int:
    gc.set_threshold(OBJECTS)
    from runtime.cli.main import main

    return main()


if __name__ == "__main__":
    sys.exit(command())
