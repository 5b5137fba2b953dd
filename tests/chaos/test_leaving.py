"""Machines that get SIGTERM, leave the run and come back. They are network namespaces in which a
double of ssh starts the agents.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from benchmarks.helpers.machines import Machine, machines
from benchmarks.helpers.ssh_double import SshDouble
from benchmarks.helpers.survivor import Survivor, events
from runtime.cli.main import main
from tests.helpers.far_machines import RECOVERING, or_skip
from tests.helpers.support import configure, environment

pytestmark = pytest.mark.slow
GRACE = 30.0  # seconds that a cloud grants between SIGTERM and the end of the machine
TABLE = """[[machine]]
name = "m{number}"
address = "{address}"
threads = 1
cores = 1
python = "{python}"
directory = "{directory}"
environment = {{ PYTHONPATH = "{path}", CONVOY_THREADS = "1" }}
"""


@dataclass(frozen=True)
class Site:
    """Machines that a double of ssh reaches."""

    machines: list[Machine]
    ssh: SshDouble

    @staticmethod
    def of(machines: list[Machine], folder: Path) -> Site:
        """The machines m0, m1 ... with a double of ssh in a folder."""
        hosts = {f"m{number}": machine.namespace for number, machine in enumerate(machines)}
        return Site(machines, SshDouble(folder, hosts))

    def run(self, folder: Path, wanted: str, restarts: int = 0) -> Survivor:
        """A run over both machines that has begun to train."""
        configure(folder, "single", iterations=1_000_000, paced=True)
        paths = {"python": sys.executable, "directory": folder, "path": environment()["PYTHONPATH"]}
        tables = "".join(
            TABLE.format(number=number, address=machine.address, **paths)
            for number, machine in enumerate(self.machines)
        )
        (folder / "cluster.toml").write_text(
            tables + RECOVERING.format(machines=wanted, restarts=restarts)
        )
        run = Survivor(folder / "cluster.toml", self.ssh.path(environment()))
        run.until("progress ")
        return run

    def agent(self, number: int) -> int:
        """The pid of a machine's agent. It is older than all processes that it has forked."""
        found = subprocess.run(
            ["ip", "netns", "pids", self.machines[number].namespace],
            capture_output=True,
            text=True,
            check=True,
        )
        for pid in sorted(map(int, found.stdout.split()), key=started):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
            if "join" in words and "sh" not in words[0].rpartition("/")[2]:
                return pid
        raise AssertionError(f"no agent on m{number}")

    def down(self, number: int) -> Path:
        """A file; while it exists, the machine cannot be reached."""
        return self.ssh.down(f"m{number}")


def started(pid: int) -> int:
    """When the process started, in clock ticks since boot."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("site")
    with or_skip(machines(2, 10**9)) as made:
        yield Site.of(made, folder)


def plan_of(run: Survivor) -> str:
    return (run.newest / "plan.json").read_text()


def test_a_machine_that_gets_sigterm_leaves_within_its_grace_and_comes_back_on_request(
    tmp_path: Path, two: Site, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = two.run(tmp_path, "reachable")
    try:
        agent = two.agent(1)
        first = run.newest
        os.kill(agent, signal.SIGTERM)
        told = time.monotonic()
        run.until(r"leaving +machine m1 ")
        at = re.search(r"at iteration (\d+)", run.until(r"scaled +without m1 "))
        assert at is not None
        after = run.until("progress ")
        assert after.split()[2].startswith(f"{int(at[1]) + 1}/"), "no iteration is lost"
        assert time.monotonic() - told < GRACE
        with pytest.raises(AssertionError, match="no agent on m1"):
            two.agent(1)
        assert events(first, "failed") == []
        assert '"m1"' not in plan_of(run)
        monkeypatch.chdir(tmp_path)
        assert main(["scale", "--with", "m1"]) == 0
        assert "continues at iteration" in capsys.readouterr().out
        run.until(r"scaled +with m1 ")
        run.until("progress ")
        assert two.agent(1) != agent
        assert main(["scale", "--without", "m1"]) == 0
        run.until(r"scaled +without m1 ")
        run.until("progress ")
        two.down(1).touch()
        assert main(["scale", "--with", "m1"]) == 1
        assert "could not begin: machine 'm1'" in capsys.readouterr().err
        run.until(r"(scaled +after|restart +goes on without machine 'm1')")
        run.until("progress ")
        run.process.terminate()
        assert run.end()[0] == 143
    finally:
        two.down(1).unlink(missing_ok=True)
        run.stop()


def test_where_all_machines_are_wanted_the_run_saves_and_waits_for_a_replacement(
    tmp_path: Path, two: Site
) -> None:
    run = two.run(tmp_path, "all", restarts=9)
    try:
        first = run.newest
        two.down(1).touch()
        os.kill(two.agent(1), signal.SIGTERM)
        run.until(r"leaving +machine m1 ")
        run.until(r"restart +\d of 9 within 600 s, in 1 s")
        two.down(1).unlink()
        at = max(int(path.name[11:18]) for path in first.glob("checkpoint-*.safetensors"))
        after = run.until("progress ")
        assert after.split()[2].startswith(f"{at + 1}/"), "no iteration is lost"
        assert two.agent(1)
        assert not any(
            "why" in event for directory in run.directories for event in events(directory, "scaled")
        )
    finally:
        two.down(1).unlink(missing_ok=True)
        run.stop()


def test_a_run_that_cannot_go_on_without_a_machine_saves_before_that_machine_leaves(
    tmp_path: Path, two: Site
) -> None:
    run = two.run(tmp_path, "all")
    try:
        os.kill(two.agent(1), signal.SIGTERM)
        run.until(r"leaving +machine m1 ")
        run.until(
            r"warning +supervisor: machine 'm1' leaves, and the run cannot go on "
            r"without it: .* is saved"
        )
        run.until(r"checkpoint ")
        os.kill(two.agent(1), signal.SIGTERM)  # a second SIGTERM ends the agent
        _, line = run.named("process ")
        assert "is lost with its machine 'm1': its agent was ended by SIGTERM" in line
        assert run.end()[0] == 4
    finally:
        run.stop()
