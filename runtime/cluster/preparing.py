"""What a process prepares before it can begin, such as kernels that are compiled: told as events
while it goes on. And what it prepares with the interpreter's lock held, which no event loop
survives: told before it begins.

A library that takes its time logs how far it is, with `extra={"preparing": {"done": 3, "total": 12,
"what": "compiling kernels"}}`; it needs to know nothing of runs. The agent makes an event
`preparing` of it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

# what a record of a library has that is about to hold the lock: `ops.holding`
HOLDS_LOCK = "holds_lock"
# the event of an agent; its fields are `process`, `what`, `done` and `total`
PREPARING = "preparing"


class LoggedPreparation(logging.Handler):
    """Hands on what is said of preparation, from whichever thread logs it. `tell` must be safe to
    call there."""

    def __init__(self, tell: Callable[[dict[str, Any]], None]) -> None:
        super().__init__(logging.INFO)
        self._tell = tell
        self.addFilter(lambda record: hasattr(record, PREPARING))

    def emit(self, record: logging.LogRecord) -> None:
        """See logging.Handler; the handler's lock is held."""
        said = getattr(record, PREPARING)
        self._tell({name: said[name] for name in ("what", "done", "total")})


class LoggedHold(logging.Handler):
    """Calls `tell` when a library says that it is about to hold the interpreter's lock, in the
    thread that says so: the library goes on when it returns."""

    def __init__(self, tell: Callable[[], None]) -> None:
        super().__init__(logging.INFO)
        self._tell = tell
        self.addFilter(lambda record: hasattr(record, HOLDS_LOCK))

    def emit(self, record: logging.LogRecord) -> None:
        """See logging.Handler; the handler's lock is held."""
        self._tell()
