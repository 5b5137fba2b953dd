"""Virtual time: an event loop whose clock jumps to the next due event instead of waiting for it.

Actors take time only from their event loop. So on this loop a whole cluster runs in one process, as
fast as it computes, and every run repeats exactly. Nothing outside the loop can be awaited: work
for a thread is done at once.
"""

from __future__ import annotations

import asyncio
import math
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from runtime.errors import Deadlock

T = TypeVar("T")


class _JumpingSelector(selectors.SelectSelector):
    """Reports the descriptors that are ready now. Instead of waiting `timeout` seconds, it advances
    the clock by them."""

    def __init__(self) -> None:
        super().__init__()
        self.jump: Callable[[float], None] = lambda seconds: None
        self.stuck: Callable[[Deadlock], bool] = lambda error: False

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready and timeout is None:
            error = Deadlock("every actor waits and no event is due")
            if self.stuck(error):
                return []
            raise error
        if not ready and timeout:
            self.jump(timeout)
        return ready


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop that starts at time 0 and never waits. Raises Deadlock where a real loop would
    wait for ever.

    `on_deadlock(error)`, if set, is called first. It returns True if it has given the loop
    something to do.
    """

    def __init__(self) -> None:
        self._now = 0.0
        self.on_deadlock: Callable[[Deadlock], bool] = lambda error: False
        selector = _JumpingSelector()
        selector.jump = self._advance
        selector.stuck = lambda error: self.on_deadlock(error)
        super().__init__(selector)
        self._advance(0.0)

    def time(self) -> float:
        """Return the virtual seconds since the loop was made."""
        return self._now

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """Call the function at once, on this thread."""
        done = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:  # noqa: BLE001  # the caller that awaits it gets it
            done.set_exception(error)
        return done

    def _advance(self, seconds: float) -> None:
        self._now += seconds
        # The base class serves timers that are due before time() + resolution. Its resolution of
        # 1e-9 s vanishes by rounding beyond 194 days, and then it would never serve a timer.
        self._clock_resolution = math.ulp(self._now)


def run_virtual(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end on virtual time and return its result."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(main)
