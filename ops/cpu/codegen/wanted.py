"""Kernels that are wanted and not yet loaded: all of them are loaded before the first one runs.

An algorithm announces its kernels when it is made (`want`), and a team loads all of them before it
runs a kernel (`load`). The processes of a run start together and want nearly the same kernels. So
each compiles kernels that no other process is compiling, and loads the others: two processes on two
cores need about half of the time that one needs.

Progress is a line of the log `ops.kernels`, whose `preparing` holds `done`, `total` and `what`. If
no kernel has to be compiled there is no line.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import Protocol

from ops.cpu.codegen.store import seen

WHAT = "compiling kernels"
TOLD_SECONDS = 1.0  # between two lines
_log = logging.getLogger("ops.kernels")


class Loadable(Protocol):
    """Machine code that is compiled, or loaded from disk."""

    @property
    def kept_as(self) -> str:
        """The kernel's name in the store."""

    def load(self, wait: bool) -> bool:
        """Bring the machine code into memory. Without `wait`, returns False if another process
        compiles or loads it at this moment."""


wanted: list[Loadable] = []  # never empty while one of them is not in memory
_one = threading.RLock()  # threads of several actors may come at once
_counts = {"done": 0, "total": 0}  # of this process: wanted kernels that were not in the store


def want(kernel: Loadable) -> None:
    """Note that this kernel will run."""
    with _one:
        if kernel not in wanted:
            wanted.append(kernel)


def load() -> None:
    """Compile or load all wanted kernels. An error of one kernel is raised; the others stay
    wanted."""
    with _one:
        new = {kernel.kept_as for kernel in wanted if not seen(kernel.kept_as)}
        _counts["total"] += len(new)
        told = 0.0
        while wanted:
            # whether other processes are compiling or loading all kernels that are left
            late = True
            for kernel in list(wanted):
                if len(new) and time.monotonic() - told > TOLD_SECONDS:
                    told = time.monotonic()
                    _tell()
                if not kernel.load(wait=late and kernel is wanted[-1]):
                    continue
                late = False
                wanted.remove(kernel)
                _counts["done"] += kernel.kept_as in new
        if new:
            _tell()


def _tell() -> None:
    fields = {"done": _counts["done"], "total": _counts["total"], "what": WHAT}
    _log.info("%s: %d of %d", WHAT, fields["done"], fields["total"], extra={"preparing": fields})
