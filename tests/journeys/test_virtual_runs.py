"""`up` on the virtual clock: how it ends, by itself and otherwise, and what it leaves."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest

from runtime import ActorSpec, ConfigError, Topology, launch
from tests.support import environment, events, run_directory, run_up, runtime_command

PROGRAM = '''
"""One actor that does what its option says after a virtual hour."""
import asyncio
from runtime import Actor, ActorSpec, Envelope, ProgramFailed, Topology, WindDown

class Clerk(Actor):
    def __init__(self, *, end):
        self.end = end

    async def run(self):
        while self.end == "never":
            await asyncio.sleep(3600.0)
            self.emit("progress", hours=self.now() / 3600)
            if self.stopped:
                return
        await asyncio.sleep(3600.0)
        if self.end == "hang":
            await asyncio.Event().wait()
        if self.end == "fail":
            raise ProgramFailed("no ink")
        if self.end == "crash":
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


def office(folder: Path, end: str) -> Path:
    """A cluster.toml whose only actor ends so."""
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
    assert events(directory, "opened") == [{"t": 0.0, "actor": "clerk", "event": "opened", "at": 0.0}]
    assert json.loads((directory / "plan.json").read_text())["clock"] == "virtual"


@pytest.mark.parametrize(
    ("end", "code", "said"),
    [
        ("fail", 1, "clerk: no ink\n"),
        ("crash", 4, "clerk failed: ValueError: broken pen\n  its log: "),
        ("hang", 1, "every actor waits and no event is due\n"),
    ],
)
def test_a_run_that_goes_wrong_ends_in_words_with_its_exit_code(tmp_path: Path, end: str, code: int, said: str) -> None:
    cluster = office(tmp_path, end)
    done = run_up(cluster)
    assert done.returncode == code
    assert done.stderr.startswith(said)
    assert "Traceback" not in done.stderr
    assert ("Traceback" in (run_directory(cluster) / "convoy.log").read_text()) is (end == "crash")
    (failed,) = events(run_directory(cluster), "failed")
    assert failed["t"] == 3600.0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_winds_a_run_down_in_the_middle_of_its_virtual_years(tmp_path: Path, number: signal.Signals) -> None:
    cluster = office(tmp_path, "never")
    command = runtime_command("up", cluster.name)
    with subprocess.Popen(command, cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        while not process.stdout.readline().startswith("progress"):
            pass
        process.send_signal(number)
        process.stdout.read()
        assert process.wait(30) == 128 + number


def test_a_script_whose_run_would_not_be_virtual_is_told_what_to_use() -> None:
    topology = Topology("office", (ActorSpec("clerk", "clerk"),), (), "clerk")
    with pytest.raises(ConfigError, match=r"a script's runs are real; see runtime\.simulation\.cluster\.simulate"):
        launch(topology, simulation={"clock": "virtual"})
