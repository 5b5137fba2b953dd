"""The link between `up` and its agents: which agents are accepted, and how each end learns that the
other has left.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from typing import TypeVar

import pytest
import pytest_asyncio

from runtime.cluster.machines.agent_link import AgentLink, Reception, limits_of
from runtime.cluster.machines.agent_messages import Got, Prepared, Problem
from runtime.cluster.machines.invitation import Invitation
from runtime.errors import ConfigError, LaunchError
from runtime.messages.message import Message

LIMITS = limits_of(1.0)
T = TypeVar("T")


@dataclass
class Up:
    """A reception; it records the messages, losses and refusals that it gets."""

    heard: asyncio.Queue[tuple[str, Message]] = field(default_factory=asyncio.Queue)
    lost: asyncio.Queue[tuple[str, str]] = field(default_factory=asyncio.Queue)
    refused: asyncio.Queue[tuple[str, str]] = field(default_factory=asyncio.Queue)

    def __post_init__(self) -> None:
        self.reception = Reception(
            LIMITS,
            lambda *said: self.heard.put_nowait(said),
            lambda *who: self.lost.put_nowait(who),
            lambda *who: self.refused.put_nowait(who),
        )
        self.address = self.reception.listen("127.0.0.1", 0)
        self.invitation = self.reception.invite("m", attached=False)


@dataclass
class Machine:
    """An agent's end; it records the messages and losses that it gets."""

    up: Up
    invitation: Invitation
    name: str = "m"
    heard: asyncio.Queue[Message] = field(default_factory=asyncio.Queue)
    lost: asyncio.Queue[str] = field(default_factory=asyncio.Queue)

    def __post_init__(self) -> None:
        hear = self.heard.put_nowait
        lost = self.lost.put_nowait
        self.line = AgentLink(self.name, self.up.address, self.invitation, hear, lost)


@pytest_asyncio.fixture
async def up() -> AsyncIterator[Up]:
    made = Up()
    yield made
    await made.reception.close()


async def in_time(queue: asyncio.Queue[T]) -> T:
    return await asyncio.wait_for(queue.get(), 60)


async def test_both_ends_receive_messages_and_learn_at_once_that_the_other_has_left(up: Up) -> None:
    agent = Machine(up, up.invitation)
    agent.line.tell(Prepared())
    assert [type(part) for part in await in_time(up.heard)] == [str, Prepared]
    up.reception.tell("m", Got())
    while not isinstance(await in_time(agent.heard), Got):
        pass
    await agent.line.close()
    assert await in_time(up.lost) == ("m", "its connection broke")
    assert up.reception.silent == set(), "its host has answered, so the machine is not silent"


async def test_the_last_message_of_an_agent_arrives_before_its_loss_even_if_up_was_busy(
    up: Up,
) -> None:
    agent = Machine(up, up.invitation)
    agent.line.tell(Prepared())
    await in_time(up.heard)
    agent.line._beating.cancel()
    agent.line.tell(Problem(error="no room"))
    agent.line._port.close(flush=True)
    listener, identity = up.reception._there["m"]
    # until the connection is broken; the loop does not run meanwhile and reads nothing
    while listener.answer(identity, [b""]):
        pass
    up.reception.tell("m", Got())
    name, said = await in_time(up.heard)
    assert name == "m" and isinstance(said, Problem) and said.error == "no room"
    assert await in_time(up.lost) == ("m", "its connection broke")
    await agent.line._ports.close()


async def test_an_agent_that_is_silent_for_longer_than_the_link_limit_is_lost_with_its_machine(
    up: Up,
) -> None:
    agent = Machine(up, up.invitation)
    agent.line.tell(Prepared())
    await in_time(up.heard)
    agent.line._beating.cancel()
    name, why = await in_time(up.lost)
    assert (name, why[:34]) == ("m", "its agent gave no sign of life for")
    assert up.reception.silent == {"m"}
    await agent.line.close()


async def test_an_agent_learns_that_up_has_gone() -> None:
    up = Up()
    agent = Machine(up, up.invitation)
    agent.line.tell(Prepared())
    await in_time(up.heard)
    await up.reception.close()
    assert "the connection to `up` broke" in await in_time(agent.lost)
    await agent.line.close()


async def test_an_agent_that_had_joined_is_told_how_its_machine_comes_back() -> None:
    up = Up()
    agent = Machine(up, up.invitation)
    agent.line.tell(Prepared())
    await in_time(up.heard)
    up.reception.tell("m", Got())
    await in_time(agent.heard)
    await up.reception.close()
    lost = await in_time(agent.lost)
    assert "`scale --with m`" in lost and "refused" not in lost
    await agent.line.close()


@pytest.mark.parametrize(
    "what", ["another key", "a key of another run", "the name of another machine"]
)
async def test_an_agent_without_an_invitation_is_refused_and_its_messages_are_dropped(
    up: Up, what: str
) -> None:
    mine = up.invitation
    other = Reception(LIMITS, lambda *_: None, lambda *_: None, lambda *_: None)
    foreign = other.invite("m", attached=False)
    await other.close()
    invitation = {
        "another key": replace(mine, public=foreign.public, private=foreign.private),
        "a key of another run": foreign,
        "the name of another machine": mine,
    }[what]
    agent = Machine(up, invitation, "n" if what == "the name of another machine" else "m")
    agent.line.tell(Prepared())
    if what == "the name of another machine":
        assert "claims to be" in (await in_time(up.refused))[1]
    else:
        assert "refused this key" in await in_time(agent.lost)
    assert up.heard.empty()
    await agent.line.close()


async def test_a_second_agent_of_a_machine_is_refused_and_the_first_goes_on(up: Up) -> None:
    first = Machine(up, up.invitation)
    first.line.tell(Prepared())
    await in_time(up.heard)
    second = Machine(up, up.invitation)
    second.line._port.close(flush=False)
    await second.line._ports.close()
    first.line.tell(Problem(error="goes on"))
    assert isinstance((await in_time(up.heard))[1], Problem)
    second.line._beating.cancel()
    await first.line.close()


async def test_the_late_loss_of_an_agent_does_not_refuse_the_next_agent_of_its_machine(
    up: Up,
) -> None:
    former = Machine(up, up.invitation)
    former.line.tell(Prepared())
    await in_time(up.heard)
    again = up.reception.invite("m", attached=False)
    up.reception.forget("m", up.invitation, "noticed late")
    agent = Machine(up, again)
    former.line.tell(Problem(error="of a former life"))
    agent.line.tell(Problem(error="goes on"))
    _, said = await in_time(up.heard)
    assert isinstance(said, Problem) and said.error == "goes on"
    assert agent.lost.empty() and up.lost.empty() and up.refused.empty()
    await former.line.close()
    await agent.line.close()


async def test_an_address_that_is_taken_is_an_error(up: Up) -> None:
    host, _, port = up.address.rpartition(":")
    with pytest.raises(LaunchError, match=f"launcher.address: `up` cannot listen on {host}:{port}"):
        up.reception.listen(host, int(port))


def test_an_invitation_is_a_line_that_can_be_read_again_and_is_not_shown() -> None:
    made = Invitation(b"u" * 32, b"p" * 32, b"s" * 32, 2.5, attached=True)
    assert Invitation.read(f"{made.line}\n") == made
    assert (b"s" * 32).hex() not in repr(made)


KEYS = " ".join(["ab" * 32] * 3)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "hello",
        "a b c",
        KEYS,
        f"{KEYS} {KEYS}",
        f"{KEYS} nan",
        f"{KEYS} 6 stay",
        f"{'zz' * 32} {KEYS} 6",
        KEYS[65:],
    ],
)
def test_a_line_that_is_not_an_invitation_is_an_error_that_does_not_repeat_it(line: str) -> None:
    with pytest.raises(
        ConfigError, match=(r"standard input: found .*, expected the line that " r"`up` shows")
    ) as refused:
        Invitation.read(line)
    assert "ab" * 32 not in str(refused.value)
