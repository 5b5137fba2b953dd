"""`up` on the virtual clock: the ends of a run, and the files that it leaves."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from runtime import ActorSpec, ConvoyError, RoleDied, Topology, launch, run
from runtime.simulation.clock import VirtualTimeLoop
from tests.helpers.adders import Add, Total, adders
from tests.helpers.support import environment, events, run_directory, run_up, runtime_command

PROGRAM = '''
"""One actor that does what its option says after a virtual hour."""
import asyncio
from runtime import Actor, ActorSpec, Envelope, ProgramFailed, Topology, WindDown

class Clerk(Actor):
    def __init__(self, *, end):
        self.my_end = end

    async def run(self):
        while self.my_end == "never":
            await asyncio.sleep(3600.0)
            self.emit("progress", hours=self.now() / 3600)
            if self.stopped:
                return
        await asyncio.sleep(3600.0)
        if self.my_end == "hang":
            await asyncio.Event().wait()
        if self.my_end == "fail":
            raise ProgramFailed("no ink")
        if self.my_end == "crash":
            raise ValueError("broken pen")

    stopped = False

    async def on_start(self):
        self.emit("opened", at=self.now())

    async def on_wind_down(self, message: WindDown, envelope: Envelope) -> None:
        self.stopped = True

ROLES = {"clerk": Clerk}

def plan(config, options):
    return Topology("office", (ActorSpec("clerk", "clerk", {"end": config.run.name}),), (), "clerk")
'''
CLUSTER = 'program = "office"\n[run]\nname = "{end}"\n[simulation]\nclock = "virtual"\n'

VIRTUAL = {"clock": "virtual"}


def office(folder: Path, end: str) -> Path:
    """A cluster.toml whose only actor ends in this way."""
    (folder / "office.py").write_text(PROGRAM)
    cluster = folder / "cluster.toml"
    cluster.write_text(CLUSTER.format(end=end))
    return cluster


def test_a_run_of_an_hour_is_over_at_once_and_leaves_a_run_directory(tmp_path: Path) -> None:
    cluster = office(tmp_path, "well")
    done = run_up(cluster)
    assert (done.returncode, done.stderr) == (0, "")
    assert "simulated 3600 s in" in done.stdout
    directory = run_directory(cluster)
    assert {"config.toml", "versions.json", "plan.json", "events.jsonl", "convoy.log"} <= {
        path.name for path in directory.iterdir()
    }
    assert events(directory, "opened") == [
        {"t": 0.0, "actor": "clerk", "event": "opened", "at": 0.0}
    ]
    assert json.loads((directory / "plan.json").read_text())["clock"] == "virtual"


@pytest.mark.parametrize(
    ("end", "code", "said"),
    [
        ("fail", 1, "clerk: no ink\n"),
        (
            "crash",
            4,
            r"clerk failed: \S*office\.py:\d+, in run: ValueError: broken pen\n  its log: ",
        ),
        ("hang", 1, "every actor waits and no event is due\n"),
    ],
)
def test_a_run_that_goes_wrong_ends_in_words_with_its_exit_code(
    tmp_path: Path, end: str, code: int, said: str
) -> None:
    cluster = office(tmp_path, end)
    done = run_up(cluster)
    assert done.returncode == code
    assert re.match(said, done.stderr)
    assert "Traceback" not in done.stderr
    assert ("Traceback" in (run_directory(cluster) / "convoy.log").read_text()) is (end == "crash")
    (failed,) = events(run_directory(cluster), "failed")
    assert failed["t"] == 3600.0


@contextmanager
def in_its_virtual_years(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """`up` of a run without end that has begun. The process is waited for afterwards."""
    command = runtime_command("up", office(folder, "never").name)
    with subprocess.Popen(
        command, cwd=folder, env=environment(), stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        while not process.stdout.readline().startswith("progress"):
            pass
        yield process
        process.stdout.read()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_winds_a_run_down_in_the_middle_of_its_virtual_years(
    tmp_path: Path, number: signal.Signals
) -> None:
    with in_its_virtual_years(tmp_path) as process:
        process.send_signal(number)
    assert process.returncode == 128 + number


def test_its_only_process_is_up(tmp_path: Path) -> None:
    with in_its_virtual_years(tmp_path) as process:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
        process.terminate()
    assert children == ""


def test_a_script_runs_on_virtual_time_and_talks_to_its_actors(tmp_path: Path) -> None:
    async def main() -> tuple[int, float]:
        async with made:
            total = await made.ask("two", Add(number=3), Total)
            await made.tell("one", Add(number=10))
        return total.total, asyncio.get_running_loop().time()

    far = {"clock": "virtual", "latency": 1.0}
    made = launch(adders(), directory=tmp_path, simulation=far)
    with asyncio.Runner(loop_factory=made.loop_factory) as runner:
        # the caller is outside the cluster, so its ask takes no time of the network
        assert runner.run(main()) == (103, 0.0)
    assert [event["total"] for event in events(made.directory, "sum")] == [10]


def test_a_run_on_virtual_time_in_a_script_needs_no_separate_loop_and_fails_like_any_run(
    tmp_path: Path,
) -> None:
    topology = Topology("tests.helpers.adders", (ActorSpec("one", "broken"),), (), "one")
    seen: list[str] = []
    with pytest.raises(
        RoleDied,
        match=r"one failed: \S*adders\.py:\d+, in \w+: ValueError: no such number: 7\n  its log: ",
    ):
        run(
            topology,
            on_event=lambda event: seen.append(event.name),
            directory=tmp_path,
            simulation=VIRTUAL,
        )
    assert seen == ["failed"]


@pytest.mark.parametrize(("clock", "loop"), [("virtual", "real"), ("real", "virtual")])
def test_a_run_on_a_loop_with_another_kind_of_time_is_refused(
    tmp_path: Path, clock: str, loop: str
) -> None:
    made = launch(adders(), directory=tmp_path, simulation={"clock": clock}, processes="here")
    factory = VirtualTimeLoop if loop == "virtual" else asyncio.new_event_loop
    said = f"simulation.clock is '{clock}', but this event loop has {loop} time"
    with asyncio.Runner(loop_factory=factory) as runner, pytest.raises(ConvoyError, match=said):
        runner.run(made.start())
    assert not list(tmp_path.iterdir())
