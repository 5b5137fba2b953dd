"""A run whose processes are on other machines: its logs, stacks and traces are transferred to this
machine."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from benchmarks.helpers.machines import Refused, machines
from tests.helpers.chrome_trace import check, closed
from tests.helpers.far_machines import Far, folders, program
from tests.helpers.support import run_directory, runtime_command

CLUSTER = """program = "tests.helpers.idle_watched"
{tables}{places}[launcher]
kind = "ssh"
[liveness]
missed = 400
"""
PLACE = '[[process]]\nname = "{actor}"\nmachine = "m{number}"\nactors = ["{actor}"]\n'


@pytest.mark.slow
def test_logs_stacks_and_traces_of_other_machines_come_here(tmp_path: Path) -> None:
    """A program takes the place of ssh, so sshd itself is not tested."""
    try:
        with machines(2, 10**9) as made:
            enter = '*) exec ip netns exec {} sh -c "$last";;'
            cases = [
                (f'*" m{number} "{enter.format(machine.namespace)}')
                for number, machine in enumerate(made)
            ]
            program(
                tmp_path / "bin" / "ssh",
                (f'for last; do :; done; case "$*" in {" ".join(cases)} esac'),
            )
            far = Far(made, tmp_path)
            tables = far.tables(more=f'directory = "{tmp_path}"\n')
            homes = {"lead": 0, "busy": 0, "asker": 1, "deaf": 1, "stuck": 1}
            places = "".join(
                PLACE.format(actor=actor, number=number) for actor, number in homes.items()
            )
            (tmp_path / "cluster.toml").write_text(CLUSTER.format(tables=tables, places=places))
            looked_at(far, tmp_path)
            assert far.living() == [] and folders() == []
    except Refused as why:
        pytest.skip(f"no machines here: {why}")


def looked_at(far: Far, folder: Path) -> None:
    """Check the output of the commands for such a run."""

    def said(*words: str) -> str:
        command = runtime_command(*words)
        done = subprocess.run(
            command, cwd=folder, env=far.path(), capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    log = folder / "up.txt"
    with log.open("wb") as told:
        up = subprocess.Popen(
            runtime_command("up"), cwd=folder, env=far.path(), stdout=told, stderr=told
        )
    try:
        following = subprocess.Popen(
            ["tail", "-f", "-n", "+1", log], stdout=subprocess.PIPE, text=True
        )
        assert following.stdout is not None
        for line in following.stdout:
            if line.startswith("began"):
                break
            assert up.poll() is None, log.read_text()
        following.kill()
        following.communicate()
        said("trace", "start")
        stacks = said("stack")
        assert "asker: waits for deaf (Unanswered) for " in stacks
        assert stacks.count("in _lifeline") == 5
        assert " 5 processes" in said("trace", "stop")
    finally:
        up.terminate()
        up.wait()
    directory = run_directory(folder / "cluster.toml")
    events = closed(directory / "trace.json")
    check(events)
    named = [event["args"]["name"] for event in events if event["name"] == "process_name"]
    assert sorted(named) == ["asker", "busy", "deaf", "lead", "stuck"]
    labels = [event["args"]["labels"] for event in events if event["name"] == "process_labels"]
    assert len(labels) == 5 and all(
        re.fullmatch(r"clock within [\d.e-]+ ms", label) for label in labels
    )
    assert "halting" in said("logs", directory.name, "deaf")
