"""The agent as a process, `python -m runtime join`: the loss of its link or of its standard input
ends it, and it reports the cause.
"""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import pytest_asyncio

from runtime.cluster.machines.agent_link import Reception, limits_of
from runtime.cluster.machines.agent_messages import Close, Closed, Joined, Problem
from runtime.messages.message import Message
from tests.helpers.support import environment, runtime_command
from tests.helpers.terminal import terminal

pytestmark = pytest.mark.slow


@dataclass
class Agent:
    """An agent process and the reception that it has joined."""

    attached: bool
    open: bool = True
    heard: asyncio.Queue[tuple[str, Message]] = field(default_factory=asyncio.Queue)

    async def join(self) -> None:
        self.reception = Reception(
            limits_of(6.0),
            lambda *said: self.heard.put_nowait(said),
            lambda *_: None,
            lambda *_: None,
        )
        address = self.reception.listen("127.0.0.1", 0)
        # asyncio would also watch the processes that it starts
        self.process = subprocess.Popen(  # noqa: ASYNC220
            runtime_command("join", address, "m"),
            env=environment(),
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdin is not None
        self.process.stdin.write(f"{self.reception.invite('m', attached=self.attached).line}\n")
        self.process.stdin.flush()
        assert isinstance(await self.said(), Joined)

    async def said(self) -> Message:
        return (await asyncio.wait_for(self.heard.get(), 60))[1]

    def hang_up(self) -> None:
        """Close the agent's standard input."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.stdin = None

    async def ended(self) -> tuple[int, str]:
        """The agent's exit code and its stderr."""
        _, said = await asyncio.to_thread(self.process.communicate, timeout=60)
        return self.process.returncode, said


@pytest_asyncio.fixture(params=["attached", "alone"])
async def agent(request: pytest.FixtureRequest) -> AsyncIterator[Agent]:
    made = Agent(attached=request.param == "attached")
    try:
        await made.join()
        yield made
    finally:
        if made.open:
            await made.reception.close()
        made.process.kill()
        await asyncio.to_thread(made.process.communicate)


async def test_it_ends_with_its_standard_input_if_it_is_attached(agent: Agent) -> None:
    agent.hang_up()
    if agent.attached:
        gone = "the process that started this agent has died: standard input has closed\n"
        assert await agent.ended() == (4, gone)
    else:
        agent.reception.tell("m", Close())
        assert isinstance(await agent.said(), Closed)
        assert await agent.ended() == (0, "")


async def test_a_signal_that_ends_it_is_reported(agent: Agent) -> None:
    agent.process.terminate()
    said = await agent.said()
    assert isinstance(said, Problem) and said.error == "its agent was ended by SIGTERM"
    assert await agent.ended() == (4, "ended by SIGTERM\n")


async def test_it_ends_with_its_link(agent: Agent) -> None:
    agent.open = False
    await agent.reception.close()
    code, said = await agent.ended()
    assert (code, said.startswith("machine 'm': the connection to `up` broke")) == (4, True)


def test_on_a_terminal_join_says_what_to_paste_and_that_it_stays(tmp_path: Path) -> None:
    command = runtime_command("join", "127.0.0.1:1", "m")
    with terminal(command, 200, 20, tmp_path, environment()) as seen:
        seen.until(lambda lines: any("paste the line" in line for line in lines))
        seen.type(b"not the line\n")
        seen.until(lambda lines: any("Ctrl-C takes the machine out" in line for line in lines))
        assert seen.end() == 2
