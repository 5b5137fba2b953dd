"""The event loop of every process here."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic


def event_loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """uvloop where it exists, asyncio's own loop elsewhere."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop

    class Loop(uvloop.Loop):
        """Its own clock is read once a turn and comes in whole milliseconds; phases of an iteration
        are shorter. This is the clock of asyncio's own loop without the call of a method: messages
        are timed by it."""

        time = staticmethod(monotonic)

    return Loop
