"""The two sides of `benchmarks.hosts`, up at once on the same machines: a run of ours, and
PyTorch's DDP.

They take turns: while one side trains, the other is held or waits for orders, and does nothing.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from statistics import mean
from types import TracebackType
from typing import Any, NamedTuple, Protocol, Self

from benchmarks.helpers.machines import Machine
from benchmarks.messages.pair import End, Lost
from roles.messages import Held, Hold, Release, Released
from runtime import Event
from runtime.runs.checking import check
from runtime.runs.run import Run

# for an answer: eight processes import PyTorch on a few cores, and share their first parameters
SECONDS = 240.0
PORT = "29500"  # of DDP's first process; the namespace is its own
PEER = "benchmarks.hosts.peer"


class Learnt(NamedTuple):
    """Seconds and iterations until a loss was reached, or until the time was over, and the loss at
    that moment. `early`: the seconds until a higher loss was reached, infinite if it was not."""

    seconds: float
    iterations: int
    loss: float
    early: float = math.inf


class Side(Protocol):
    """One of the two sides."""

    async def turn(self, iterations: int) -> float:
        """The mean seconds of an iteration over so many, after one that does not count."""


class Ours:
    """A run of a cluster.toml. If `held`, it trains only in its turns."""

    def __init__(self, cluster: Path, *, held: bool = True) -> None:
        checked = check(cluster, [f'run.directory="{cluster.parent / "runs"}"'])
        self._run = Run(checked.placement, checked.loaded.config, options=checked.loaded.options)
        self._held = held
        self._began = 0.0
        self._events: AsyncIterator[Event]

    def __repr__(self) -> str:
        return f"<ours: {self._run!r}>"

    async def __aenter__(self) -> Self:
        await self._run.start()
        self._events = self._run.events()
        if self._held:
            await self._run.ask("coordinator", Hold(), Held)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._run.end_now()

    async def turn(self, iterations: int) -> float:
        """The mean seconds of an iteration over so many, after one that does not count."""
        await self._run.ask("coordinator", Release(), Released)
        await self._next("released")  # earlier events belong to the turn before
        first = await self._next("progress")
        for _ in range(iterations):
            last = await self._next("progress")
        await self._run.ask("coordinator", Hold(), Held)
        return (last.time - first.time) / iterations

    async def settled(self, skipped: int, iterations: int) -> float:
        """The mean seconds of so many iterations, after `skipped` ones of a run that is not
        held."""
        for _ in range(skipped):
            first = await self._next("progress")
        for _ in range(iterations):
            last = await self._next("progress")
        return (last.time - first.time) / iterations

    async def begun(self) -> None:
        """Wait until all actors have begun. The seconds of `learn` count from here."""
        self._began = (await self._next("began")).time

    async def learn(
        self, target: float, window: int, seconds: float, early: float = -math.inf
    ) -> tuple[Learnt, list[Event]]:
        """Train until the mean loss of the last `window` iterations is at most `target`, until the
        run ends, or for so many seconds. `early` is a higher loss on the way. Also returns the
        tuner's events until then."""
        losses = deque[float](maxlen=window)
        done = 0
        taken = 0.0
        first = math.inf
        told: list[Event] = []
        try:
            async with asyncio.timeout(seconds):
                while len(losses) < window or mean(losses) > target:
                    event = await self._next("progress", "tuning", "probe", "finished")
                    taken = event.time - self._began
                    if event.name == "finished":
                        break
                    if event.name == "progress":
                        losses.append(event["loss"])
                        done += 1
                        if len(losses) == window and mean(losses) <= early:
                            first = min(first, taken)
                    else:
                        told.append(event)
        except TimeoutError:
            taken = seconds
        return Learnt(taken, done, mean(losses) if losses else math.inf, first), told

    async def _next(self, *names: str) -> Event:
        """The next event with one of these names. Raises ConvoyError or Lost if the run ends
        first."""
        async for event in self._events:
            if event.name in names:
                return event
        raise Lost(f"the run ended, expected an event {' or '.join(names)}")


class Ddp:
    """A process of PyTorch's DDP on each machine; `options` are for `peer`. `befores`: the words in
    front of each process's command; without them it enters its namespace."""

    def __init__(
        self,
        made: Sequence[Machine],
        kind: str,
        options: dict[str, Any],
        befores: Sequence[tuple[str, ...]] | None = None,
    ) -> None:
        place = {"WORLD_SIZE": str(len(made)), "MASTER_ADDR": made[0].address, "MASTER_PORT": PORT}
        # gloo warns that addresses have no names
        place |= {"GLOO_SOCKET_IFNAME": "eth0", "TORCH_CPP_LOG_LEVEL": "ERROR"}
        self._befores = befores or [at.before for at in made]
        self._kind = kind
        self._options = options
        self._place = place
        self._ends: list[End] = []

    def __repr__(self) -> str:
        return f"<DDP, {self._kind}: {len(self._ends)} processes>"

    async def __aenter__(self) -> Self:
        try:
            for rank, before in enumerate(self._befores):
                place = {**self._place, "RANK": str(rank)}
                self._ends.append(End(self._kind, str(rank), self._options, before, PEER, place))
            await self._heard()
        except BaseException:
            self._close(lost=True)
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._close(lost=error is not None)

    async def turn(self, iterations: int) -> float:
        """The mean seconds of an iteration over so many, after one that does not count."""
        return float(await self._ordered("turn", iterations=iterations))

    async def learn(
        self, target: float, window: int, seconds: float, early: float = -math.inf
    ) -> Learnt:
        """Train as `Ours.learn` does."""
        asked = {"target": target, "window": window, "seconds": seconds, "early": early}
        return Learnt(*await self._ordered("learn", **asked))

    async def _ordered(self, what: str, **given: float) -> Any:
        for end in self._ends:
            end.say([what, given])
        return (await self._heard())[0]

    async def _heard(self) -> list[Any]:
        """The answers of all processes. Raises Lost if one ends first."""
        return [await asyncio.to_thread(end.hear, SECONDS) for end in self._ends]

    def _close(self, *, lost: bool) -> None:
        """End all processes together. If one is lost, the others would wait for it, so all are
        killed."""
        for end in self._ends:
            if lost:
                end.process.kill()
            elif end.process.stdin is not None:
                end.process.stdin.close()
        for end in self._ends:
            end.close()


def torch_times(options: dict[str, Any]) -> dict[str, Any]:
    """The times of the layers on one core, from `peer.times`."""
    return dict(alone("times", options))


def alone(kind: str, options: dict[str, Any], seconds: float = SECONDS) -> Any:
    """The answer of a process that trains alone, on the cores of this machine. Raises Lost if it
    ends first, or is silent for so long."""
    end = End(kind, "alone", options, (), PEER)
    try:
        return end.hear(seconds)
    finally:
        end.close()
