"""The warnings that a process logs, sent to the user as events, since users seldom read logs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

WARNING = "warning"  # the event of an agent; its fields are `process` and `text`
MOST = 20  # different warnings of a process; later ones are in its log only


class LoggedWarnings(logging.Handler):
    """Calls `tell` once with each different text, in the thread that logs it. `tell` must be
    thread-safe.

    Errors are not repeated here: a failure is reported as a Failure message, with its traceback in
    the log.
    """

    def __init__(self, tell: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._tell = tell
        self._told: set[str] = set()
        self.addFilter(lambda record: record.levelno == logging.WARNING)

    def emit(self, record: logging.LogRecord) -> None:
        """Hand on the text of a record. logging holds the handler's lock meanwhile."""
        text = record.getMessage()
        if text in self._told or len(self._told) > MOST:
            return
        self._told.add(text)
        enough = f"more than {MOST} different warnings: the others are in its log"
        self._tell(text if len(self._told) <= MOST else enough)


class FirstOfEach:
    """Remembers the warnings of a run. If one machine or process lacks something, others often lack
    it too and log the same text."""

    def __init__(self) -> None:
        self._texts: set[str] = set()

    def told(self, event: str, fields: Mapping[str, Any]) -> bool:
        """Return whether this is a warning whose text another process has already reported."""
        if event != WARNING or (text := fields.get("text")) is None:
            return False
        known = text in self._texts
        self._texts.add(text)
        return known


@contextmanager
def kept_warnings() -> Iterator[list[str]]:
    """Collect the warnings that this process logs meanwhile, as a list. They are not shown anywhere
    else."""
    told: list[str] = []
    handler = LoggedWarnings(told.append)
    logging.getLogger().addHandler(handler)
    try:
        yield told
    finally:
        logging.getLogger().removeHandler(handler)
