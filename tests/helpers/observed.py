"""A program for the tests of observers: a worker that naps in its compute thread, and observers
that report each event that they see.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from runtime import Actor, ActorSpec, Topology
from runtime.config.sections import ClusterConfig
from runtime.plan.topology import Placement


class Worker(Actor):
    """Naps of a hundredth of a second until the run has taken `seconds`; each nap is noted as half
    a second of work called "own".
    """

    def __init__(self, *, seconds: float, observer: str) -> None:
        self._seconds = seconds

    async def run(self) -> None:
        self.emit("begun")
        self.emit("unheard")
        end = self.now() + self._seconds
        while self.now() < end:
            await self.compute("nap", time.sleep, 0.01)
            self.took("own", 0.5)
        self.emit("slept")


class Echo:
    """Reports the work and the events that it observes."""

    hears = frozenset({"begun"})

    def __init__(self, gauge: Callable[..., Any]) -> None:
        self._gauge = gauge

    def worked(self, sums: Any, now: float) -> Iterator[tuple[str, dict[str, Any]]]:
        for actor, labels in sums.items():
            if "nap" in labels:
                self._gauge("naps", "How often it was heard of.", worker=actor).set(
                    labels["nap"][0]
                )
            event = "heard" if "nap" in labels else "processor time"
            yield (
                event,
                {
                    "who": actor,
                    "now": now,
                    **{label: list(found) for label, found in labels.items()},
                },
            )

    def event(
        self, actor: str, event: str, fields: Any, now: float
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        yield "heard of", {"who": actor, "what": event}


class Broken(Echo):
    """Fails on the first work that it observes."""

    def worked(self, sums: Any, now: float) -> Any:
        raise ZeroDivisionError("no work at all")


def observer(placement: Placement, config: ClusterConfig, gauge: Callable[..., Any]) -> Echo | None:
    kind = placement.topology.actors[0].options["observer"]
    if kind == "unborn":
        raise LookupError("no such observer")
    return {"echo": Echo, "broken": Broken}[kind](gauge) if kind else None


ROLES = {"worker": Worker}


def naps(seconds: float, observer: str) -> Topology:
    """One worker with an observer: "echo", "broken", "unborn" or "" for none."""
    actors = (ActorSpec("worker", "worker", {"seconds": seconds, "observer": observer}),)
    return Topology(__name__, actors, (), "worker")
