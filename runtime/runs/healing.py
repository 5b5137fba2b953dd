"""Healing after a death: the model of a living process is kept in the memory of `up`, and the next
run begins with it.

    a process died -> the lead names the holders -> those that live report how far they are
                   -> the furthest keeps its state
                   -> another died meanwhile: the same again without it
                   -> no holder of the whole state is left: the next run begins with the newest
                      checkpoint

Nothing is written to or read from a disk. No iteration that any holder finished is done again.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from runtime.cluster.supervising.supervisor import TICK_SECONDS, Supervisor
from runtime.errors import ConvoyError, RoleDied, Unsendable
from runtime.messages.message import GetHolders, GetReached, Holders, KeepState, KeptState, Reached
from runtime.plan.topology import Placement
from runtime.transport import host_identity

ANSWER_SECONDS = 3.0  # for a living process; longer silence counts as a death
STATE_SECONDS = 30.0  # for a state to be copied; 1 GB takes 3 s


@dataclass(frozen=True)
class Memory:
    """A state that `holder` had, at the iteration that `at` describes in words. It is open as the
    descriptor `file` until it is closed. `since`: loop time of the death."""

    holder: str
    at: str
    file: int
    since: float

    @property
    def path(self) -> Path:
        """The path where processes of this user on this host find it."""
        return Path(f"/proc/{os.getpid()}/fd/{self.file}")

    def close(self) -> None:
        """Close the state, which is no longer needed. Call it only once."""
        os.close(self.file)


def furthest(reached: Mapping[str, int]) -> str:
    """Return the holder that has done most steps, the first of several."""
    return max(reached, key=lambda name: reached[name])


def died_with(error: ConvoyError, placement: Placement) -> set[str]:
    """Return the process that an error is about, itself or through its actor. Empty if there is
    none."""
    processes = {spec.name for spec in placement.processes}
    return processes & {error.by, placement.process_of().get(error.by, "")}


class Healing:
    """The healing of one run, before its processes are ended. Afterwards `memory` is the state with
    which the next run may begin, or None, and `why` gives the reason."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self.memory: Memory | None = None
        self.why = ""
        supervisor.before_stopping = self.after

    def __repr__(self) -> str:
        return f"<healing: {self.memory or self.why or 'nobody died'}>"

    async def after(self, error: ConvoyError | None) -> None:
        """Try to keep the state of a living process after the run has ended with `error`. The
        living processes are still there. Ends within a bounded time."""
        if not isinstance(error, RoleDied) or not self._supervisor.began.is_set():
            return
        since = self._supervisor.now()
        lost = died_with(error, self._supervisor.placement) | self._gone()
        while self.memory is None:
            attempt = asyncio.create_task(self._kept(lost, since), name="healing")
            try:
                others = await self._without_another_death(attempt, lost)
            finally:
                attempt.cancel()
                await asyncio.gather(attempt, return_exceptions=True)
            if not others:
                return
            lost |= others

    async def _without_another_death(
        self, attempt: asyncio.Task[None], lost: Collection[str]
    ) -> set[str]:
        """Wait for an attempt. Return the processes that died before it was done."""
        while not attempt.done():
            await asyncio.wait([attempt], timeout=TICK_SECONDS)
            if not attempt.done() and (others := self._gone() - {*lost}):
                return others
        return set()

    async def _kept(self, lost: Collection[str], since: float) -> None:
        try:
            holder, kept = await self._asked(lost)
            if kept is not None:
                file = await asyncio.to_thread(os.open, kept.file, os.O_RDONLY | os.O_CLOEXEC)
                self.memory = Memory(holder, kept.at, file, since)
        except (ConvoyError, OSError) as error:
            self.why = str(error)

    async def _asked(self, lost: Collection[str]) -> tuple[str, KeptState | None]:
        placement = self._supervisor.placement
        lead = placement.topology.lead
        process_of = placement.process_of()
        ask = self._supervisor.ask
        elsewhere = {hello.host for hello in self._supervisor.roll.greetings.values()} - {
            host_identity.identity()
        }
        if elsewhere or process_of[lead] in lost:
            self.why = (
                ("other hosts cannot read this host's memory") if elsewhere else f"{lead} has died"
            )
            return "", None
        try:
            holders = await ask(lead, GetHolders(), Holders, timeout=ANSWER_SECONDS)
        except Unsendable:  # a program without healing
            self.why = f"{lead} does not report which actors hold the whole state"
            return "", None
        living = [name for name in holders.actors if process_of[name] not in lost]
        answers = await asyncio.gather(*map(self._reached, living))
        reached = {
            name: steps for name, steps in zip(living, answers, strict=True) if steps is not None
        }
        if not reached:
            self.why = holders.why or f"none of {', '.join(holders.actors)} is left"
            return "", None
        holder = furthest(reached)
        return holder, await ask(
            holder, KeepState(facts=holders.facts), KeptState, timeout=STATE_SECONDS
        )

    async def _reached(self, name: str) -> int | None:
        """Return the steps that a holder has done. None: it does not answer."""
        try:
            return (
                await self._supervisor.ask(name, GetReached(), Reached, timeout=ANSWER_SECONDS)
            ).steps
        except ConvoyError:
            return None

    def _gone(self) -> set[str]:
        stages, _ = self._supervisor.known()
        return {name for name, facts in stages.items() if facts["stage"] == "gone"}
