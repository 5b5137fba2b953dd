"""`python -m runtime`, and the command `convoy`: see `cli`."""

import gc
import sys

from runtime.cli.interrupts import Interrupts

# Objects between two looks for circles: `check` takes 0.61 s of a core, 0.69 with Python's 700.
OBJECTS = 100_000


def command() -> int:
    """Run the command line of this process; its exit status."""
    interrupts = Interrupts()
    interrupts.hear()
    try:
        # before the imports that it takes to read the command line, 0.2 s
        if sys.argv[1:2] in (["up"], ["join"]):
            from runtime.cluster import nursery_start

            status = nursery_start.bearing(_main, early=sys.argv[1] == "join")
        else:
            status = _main()
    except BaseException:
        # Interrupted, of which Python 3.11 makes a RuntimeError where a class is being made
        if not interrupts.number:
            raise
        status = 0
    interrupts.over()
    gc.freeze()  # or Python looks through all of it at its end
    return 128 + interrupts.number if interrupts.number else status


def _main() -> int:
    gc.set_threshold(OBJECTS)
    from runtime.cli.main import main

    return main()


if __name__ == "__main__":
    sys.exit(command())
