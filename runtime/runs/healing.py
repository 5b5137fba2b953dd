"""After a death: the model of a process that lives is kept in the memory of `up`, and the next run
begins with it.

    a process died -> the lead names the holders -> those that live say how far they are
                   -> the furthest keeps its state
                   -> another died meanwhile: the same again without it
                   -> no holder of all is left: the next run begins with the newest checkpoint

Nothing is written and nothing read from a disk; no iteration that somebody finished is done again.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from runtime.cluster.supervisor import TICK_SECONDS, Supervisor
from runtime.errors import ConvoyError, RoleDied, Unsendable
from runtime.messages.message import GetHolders, GetReached, Holders, KeepState, KeptState, Reached
from runtime.plan.topology import Placement
from runtime.transport import host_identity

ANSWER_SECONDS = 3.0  # for a process that lives: longer silence is a death
STATE_SECONDS = 30.0  # for a state to be copied: 1 GB takes 3 s


@dataclass(frozen=True)
class Memory:
    """A state that `holder` had, `at` words say where; open as `file` here, as long as it is not
    closed. `since`: loop time of the death."""

    holder: str
    at: str
    file: int
    since: float

    @property
    def path(self) -> Path:
        """Where processes of this user on this host find it."""
        return Path(f"/proc/{os.getpid()}/fd/{self.file}")

    def close(self) -> None:
        """It is not needed any more. Once."""
        os.close(self.file)


def furthest(reached: Mapping[str, int]) -> str:
    """Of the holders that answered the one that has come furthest; of equals the first."""
    return max(reached, key=lambda name: reached[name])


def died_with(error: ConvoyError, placement: Placement) -> set[str]:
    """The process that an error is about, if it is about one: itself, or that of its actor."""
    processes = {spec.name for spec in placement.processes}
    return processes & {error.by, placement.process_of().get(error.by, "")}


class Healing:
    """Of one run, before its processes are ended: `memory` is then what the next may begin with, or
    None: `why` not."""

    def __init__(self, supervisor: Supervisor, placement: Placement) -> None:
        self._supervisor = supervisor
        self._placement = placement
        self._process_of = placement.process_of()
        self.memory: Memory | None = None
        self.why = ""
        supervisor.before_stopping = self.after

    def __repr__(self) -> str:
        return f"<healing: {self.memory or self.why or 'nobody died'}>"

    async def after(self, error: ConvoyError | None) -> None:
        """The run has ended so: whoever lives is still there. Ends within a bounded time."""
        if not isinstance(error, RoleDied) or not self._supervisor.began.is_set():
            return
        since = self._supervisor.now()
        lost = died_with(error, self._placement) | self._gone()
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
        """Wait for an attempt; those that died before it was done."""
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
        lead = self._placement.topology.lead
        ask = self._supervisor.ask
        elsewhere = {hello.host for hello in self._supervisor.roll.greetings.values()} - {
            host_identity.identity()
        }
        if elsewhere or self._process_of[lead] in lost:
            self.why = (
                ("other hosts cannot read this one's memory") if elsewhere else f"{lead} has died"
            )
            return "", None
        try:
            holders = await ask(lead, GetHolders(), Holders, timeout=ANSWER_SECONDS)
        except Unsendable:  # a program that does not take part
            self.why = f"{lead} does not say who has all of the run"
            return "", None
        living = [name for name in holders.actors if self._process_of[name] not in lost]
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
        """How far it is; None: it does not answer."""
        try:
            return (
                await self._supervisor.ask(name, GetReached(), Reached, timeout=ANSWER_SECONDS)
            ).steps
        except ConvoyError:
            return None

    def _gone(self) -> set[str]:
        stages, _ = self._supervisor.known()
        return {name for name, facts in stages.items() if facts["stage"] == "gone"}
