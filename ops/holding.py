"""A notice that a call is about to hold the interpreter's lock for seconds.

NVIDIA's frontend of cuDNN makes its plans with the lock held, and libraries are loaded with it
held. No other thread of the process runs in that time, not even its event loop. The notice is a log
record with the attribute `holds_lock`. A log handler that watches the process receives it before
the call is made, and needs to know nothing of libraries.
"""

from __future__ import annotations

import logging

HOLDS_LOCK = "holds_lock"  # the attribute of such a record
_log = logging.getLogger("ops.holding")


def holds_lock(what: str) -> None:
    """Announce a call, from the thread that is about to make it. Returns when all log handlers have
    received the notice."""
    _log.info("%s: other threads may stand still meanwhile", what, extra={HOLDS_LOCK: True})
