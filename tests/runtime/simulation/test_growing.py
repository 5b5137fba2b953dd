"""Actors that start others on one event loop: the same as in processes, on virtual time."""

from __future__ import annotations

from typing import Any

import pytest

from runtime import Actor, ActorSpec, ActorStopped, Envelope, Message, Peer, Refused, message
from runtime.errors import MessageError
from runtime.plan.topology import Placement, ProcessSpec, Topology
from runtime.simulation import run_virtual, simulate
from runtime.simulation.cluster import Journal
from runtime.transport.inproc import InprocNetwork


@message
class Double(Message):
    number: int


@message
class Unknown(Message):
    """A message that no worker handles."""


class Worker(Actor):
    def __init__(self, *, friend: Peer = "", fails: bool = False) -> None:
        self._friend = friend
        self._fails = fails

    async def on_start(self) -> None:
        if self._fails:
            raise ValueError("it cannot begin")

    async def on_double(self, message: Double, envelope: Envelope) -> int:
        if self._friend:
            return await self.ask(self._friend, message, int)
        return 2 * message.number

    async def on_stop(self) -> None:
        self.emit("stopped")


class Pool(Actor):
    """Calls `story` as its own work."""

    story: Any

    async def run(self) -> None:
        await type(self).story(self)


def played(story: Any, **network: float) -> Journal:
    """Run a pool with this story on virtual time."""
    kind = type("Pool", (Pool,), {"story": staticmethod(story)})
    topology = Topology("program", (ActorSpec("pool", "pool"),), (), "pool")
    placement = Placement(topology, (ProcessSpec("pool", "m", ("pool",)),))
    roles = {"pool": kind, "worker": Worker}
    return run_virtual(simulate(placement, roles, network=InprocNetwork(**network)))


def test_a_started_actor_answers_and_ends_with_its_on_stop() -> None:
    async def story(pool: Actor) -> None:
        assert await pool.spawn(ActorSpec("w", "worker")) == "w"
        pool.emit("answer", found=await pool.ask("w", Double(number=4), int))
        await pool.end("w")
        with pytest.raises(ActorStopped, match="no link to an actor called 'w'"):
            await pool.tell("w", Double(number=4))

    journal = played(story, latency=0.25)
    assert [(at, name) for at, _, name, _ in journal.entries] == [
        (0.0, "spawned"),
        (0.5, "answer"),
        (0.5, "stopped"),
        (0.5, "actor ended"),
    ]
    assert journal.of("spawned") == [{"name": "w", "role": "worker", "by": "pool", "machine": "m"}]


def test_started_actors_reach_the_actors_in_links_and_a_name_can_be_used_again() -> None:
    async def story(pool: Actor) -> None:
        for _ in range(3):
            await pool.spawn(ActorSpec("a", "worker"))
            await pool.spawn(ActorSpec("b", "worker", {"friend": "a"}), links=["a"])
            assert await pool.ask("b", Double(number=3), int) == 6
            await pool.end("b")
            await pool.end("a")

    assert len(played(story).of("actor ended")) == 6


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (ActorSpec("w", "wrker"), "has no role 'wrker'"),
        (ActorSpec("w", "worker", {"frend": ""}), "frend: unknown key"),
        (ActorSpec("w", "worker", {"friend": "b"}), "friend: it has no link to 'b'"),
        (ActorSpec("pool", "worker"), "an actor or a process of this run has this name"),
        (ActorSpec("w", "worker", process="pool"), "leave `process` out"),
        ("w", "found str, expected ActorSpec"),
    ],
)
def test_a_wrong_description_is_refused_in_words(spec: Any, words: str) -> None:
    async def story(pool: Actor) -> None:
        with pytest.raises(Refused) as refused:
            await pool.spawn(spec)
        assert str(refused.value).startswith("pool cannot start '")
        assert words in str(refused.value)

    played(story)


def test_a_second_end_and_the_end_of_another_actor_are_refused() -> None:
    async def story(pool: Actor) -> None:
        await pool.spawn(ActorSpec("w", "worker"))
        await pool.end("w")
        with pytest.raises(Refused, match=r"pool cannot end 'w': no actor .* \(any more\)"):
            await pool.end("w")
        with pytest.raises(Refused, match="pool cannot end 'pool': it belongs to the plan"):
            await pool.end("pool")

    played(story)


def test_a_message_that_a_started_actor_does_not_understand_is_refused_at_the_sender() -> None:
    async def story(pool: Actor) -> None:
        await pool.spawn(ActorSpec("w", "worker"))
        with pytest.raises(MessageError, match="w understands Double"):
            await pool.ask("w", Unknown(), int)

    played(story)


def test_a_started_actor_that_fails_before_it_begins_ends_the_run() -> None:
    async def story(pool: Actor) -> None:
        await pool.spawn(ActorSpec("w", "worker", {"fails": True}))

    with pytest.raises(ValueError, match="it cannot begin"):
        played(story)
