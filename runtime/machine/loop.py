"""The event loop that every process of a run uses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic


def event_loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """Return uvloop's loop if uvloop is installed, or else asyncio's loop."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop

    class Loop(uvloop.Loop):
        """uvloop with another clock. uvloop's clock is read once in each turn of the loop and
        counts whole milliseconds, but some phases of an iteration are shorter. This clock is that
        of asyncio's own loop, without a method call, since it times each message."""

        time = staticmethod(monotonic)

    return Loop
