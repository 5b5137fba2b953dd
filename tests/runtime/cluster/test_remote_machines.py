"""The messages between `up` and its agents, without sockets: every step of the tables is accepted,
and no other.
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runtime.cluster.launcher import LOST, LaunchPlan
from runtime.cluster.launchers import machine_agent, remote
from runtime.cluster.launchers.machine_agent import MachineAgent, Step
from runtime.cluster.launchers.remote import RemoteMachine, RemoteProcess, Stage
from runtime.cluster.launchers.ssh import SshLauncher
from runtime.cluster.machines import agent_messages
from runtime.cluster.machines.copies import Copies
from runtime.cluster.machines.file_sync import PIECE_BYTES, FileSync
from runtime.cluster.machines.machine_facts import facts_here, mismatch
from runtime.config.sections import Launcher, Machine
from runtime.errors import LaunchError
from runtime.messages.message import Message
from tests.helpers.far_machines import program

PIECE = agent_messages.Piece(path="logs/p.log", offset=0, rest=-1, data=np.zeros(3, np.uint8))
SAID_BY_AGENT: dict[type[Message], Message] = {
    agent_messages.Joined: facts_here("m", "10.0.0.1"),
    agent_messages.Prepared: agent_messages.Prepared(),
    agent_messages.Started: agent_messages.Started(process="p", incarnation=1, error=""),
    agent_messages.Exited: agent_messages.Exited(
        process="p", incarnation=1, status=-9, how="killed by SIGKILL"
    ),
    agent_messages.Piece: PIECE,
    agent_messages.Leaving: agent_messages.Leaving(seconds=25.0),
    agent_messages.Closed: agent_messages.Closed(),
    agent_messages.Problem: agent_messages.Problem(error="no room"),
    # an agent must not send this
    agent_messages.Launch: agent_messages.Launch(process="p", incarnation=1),
}
SAID_BY_UP: dict[type[Message], Message] = {
    agent_messages.Piece: PIECE,
    agent_messages.Orders: agent_messages.Orders(program="roles"),
    agent_messages.Private: agent_messages.Private(name="p.keys", data=np.zeros(3, np.uint8)),
    agent_messages.Launch: agent_messages.Launch(process="p", incarnation=1),
    agent_messages.Signal: agent_messages.Signal(process="p", number=int(signal.SIGTERM)),
    agent_messages.Got: agent_messages.Got(),
    agent_messages.Close: agent_messages.Close(),
    agent_messages.Beat: agent_messages.Beat(),
    agent_messages.Joined: facts_here("m", "10.0.0.1"),  # `up` must not send this
}


class Known:
    """A machine at a stage, the messages sent to its agent, and the pieces of files that came."""

    def __init__(self, stage: Stage = Stage.READY) -> None:
        self.told: list[Message] = []
        self.pieces: list[agent_messages.Piece] = []
        self.machine = RemoteMachine("m", Path("logs"), self.told.append, self.pieces.append)
        for message in (agent_messages.Joined, agent_messages.Prepared):
            if self.machine.stage is not stage:
                self.machine.take(SAID_BY_AGENT[message])
        if stage is Stage.GONE:
            self.machine.lost("of the test")

    async def with_process(self) -> RemoteProcess:
        """Launch a process on the machine."""
        born = asyncio.create_task(self.machine.launch("p", 1))
        await asyncio.sleep(0)
        self.machine.take(SAID_BY_AGENT[agent_messages.Started])
        return await born


@pytest.mark.parametrize("stage", list(Stage))
@pytest.mark.parametrize("kind", list(SAID_BY_AGENT))
async def test_an_agent_may_send_the_messages_of_the_table_and_no_others(
    stage: Stage, kind: type[Message]
) -> None:
    known = Known(stage)
    known.machine.take(SAID_BY_AGENT[kind])
    assert known.machine.stage is remote.STEPS.get((stage, kind), Stage.GONE)
    if (stage, kind) not in remote.STEPS and stage not in (Stage.READY, Stage.GONE):
        told = str(known.machine.ready.exception())
        assert told == f"machine 'm': its agent sent {kind.__name__} while it was {stage.value}"


async def test_a_remote_process_is_started_and_signalled_and_its_end_reported_as_its_machine_saw_it() -> (
    None
):
    known = Known()
    child = await known.with_process()
    child.signal(signal.SIGTERM)
    assert [type(message) for message in known.told] == [
        agent_messages.Launch,
        agent_messages.Signal,
    ]
    known.machine.take(PIECE)
    assert (known.pieces, type(known.told[-1])) == ([PIECE], agent_messages.Got)
    known.machine.take(SAID_BY_AGENT[agent_messages.Exited])
    assert (await child.wait(), child.describe(-9, True)) == (-9, "killed by SIGKILL")
    child.signal(signal.SIGKILL)
    assert type(known.told[-1]) is agent_messages.Got, (
        "a signal was sent to a process that has ended"
    )


async def test_a_process_that_cannot_be_started_remotely_is_reported_with_its_machine() -> None:
    known = Known()
    born = asyncio.create_task(known.machine.launch("p", 1))
    await asyncio.sleep(0)
    known.machine.take(
        agent_messages.Started(
            process="p", incarnation=1, error=("process 'p' could not be started: no memory")
        )
    )
    with pytest.raises(
        LaunchError, match=(r"^machine 'm': process 'p' could not be started: " r"no memory$")
    ):
        await born
    with pytest.raises(LaunchError, match="machine 'm' is gone"):
        await Known(Stage.GONE).machine.launch("p", 1)


@pytest.mark.parametrize("how", ["lost", "problem", "closed"])
async def test_the_loss_of_a_machine_ends_its_processes_and_its_pending_launches(how: str) -> None:
    known = Known()
    child = await known.with_process()
    waiting = asyncio.create_task(known.machine.launch("q", 1))
    await asyncio.sleep(0)
    if how == "lost":
        known.machine.lost("its connection broke")
    else:
        known.machine.take(
            SAID_BY_AGENT[agent_messages.Problem if how == "problem" else agent_messages.Closed]
        )
    why = {"lost": "its connection broke", "problem": "no room", "closed": "its agent has ended"}[
        how
    ]
    assert (await child.wait(), child.how) == (LOST, f"is lost with its machine 'm': {why}")
    with pytest.raises(LaunchError, match=f"^machine 'm': {why}$"):
        await waiting
    assert known.machine.gone.done()
    known.machine.lost("again")
    assert child.how.endswith(why)


class NoNursery:
    """A nursery that forks no process."""


@pytest.mark.parametrize("step", list(Step))
@pytest.mark.parametrize("kind", list(SAID_BY_UP))
async def test_up_may_send_the_messages_of_the_table_and_no_others(
    step: Step, kind: type[Message]
) -> None:
    nursery: Any = NoNursery()
    agent = MachineAgent("m", nursery)
    before = {
        Step.JOINING: [],
        Step.READY: [agent_messages.Orders],
        Step.CLOSING: [agent_messages.Close],
    }[step]
    for message in before:
        agent.take(SAID_BY_UP[message])
    agent.take(SAID_BY_UP[kind])
    legal = (step, kind) in machine_agent.STEPS
    assert agent.over.done() is not legal
    if not legal:
        assert str(agent.over.result()) == (
            f"`up` sent {kind.__name__} while this agent was {step.value}"
        )


async def test_an_agent_leaves_when_the_last_piece_of_its_files_has_arrived(tmp_path: Path) -> None:
    """`up` accepts no more messages of an agent that has left before `up` answers a piece."""
    (tmp_path / "checkpoint").write_bytes(bytes(3 * PIECE_BYTES))
    nursery: Any = NoNursery()
    agent = MachineAgent("m", nursery)
    agent._mirror = FileSync(tmp_path)
    said: asyncio.Queue[Message] = asyncio.Queue()
    agent.tell = said.put_nowait
    serving = asyncio.create_task(agent.serve())
    agent.take(agent_messages.Close())
    pieces = [await said.get() for _ in range(3)]
    assert {type(piece) for piece in pieces} == {agent_messages.Piece}
    for _ in pieces:
        assert (said.empty(), agent.over.done()) == (True, False)
        agent.take(agent_messages.Got())
    assert isinstance(await said.get(), agent_messages.Closed)
    assert await agent.over is None
    await serving


async def test_a_file_that_cannot_be_kept_is_reported_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "logs").write_text("no folder")
    launcher = SshLauncher(LaunchPlan(tmp_path, "roles", ()))
    copies = Copies(tmp_path, ["logs/*"])
    for _ in range(3):
        launcher._keep("m", copies, PIECE)
    assert [record.getMessage() for record in caplog.records] == [
        "machine 'm': logs/p.log is not copied in whole: File exists"
    ]


@pytest.mark.parametrize(("wished", "connects"), [(None, 10), (90.0, 30), (1.0, 1)])
async def test_ssh_gives_up_a_machine_that_does_not_answer_long_before_one_that_is_slow_to_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wished: float | None, connects: int
) -> None:
    stub = program(tmp_path / "bin" / "ssh", f'echo "$@" > {tmp_path}/said; read line')
    monkeypatch.setenv("PATH", f"{stub.parent}:{os.environ['PATH']}")
    launcher = SshLauncher(
        LaunchPlan(tmp_path, "roles", (), wishes=Launcher(kind="ssh", start_seconds=wished))
    )
    ssh = await launcher.start(Machine(name="m"), ["true"], "")
    await ssh.wait()
    ssh.kill()
    assert f" -o ConnectTimeout={connects} " in (tmp_path / "said").read_text()


def test_a_machine_with_another_version_or_other_sources_does_not_fit() -> None:
    here = facts_here("m", "10.0.0.1")
    assert mismatch(here) == ""
    other = dataclasses.replace(here, versions={**here.versions, "convoy-runtime": "0.0.9"})
    assert mismatch(other).startswith("it has convoy-runtime 0.0.9, this host ")
    assert "has other sources (old)" in mismatch(dataclasses.replace(here, sources="old"))
