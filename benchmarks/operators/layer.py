"""A paced layer whose processes die at their start as long as a file is there: a run that cannot
begin."""

from __future__ import annotations

import os
import signal

from benchmarks.chaos.paced import Paced
from nets.layers import Setup
from nets.layers.base import Shape

HOLD = "hold"  # the file, which says the pid of the `up` that shall live


class Held(Paced):
    """x, some time later, where it may begin."""

    def _shape(self, shapes: list[Shape], setup: Setup) -> list[Shape]:
        found = super()._shape(shapes, setup)
        hold = self.slow.with_name(HOLD)
        if hold.is_file() and int(hold.read_text()) != os.getpid():
            os.kill(os.getpid(), signal.SIGKILL)
        return found
