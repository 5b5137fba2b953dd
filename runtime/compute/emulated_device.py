"""Emulated devices: an actor's array work takes its time on the event loop's clock, and next to
nothing else.

Each emulated actor has a device of its own, so that many in one process do not wait for one
another; work on one device is done one piece after the other. The work itself runs on the event
loop and must cost little: it is an emulated net's, which computes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from runtime.compute.compute import InlineCompute
from runtime.compute.service_times import ServiceTimes, read_table

T = TypeVar("T")
# seconds: what timers of a real loop may be late; what is later is the machine's fault, and shows
TIMERS = 0.002
_HERE: ContextVar[EmulatedDevice | None] = ContextVar("device", default=None)


class EmulatedDevice(InlineCompute):
    """The device of one actor. `rows`: how many its work is about, if somebody says so
    (`is_about`); 0: not known."""

    def __init__(self, role: str, times: ServiceTimes) -> None:
        super().__init__(lambda actor, label: times.seconds(actor, role, label, self._about()))
        self.rows = self._piece = 0
        self._late = 0.0  # seconds that earlier pieces have taken too long

    async def run(self, actor: str, label: str, work: Callable[..., T], *args: Any) -> T:
        """See Compute.run."""
        token = _HERE.set(self)
        try:
            return await super().run(actor, label, work, *args)
        finally:
            _HERE.reset(token)

    async def _pass(self, seconds: float) -> None:
        """A real loop's timers ring late: by so much the next piece of work is shorter."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        wanted = max(0.0, seconds - self._late)
        self._late -= seconds - wanted
        await asyncio.sleep(wanted)
        self._late = min(TIMERS, self._late + loop.time() - began - wanted)

    def is_about(self, rows: int) -> None:
        """What is done from now on is about so many rows."""
        self.rows = rows

    def piece_is_about(self, rows: int) -> None:
        """The work that is running now is about so many rows, whatever the rest is about."""
        self._piece = rows

    def _about(self) -> int:
        """Rows of the piece of work that has just been done."""
        rows = self._piece or self.rows
        self._piece = 0
        return rows


def device_here() -> EmulatedDevice | None:
    """The emulated device whose work is running now; None in any other work."""
    return _HERE.get()


def device_of(role: str, emulated: Mapping[str, Any] | None) -> EmulatedDevice | None:
    """The emulated device of an actor to be, if it has one (`ActorSpec.emulated`). ConfigError if
    its profile cannot be read."""
    if emulated is None:
        return None
    profile = emulated["profile"]
    seed = emulated["seed"]
    table = _table(profile) if profile else {"*/*": 0}
    return EmulatedDevice(role, ServiceTimes(table, seed, profile or "service times"))


@cache
def _table(profile: str) -> dict[str, Any]:
    return read_table(Path(profile))
