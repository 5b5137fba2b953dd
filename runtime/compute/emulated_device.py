"""Emulated devices: an actor's array work takes time on the event loop's clock, but almost no
computing.

The emulated actors of one process share one device, as real actors share the compute thread of
their process. It does their pieces of work one after the other. The work itself runs on the event
loop and must cost little: it belongs to an emulated net, which computes nothing.
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
# seconds that timers of a real loop may be late; longer delays are the machine's fault, and stay
# visible
TIMERS = 0.002
_HERE: ContextVar[EmulatedDevice | None] = ContextVar("device", default=None)


class Turns:
    """The order in which the emulated actors of one process use its device. `late`: the seconds by
    which earlier pieces of work took too long."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.late = 0.0


class EmulatedDevice(InlineCompute):
    """The device of a process as one of its actors uses it. `rows` is the number of rows that the
    actor's work processes, as set by `is_about`; 0 if it is not known. Actors with the same `turns`
    wait for one another."""

    def __init__(self, role: str, times: ServiceTimes, turns: Turns) -> None:
        super().__init__(lambda actor, label: times.seconds(actor, role, label, self._about()))
        self.rows = self._piece = 0
        self._turns = turns
        self._turn = turns.lock

    async def run(self, actor: str, label: str, work: Callable[..., T], *args: Any) -> T:
        token = _HERE.set(self)
        try:
            return await super().run(actor, label, work, *args)
        finally:
            _HERE.reset(token)

    async def _pass(self, seconds: float) -> None:
        """Let `seconds` pass. Timers of a real loop are late: the next piece of work is shorter by
        that delay."""
        loop = asyncio.get_running_loop()
        turns = self._turns
        began = loop.time()
        wanted = max(0.0, seconds - turns.late)
        turns.late -= seconds - wanted
        await asyncio.sleep(wanted)
        turns.late = min(TIMERS, turns.late + loop.time() - began - wanted)

    def is_about(self, rows: int) -> None:
        """Set the number of rows that work processes from now on."""
        self.rows = rows

    def piece_is_about(self, rows: int) -> None:
        """Set the number of rows that the running piece of work processes, whatever `is_about` has
        set."""
        self._piece = rows

    def _about(self) -> int:
        """Return the rows of the piece of work that has just been done."""
        rows = self._piece or self.rows
        self._piece = 0
        return rows


def device_here() -> EmulatedDevice | None:
    """Return the emulated device whose work is running now, None in any other work."""
    return _HERE.get()


def device_of(role: str, emulated: Mapping[str, Any] | None, turns: Turns) -> EmulatedDevice | None:
    """Make the emulated device of an actor from `ActorSpec.emulated`. The actors of one process
    have the same `turns`. Returns None if the actor has no emulated device. Raises ConfigError if
    its profile cannot be read."""
    if emulated is None:
        return None
    profile = emulated["profile"]
    seed = emulated["seed"]
    table = _table(profile) if profile else {"*/*": 0}
    return EmulatedDevice(role, ServiceTimes(table, seed, profile or "service times"), turns)


@cache
def _table(profile: str) -> dict[str, Any]:
    return read_table(Path(profile))
