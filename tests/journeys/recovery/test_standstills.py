"""Runs whose processes all live but do not advance: they end with the names of the waiting actors.
Idle runs go on."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.helpers.support import run_directory, run_up

PROGRAM = """
import asyncio
from runtime import Actor, ActorSpec, Envelope, Message, Topology, message

@message
class Ask(Message):
    pass

class Circular(Actor):
    def __init__(self, peer):
        self._peer = peer

    async def on_ask(self, message: Ask, envelope: Envelope) -> None:
        await self.ask(self._peer, Ask(), Ask)

    async def run(self):
        await self.tell(self._peer, Ask())
        await asyncio.Event().wait()

class Silent(Actor):
    async def on_ask(self, message: Ask, envelope: Envelope) -> None:
        self.kept = envelope  # for a later answer

class Lead(Actor):
    async def run(self):
        self.stepped()
        await self.ask("silent", Ask(), Ask)

class Idle(Actor):
    async def run(self):
        await asyncio.sleep(2.5)
        self.emit("done")

ROLES = {"circular": Circular, "silent": Silent, "lead": Lead, "idle": Idle}

def plan(config, options):
    a, b = ActorSpec("a", "circular", {"peer": "b"}), ActorSpec("b", "circular", {"peer": "a"})
    return {
        "circle": Topology(__name__, (a, b), (("a", "b"),), "a"),
        "still": Topology(
            __name__, (ActorSpec("lead", "lead"), ActorSpec("silent", "silent")), (("lead", "silent"),), "lead"
        ),
        "idle": Topology(__name__, (ActorSpec("idle", "idle"),), (), "idle"),
    }[KIND]
"""


STILL = "the run stands still: "


@pytest.mark.few("[circle]", "[still]")
@pytest.mark.parametrize(
    ("kind", "code", "told"),
    [
        (
            "circle",
            4,
            (rf"{STILL}([ab]) \(in Ask\) asked [ab] and [ab] \(in Ask\) asked \1: " rf"each waits"),
        ),
        (
            "still",
            4,
            (
                rf"{STILL}lead has ended no step for \d s, and no process computes: lead "
                rf"waits for silent"
            ),
        ),
        ("idle", 0, r"$"),
    ],
    ids=["circle", "still", "idle"],
)
def test_the_waiting_actors_are_reported_when_nothing_advances(
    tmp_path: Path, kind: str, code: int, told: str
) -> None:
    (tmp_path / "standing.py").write_text(f"KIND = {kind!r}\n{PROGRAM}")
    cluster = tmp_path / "cluster.toml"
    seconds = 300 if kind == "circle" else 1
    cluster.write_text(f'program = "standing"\n[liveness]\nstandstill_seconds = {seconds}\n')
    done = run_up(cluster)
    assert done.returncode == code, done.stderr
    assert re.match(told, done.stderr), done.stderr
    if code:
        logs = (run_directory(cluster) / "logs").iterdir()
        assert all("Thread MainThread (most recent call first)" in log.read_text() for log in logs)
