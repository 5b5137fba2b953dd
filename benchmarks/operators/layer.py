"""A paced layer whose processes die at their start while a certain file exists, so that a run
cannot begin."""

from __future__ import annotations

import os
import signal

from benchmarks.chaos.paced import Paced
from nets.layers import Setup
from nets.layers.base import Shape

HOLD = "hold"  # the file; it has the pid of the `up`, which must live


class Held(Paced):
    """y = x after a pause. Kills its process at the start while the file HOLD exists."""

    def _shape(self, shapes: list[Shape], setup: Setup) -> list[Shape]:
        found = super()._shape(shapes, setup)
        hold = self.slow.with_name(HOLD)
        if hold.is_file() and int(hold.read_text()) != os.getpid():
            os.kill(os.getpid(), signal.SIGKILL)
        return found
