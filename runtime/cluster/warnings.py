"""The warnings that a process logs, told to the person as events: a line in a log is read by
nobody."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

WARNING = "warning"  # the event of an agent; its fields are `process` and `text`
MOST = 20  # different ones of a process; what comes after is in its log


class LoggedWarnings(logging.Handler):
    """Hands each different text to `tell` once, from whichever thread logs it. `tell` must be safe
    to call there.

    Errors are not repeated here: what failed is reported as a Failure, with its traceback in the
    log.
    """

    def __init__(self, tell: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._tell = tell
        self._told: set[str] = set()
        self.addFilter(lambda record: record.levelno == logging.WARNING)

    def emit(self, record: logging.LogRecord) -> None:
        """See logging.Handler; the handler's lock is held."""
        text = record.getMessage()
        if text in self._told or len(self._told) > MOST:
            return
        self._told.add(text)
        enough = f"more than {MOST} different warnings: the others are in its log"
        self._tell(text if len(self._told) <= MOST else enough)


class FirstOfEach:
    """Knows the warnings of a run: what one machine or one process lacks, the others often lack
    too, and say alike."""

    def __init__(self) -> None:
        self._texts: set[str] = set()

    def told(self, event: str, fields: Mapping[str, Any]) -> bool:
        """Is this a warning whose text another process has told before?"""
        if event != WARNING or (text := fields.get("text")) is None:
            return False
        known = text in self._texts
        self._texts.add(text)
        return known


@contextmanager
def kept_warnings() -> Iterator[list[str]]:
    """What is logged as a warning meanwhile, in this process, and is told nowhere else."""
    told: list[str] = []
    handler = LoggedWarnings(told.append)
    logging.getLogger().addHandler(handler)
    try:
        yield told
    finally:
        logging.getLogger().removeHandler(handler)
