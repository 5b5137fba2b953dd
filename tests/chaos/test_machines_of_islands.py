"""Machines of islands that get SIGTERM or fall asleep, and come back while the run goes on. They are
network namespaces in which a double of ssh starts the agents."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from benchmarks.helpers.machines import machines
from benchmarks.helpers.survivor import Survivor, events
from runtime.cli.main import main
from tests.chaos.test_leaving import TABLE, Site
from tests.helpers.far_machines import or_skip
from tests.helpers.support import environment
from tests.journeys.training.test_islands import islands

pytestmark = pytest.mark.slow
LAUNCHER = """[launcher]
kind = "ssh"
[liveness]
link_seconds = 2
"""


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("site")
    with or_skip(machines(3, 10**9)) as made:
        yield Site.of(made, folder)


def run_on(site: Site, folder: Path) -> Survivor:
    """A run with an island on each machine that has begun to train."""
    settings = environment()
    tables = "".join(
        TABLE.format(
            number=number,
            address=machine.address,
            python=sys.executable,
            directory=folder,
            path=settings["PYTHONPATH"],
        )
        for number, machine in enumerate(site.machines)
    )
    cluster = islands(
        folder,
        workers=3,
        iterations=1_000_000,
        momentum=0.0,
        paced=True,
        keys="period = 2\n",
        more=tables + LAUNCHER,
    )
    run = Survivor(cluster, site.ssh.path(settings))
    run.until("progress ")
    return run


def processes_of(site: Site, number: int) -> list[int]:
    found = subprocess.run(
        ["ip", "netns", "pids", site.machines[number].namespace],
        capture_output=True,
        text=True,
        check=True,
    )
    return list(map(int, found.stdout.split()))


def test_a_machine_that_gets_sigterm_leaves_and_rejoins_on_request(
    tmp_path: Path, three: Site, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = run_on(three, tmp_path)
    try:
        os.kill(three.agent(2), signal.SIGTERM)
        run.until(r"leaving +machine m2 ")
        run.until("left ")
        run.until("progress ")
        monkeypatch.chdir(tmp_path)
        assert main(["scale", "--with", "m2"]) == 0
        assert "goes on with machine 'm2'" in capsys.readouterr().out
        run.until("joined ")
        run.until("progress ")
        assert len(run.directories) == 1, "no other run has followed"
        run.process.terminate()
        assert run.end()[0] == 143
    finally:
        run.stop()


def test_a_machine_that_sleeps_is_left_aside_and_joins_again_by_itself(
    tmp_path: Path, three: Site
) -> None:
    run = run_on(three, tmp_path)
    asleep = processes_of(three, 2)
    try:
        for pid in asleep:
            os.kill(pid, signal.SIGSTOP)
        run.until("left ")
        run.until("progress ")
        run.until("joined ")
        for pid in asleep:  # what it sends now is of a former life
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        asleep = []
        run.until("progress ")
        assert len(run.directories) == 1, "no other run has followed"
        assert len(events(run.newest, "left")) == 1
        (text,) = (event["text"] for event in events(run.newest, "warning"))
        assert text.endswith("; the run goes on without it until machine 'm2' is back"), (
            "a lost machine does not count as a death of its process"
        )
        run.process.terminate()
        assert run.end()[0] == 143
    finally:
        for pid in asleep:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        run.stop()
