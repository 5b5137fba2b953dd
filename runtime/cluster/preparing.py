"""The preparation of a process before it can begin, such as the compilation of kernels. It is
reported as events while it goes on. Preparation that holds the interpreter's lock, so that the
event loop stops, is announced before it starts.

A library reports its progress in a log record, with `extra={"preparing": {"done": 3, "total": 12,
"what": "compiling kernels"}}`. It needs no knowledge of runs. The agent turns the record into an
event `preparing`.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Sequence
from typing import Any

from runtime.errors import LaunchError

# the attribute of a record by which a library announces that it will hold the lock: `ops.holding`
HOLDS_LOCK = "holds_lock"
# the event of an agent; its fields are `process`, `what`, `done` and `total`
PREPARING = "preparing"


class LoggedPreparation(logging.Handler):
    """Calls `tell` with each report of preparation, in the thread that logs it. `tell` must be
    thread-safe."""

    def __init__(self, tell: Callable[[dict[str, Any]], None]) -> None:
        super().__init__(logging.INFO)
        self._tell = tell
        self.addFilter(lambda record: hasattr(record, PREPARING))

    def emit(self, record: logging.LogRecord) -> None:
        """Hand on the report in a record. logging holds the handler's lock meanwhile."""
        said = getattr(record, PREPARING)
        self._tell({name: said[name] for name in ("what", "done", "total")})


class LoggedHold(logging.Handler):
    """Calls `tell` when a library announces that it will hold the interpreter's lock, in the thread
    of the library. The library goes on when `tell` returns."""

    def __init__(self, tell: Callable[[], None]) -> None:
        super().__init__(logging.INFO)
        self._tell = tell
        self.addFilter(lambda record: hasattr(record, HOLDS_LOCK))

    def emit(self, record: logging.LogRecord) -> None:
        """Hand on the announcement. logging holds the handler's lock meanwhile."""
        self._tell()


def failed_preparation(process: str, actors: Sequence[str], error: Exception) -> Exception:
    """Return the error of a failed preparation. Memory or files that are missing on this machine
    make it a LaunchError, which names the machine."""
    place = f"process {process} ({', '.join(actors)}) on {socket.gethostname()}"
    if isinstance(error, MemoryError):
        return LaunchError(f"{place} does not get the memory that it needs to start: {error}")
    return LaunchError(f"{place}: {error}") if isinstance(error, LaunchError) else error
