"""Actors that start others in real processes: their answers, deaths and ends, and what is left of
them.
"""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import runtime
from runtime import (
    Actor,
    ActorSpec,
    ActorStopped,
    Array,
    Envelope,
    GetWork,
    Message,
    Peer,
    Refused,
    RoleDied,
    Topology,
    WorkTaken,
    message,
)
from tests.helpers.support import ROOT, environment, events


@message
class Sum(Message):
    """Answered with the sum of the values, by the friend if there is one."""

    values: Array


@message
class Perish(Message):
    """The process of the receiver is killed."""


@message
class Pid(Message):
    """Answered with the process id."""


@message
class Child(Message):
    """Answered with the process id of the receiver's own worker, once it has begun."""


@message
class Grow(Message):
    """The receiver starts the actor `a`."""


@message
class Unknown(Message):
    """A message that no worker handles."""


class Worker(Actor):
    def __init__(self, *, friend: Peer = "") -> None:
        self._friend = friend

    async def on_sum(self, message: Sum, envelope: Envelope) -> float:
        if self._friend:
            return await self.ask(self._friend, message, float)
        return float(message.values.sum())

    async def on_perish(self, message: Perish, envelope: Envelope) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    async def on_pid(self, message: Pid, envelope: Envelope) -> int:
        return os.getpid()

    async def on_stop(self) -> None:
        self.emit("stopped")


@dataclass(frozen=True, kw_only=True)
class MortalOptions:
    restarts: int = 1


class Mortal(Worker):
    """A worker that survives a death of its process."""

    Options = MortalOptions

    def __init__(self, options: MortalOptions) -> None:
        super().__init__()


class Broken(Worker):
    async def on_start(self) -> None:
        raise ValueError("it cannot begin")


class Parent(Worker):
    """A worker with a worker of its own."""

    async def on_child(self, message: Child, envelope: Envelope) -> int:
        child = await self.spawn(ActorSpec(f"{self.name}-child", "worker"))
        return await self.ask(child, Pid(), int)


def lives(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def descriptors() -> int:
    return len([*Path("/proc/self/fd").iterdir()])


class Lead(Actor):
    """Plays one of the stories below."""

    stories: ClassVar[dict[str, Callable[[Any], Any]]] = {}

    def __init__(self, *, story: str) -> None:
        self._story = story

    async def run(self) -> None:
        self.emit("told", **(await self.stories[self._story](self) or {}))

    async def on_grow(self, message: Grow, envelope: Envelope) -> str:
        return await self.spawn(ActorSpec("a", "worker"))

    async def refused(self, work: Any) -> str:
        try:
            await work
        except Refused as error:
            return str(error)
        return ""

    async def sums(self) -> dict[str, Any]:
        """Two workers, of which one asks the other, with an array in shared memory."""
        values = self.memory(4 << 15).view(np.float32)
        values[:] = 1
        await self.spawn(ActorSpec("a", "worker"))
        await self.spawn(ActorSpec("b", "worker", {"friend": "a"}), links=["a"])
        found = await self.ask("b", Sum(values=values), float)
        plan = json.loads((self.run_directory / "plan.json").read_text("utf-8"))
        names = [spec["name"] for spec in plan["placement"]["processes"]]
        await self.end("b")
        await self.end("a")
        return {"found": found, "names": names}

    async def refusals(self) -> dict[str, Any]:
        await self.spawn(ActorSpec("a", "worker"))
        words = [
            await self.refused(self.spawn(ActorSpec("a", "worker"))),
            await self.refused(self.spawn(ActorSpec("b", "wrker"))),
            await self.refused(self.spawn(ActorSpec("b", "worker", {"friend": "a"}))),
            await self.refused(self.end("lead")),
        ]
        try:
            await self.ask("a", Unknown(), int)
        except runtime.MessageError as error:
            words.append(error.reason)
        await self.end("a")
        words.append(await self.refused(self.end("a")))
        return {"words": words}

    async def many(self) -> dict[str, Any]:
        """Fifty starts and ends, five at a time."""
        counts: list[int] = []
        pids: list[int] = []

        async def one(number: int) -> None:
            name = await self.spawn(ActorSpec(f"w-{number}", "worker"))
            pids.append(await self.ask(name, Pid(), int))
            await self.end(name)

        for first in range(0, 50, 5):
            await asyncio.gather(*(one(number) for number in range(first, first + 5)))
            counts.append(descriptors())
        living = [pid for pid in pids if lives(pid)]
        return {"pids": pids, "living": living, "more": counts[-1] - counts[0]}

    async def death(self) -> None:
        await self.spawn(ActorSpec("a", "worker"))
        await self.ask("a", Perish(), int)

    async def survived(self) -> dict[str, Any]:
        await self.spawn(ActorSpec("a", "mortal", MortalOptions()))
        first = await self.ask("a", Pid(), int)
        try:
            await self.ask("a", Perish(), int)
        except ActorStopped:
            second = await self.ask("a", Pid(), int)
        await self.end("a")
        return {"other": first != second}

    async def broken(self) -> None:
        await self.spawn(ActorSpec("a", "broken"))

    async def family(self) -> dict[str, Any]:
        """A worker that has a worker of its own, which ends with it."""
        await self.spawn(ActorSpec("a", "parent"))
        child = await self.ask("a", Child(), int)
        word = await self.refused(self.end("a-child"))
        await self.end("a")
        return {"word": word, "lives": lives(child)}

    async def orphans(self) -> None:
        """The process of the parent dies."""
        await self.spawn(ActorSpec("a", "parent"))
        self.emit("child", pid=await self.ask("a", Child(), int))
        await self.ask("a", Perish(), int)

    async def waiting(self) -> None:
        """Do nothing until the run ends."""
        await asyncio.Event().wait()

    async def endless(self) -> None:
        """Start and end workers until the run ends."""

        async def one(name: str) -> None:
            while True:
                worker = await self.spawn(ActorSpec(name, "worker"))
                self.emit("pid", pid=await self.ask(worker, Pid(), int))
                await self.end(worker)

        await asyncio.gather(one("a"), one("b"), one("c"))


Lead.stories = {
    name: getattr(Lead, name)
    for name in (
        *("sums", "refusals", "many", "death", "survived", "broken"),
        *("family", "orphans", "endless", "waiting"),
    )
}
ROLES = {
    "lead": Lead,
    "worker": Worker,
    "mortal": Mortal,
    "broken": Broken,
    "parent": Parent,
}


def topology(story: str) -> Topology:
    return Topology(__name__, (ActorSpec("lead", "lead", {"story": story}),), (), "lead")


def told(story: str, folder: Path) -> dict[str, Any]:
    return runtime.run(topology(story), directory=folder)


def run_in(folder: Path) -> Path:
    (plan,) = folder.glob("*/plan.json")
    return plan.parent


def test_started_actors_answer_each_other_and_are_in_the_plan_while_they_live(
    tmp_path: Path,
) -> None:
    assert told("sums", tmp_path) == {"found": 32768.0, "names": ["lead", "a", "b"]}
    directory = run_in(tmp_path)
    assert [event["name"] for event in events(directory, "spawned")] == ["a", "b"]
    assert [event["name"] for event in events(directory, "actor ended")] == ["b", "a"]
    assert len(events(directory, "stopped")) == 2
    assert events(directory, "warning") == events(directory, "link lost") == []
    plan = json.loads((directory / "plan.json").read_text("utf-8"))
    assert [spec["name"] for spec in plan["placement"]["processes"]] == ["lead"]
    assert (directory / "logs" / "a.log").exists()


def test_what_cannot_be_started_or_ended_is_refused_in_words(tmp_path: Path) -> None:
    words = told("refusals", tmp_path)["words"]
    expected = (
        "lead cannot start 'a': an actor or a process of this run has this name",
        "lead cannot start 'b': actor 'b': the program has no role 'wrker'",
        "lead cannot start 'b': friend: it has no link to 'a': name it in `links`",
        "lead cannot end 'lead': it belongs to the plan of the run",
        "not_understood",
        "lead cannot end 'a': no actor of this run is called 'a' (any more)",
    )
    assert all(word.startswith(text) for word, text in zip(words, expected, strict=True)), words


def test_fifty_starts_and_ends_leave_no_process_and_no_descriptor(tmp_path: Path) -> None:
    counts: list[int] = []

    def count(event: runtime.Event) -> None:
        if event.name == "actor ended":
            counts.append(descriptors())

    found = runtime.run(topology("many"), directory=tmp_path, on_event=count)
    assert len(set(found["pids"])) == 50
    assert found["living"] == []
    assert found["more"] <= 0
    assert len(counts) == 50
    assert counts[-1] < counts[4] + 9  # each leak would be 45; a connection may still close


def test_the_death_of_a_started_actor_ends_the_run_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(RoleDied, match=r"process a \(a\) on local .* killed by SIGKILL"):
        told("death", tmp_path)


def test_a_started_actor_that_may_die_is_started_again(tmp_path: Path) -> None:
    assert told("survived", tmp_path) == {"other": True}
    (warning,) = events(run_in(tmp_path), "warning")
    assert warning["text"].endswith("; it is started again")


def test_a_started_actor_that_fails_before_it_begins_ends_the_run(tmp_path: Path) -> None:
    with pytest.raises(RoleDied, match=r"(?s)process a .* failed: .*it cannot begin"):
        told("broken", tmp_path)


def test_only_the_parent_ends_an_actor_and_an_ended_parent_takes_its_children_along(
    tmp_path: Path,
) -> None:
    found = told("family", tmp_path)
    assert "only 'a', which has started it, can end it" in found["word"]
    assert not found["lives"]
    assert [event["name"] for event in events(run_in(tmp_path), "actor ended")] == ["a-child", "a"]


def test_the_death_of_the_parent_leaves_no_process(tmp_path: Path) -> None:
    with pytest.raises(RoleDied, match=r"process a \(a\) on local .* killed by SIGKILL"):
        told("orphans", tmp_path)
    (child,) = events(run_in(tmp_path), "child")
    assert not lives(child["pid"])


async def test_a_started_actor_is_reached_by_the_script_and_by_a_client_and_is_traced(
    tmp_path: Path,
) -> None:
    async with runtime.launch(topology("waiting"), directory=tmp_path) as run:
        await run.ask("lead", GetWork(), WorkTaken)
        async with runtime.attach(run.directory) as client:
            await client.begin_trace()
            assert await run.ask("lead", Grow(), str) == "a"
            async for event in client.events():
                if event.name == "spawned":
                    break
            await client.ask("a", GetWork(), WorkTaken)
            assert lives(await run.ask("a", Pid(), int))
            assert "a" in (await client.status()).processes
            assert (await client.snapshot("a")) is not None
            await client.end_trace()
        assert run.placement.process_of() == {"lead": "lead", "a": "a"}
        await run.wind_down()
    trace = json.loads((run.directory / "trace.json").read_text("utf-8"))
    names = {each["args"]["name"] for each in trace if each["name"] == "process_name"}
    assert {"lead", "a"} <= names


async def test_a_run_that_ends_while_actors_are_started_leaves_no_process(tmp_path: Path) -> None:
    seen: list[int] = []
    async with runtime.launch(topology("endless"), directory=tmp_path) as run:
        async for event in run.events():
            if event.name == "pid":
                seen.append(event["pid"])
            if len(seen) == 4:
                await run.wind_down()
    processes = [event["pid"] for event in events(run_in(tmp_path), "process")]
    assert {*seen} <= {*processes}
    assert [pid for pid in processes if lives(pid)] == []


def gone(pid: int) -> None:
    """Wait until a process has ended, at most a minute."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        assert select.select([handle], [], [], 60)[0]
    finally:
        os.close(handle)


SCRIPT = """
import runtime
from tests.journeys.programs.test_growth import topology

if __name__ == "__main__":
    runtime.run(topology("endless"), directory={folder!r}, on_event=lambda e: print(e.name, flush=True))
"""


def test_the_death_of_up_ends_started_actors_too(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    runs = tmp_path / "runs"
    script.write_text(SCRIPT.format(folder=str(runs)), "utf-8")
    settings = {**environment(), "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, script], env=settings, stdout=subprocess.PIPE, text=True
    ) as up:
        assert up.stdout is not None
        for line in up.stdout:
            if line == "pid\n":
                break
        up.kill()
        up.wait()
    pids = [event["pid"] for event in events(run_in(runs), "process")]
    assert len(pids) > 1
    for pid in pids:
        gone(pid)
