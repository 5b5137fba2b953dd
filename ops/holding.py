"""Telling that a call is about to hold the interpreter's lock for seconds.

NVIDIA's frontend of cuDNN plans with the lock held, and libraries are loaded with it: nothing else
of the process runs meanwhile, its event loop neither. It is told as a log record with `holds_lock`:
whoever watches the process hears it before the call is made, and knows nothing of libraries.
"""

from __future__ import annotations

import logging

HOLDS_LOCK = "holds_lock"  # what such a record has
_log = logging.getLogger("ops.holding")


def holds_lock(what: str) -> None:
    """Say so, from the thread that is about to make the call; returns when it is heard."""
    _log.info("%s: other threads may stand still meanwhile", what, extra={HOLDS_LOCK: True})
