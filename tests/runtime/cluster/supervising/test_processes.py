"""The started processes of a run: real processes that end in order, that ignore SIGTERM, or whose
launcher does not answer."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

import pytest

from runtime.cluster.launcher import Launched, Launcher, LaunchPlan
from runtime.cluster.lifecycle import FIRST, LifeStage
from runtime.cluster.supervising.processes import Processes
from runtime.cluster.supervising.supervised_run import SupervisedRun
from runtime.cluster.supervising.supervision import Liveness
from runtime.config.machines import Machine
from runtime.errors import LaunchError
from runtime.plan.topology import ActorSpec, Placement, ProcessSpec, Topology
from runtime.runs.execution import Watchers

DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); "
STAYS = "import time; time.sleep(60)"
SPEC = ProcessSpec("p", "local", ("a",), 1, 0)


class Child(Launched):
    """A real process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.name = SPEC.name
        self.log = Path("p.log")
        self._process = process

    async def wait(self) -> int:
        return await self._process.wait()

    def signal(self, number: signal.Signals) -> None:
        if self._process.returncode is None:
            self._process.send_signal(number)


class Starter(Launcher):
    """Starts processes that run `code`, and returns them once they have printed a line. Without
    code it never answers."""

    def __init__(self, code: str) -> None:
        super().__init__(LaunchPlan(Path(), "roles", (Machine(),)))
        self._code = code

    async def open(self, machine: Machine) -> None:
        """A machine that needs no preparation."""

    async def launch(self, spec: ProcessSpec, incarnation: int) -> Launched:
        if not self._code:
            await asyncio.Event().wait()
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", self._code, stdout=asyncio.subprocess.PIPE
        )
        assert process.stdout is not None
        await process.stdout.readline()
        return Child(process)

    async def close(self) -> None:
        """Nothing is left to close."""


def run_of(start_seconds: float = 60.0) -> SupervisedRun:
    placement = Placement(Topology("roles", (ActorSpec("a", "role"),), (), "a"), (SPEC,))
    liveness = Liveness(start_seconds=start_seconds)
    return SupervisedRun(placement, liveness, Watchers(), asyncio.get_running_loop().time)


class Exits:
    """The exits that are reported."""

    def __init__(self) -> None:
        self.found: list[tuple[str, int, int]] = []

    async def add(self, launched: Launched, incarnation: int, status: int) -> None:
        self.found.append((launched.name, incarnation, status))


async def test_a_process_that_ignores_sigterm_is_killed_and_its_exit_is_reported_once() -> None:
    exits, run = Exits(), run_of()
    processes = Processes(run, Starter(DEAF + STAYS), exits.add)
    await processes.start_all()
    assert repr(processes) == "<processes: 1 of 1 have not ended>"
    await processes.kill_all()
    assert exits.found == [("p", FIRST, -signal.SIGKILL)]
    assert not run.outcome.done()
    await processes.kill_all()  # a second call finds nothing to end
    assert exits.found == [("p", FIRST, -signal.SIGKILL)]


async def test_a_process_that_was_told_to_end_is_killed_if_it_goes_on() -> None:
    exits = Exits()
    processes = Processes(run_of(), Starter(DEAF + STAYS), exits.add)
    await processes.start_all()
    processes.signal("p", signal.SIGTERM)
    await processes.ended("p")
    await processes.all_ended(60)
    assert [status for _, _, status in exits.found] == [-signal.SIGKILL]


async def test_a_process_that_starts_after_the_run_is_over_is_killed_at_once() -> None:
    exits, run = Exits(), run_of()
    processes = Processes(run, Starter("print('up', flush=True); " + STAYS), exits.add)
    run.end(None)
    await processes.start(SPEC, FIRST)
    await processes.all_ended(60)
    assert exits.found == [("p", FIRST, -signal.SIGKILL)]
    assert run.supervision.is_at("p", LifeStage.STARTING)


async def test_a_launcher_that_does_not_answer_ends_the_run_with_its_reason() -> None:
    run = run_of(start_seconds=0.05)
    await Processes(run, Starter(""), Exits().add).start_all()
    error = run.outcome.result()
    assert isinstance(error, LaunchError)
    why = "process 'p' was not started within 0.05 s: its launcher does not answer"
    assert str(error) == why


async def test_an_unknown_mistake_of_a_launcher_is_the_outcome_of_the_run() -> None:
    class Broken(Starter):
        async def open(self, machine: Machine) -> None:
            raise ZeroDivisionError("a mistake")

    run = run_of()
    await Processes(run, Broken(""), Exits().add).start_all()
    with pytest.raises(ZeroDivisionError, match="a mistake"):
        run.outcome.result()
