"""Actors whose process may die: it is started again while the run goes on, and its peers go on
with its next life."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path

import pytest

import runtime
from runtime import (
    Actor,
    ActorSpec,
    ActorStopped,
    Envelope,
    Message,
    Peer,
    RoleDied,
    Topology,
    message,
)
from tests.helpers.support import events


@message
class Count(Message):
    """Answered with the number of this message in the worker's life."""


@message
class Die(Message):
    """The worker's process is killed."""


@dataclass(frozen=True, kw_only=True)
class WorkerOptions:
    restarts: int = 0
    neighbour: Peer = ""


class Worker(Actor):
    Options = WorkerOptions

    def __init__(self, options: WorkerOptions) -> None:
        self._options = options
        self._count = 0

    async def on_count(self, message: Count, envelope: Envelope) -> int:
        self._count += 1
        while self._options.neighbour:
            try:
                return await self.ask(self._options.neighbour, Count(), int)
            except ActorStopped:  # it may have died just now
                continue
        return self._count

    async def on_die(self, message: Die, envelope: Envelope) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


class Lead(Actor):
    def __init__(self, *, deaths: list[Peer], asked: Peer) -> None:
        self._deaths = deaths
        self._asked = asked

    async def run(self) -> None:
        found = [await self.ask(self._asked, Count(), int) for _ in range(2)]
        for victim in self._deaths:
            try:
                await self.ask(victim, Die(), int)
            except ActorStopped:
                found.append(await self.ask(self._asked, Count(), int))
        self.emit("counted", found=found)


ROLES = {"lead": Lead, "worker": Worker}


def topology(deaths: list[str], asked: str = "first", restarts: int = 2) -> Topology:
    first = WorkerOptions(restarts=restarts, neighbour="second" if asked == "first" else "")
    actors = (
        ActorSpec("lead", "lead", {"deaths": deaths, "asked": asked}),
        ActorSpec("first", "worker", first),
        ActorSpec("second", "worker", WorkerOptions(restarts=restarts)),
    )
    links = (("lead", "first"), ("lead", "second"), ("first", "second"))
    return Topology(__name__, actors, links, "lead")


def test_a_worker_that_is_killed_is_started_again_and_answers(tmp_path: Path) -> None:
    told: list[runtime.Event] = []
    result = runtime.run(
        topology(["second", "second"], "second"), directory=tmp_path, on_event=told.append
    )
    assert result["found"] == [1, 2, 1, 1]
    (directory,) = tmp_path.iterdir()
    warnings = [event["text"] for event in events(directory, "warning")]
    assert len(warnings) == 2
    assert all(
        "process second on local" in text and "killed by SIGKILL" in text for text in warnings
    )
    assert all(text.endswith("; it is started again") for text in warnings)
    assert not [event for event in told if event.name == "failed"]


def test_peers_of_a_restarted_process_reach_its_next_life(tmp_path: Path) -> None:
    result = runtime.run(topology(["second", "first"]), directory=tmp_path)
    assert result["found"] == [1, 2, 1, 2]


def test_more_deaths_than_are_allowed_end_the_run_with_the_last_one(tmp_path: Path) -> None:
    with pytest.raises(RoleDied, match=r"process second \(second\) on local .* killed by SIGKILL"):
        runtime.run(topology(["second", "second"], "second", restarts=1), directory=tmp_path)


def test_the_process_of_the_lead_is_never_started_again(tmp_path: Path) -> None:
    with pytest.raises(RoleDied, match=r"process convoy .*killed by SIGKILL"):
        runtime.run(topology(["second"]), directory=tmp_path, processes="one")
