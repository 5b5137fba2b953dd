"""A run that is operated from another network, over a separate cable, with only a copy of the
key."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from benchmarks.helpers.machines import Machine, Refused, machines
from nets.files import checkpoint
from runtime.cluster.operators.operator_key import FILE
from tests.helpers.support import ROOT, configure, environment, run_directory, runtime_command


@pytest.mark.slow
def test_a_run_is_watched_saved_scaled_and_ended_from_another_network(tmp_path: Path) -> None:
    try:
        with machines(1, 10**9) as (there,):
            here = there.address.rpartition(".")[0] + ".254"
            operators = f'[operators]\naddress = "{here}"\n'
            cluster = configure(
                tmp_path / "up", "sync", workers=1, iterations=10**6, paced=True, more=operators
            )
            words = runtime_command("up", str(cluster))
            with subprocess.Popen(
                words, cwd=cluster.parent, env=environment(), stdout=subprocess.PIPE, text=True
            ) as up:
                assert up.stdout is not None
                try:
                    for line in up.stdout:
                        if line.startswith("progress"):
                            break
                    operated(there, cluster, tmp_path / "elsewhere", here)
                    assert up.wait(60) == 0
                finally:
                    up.kill()
    except Refused as why:
        pytest.skip(f"no network namespaces here: {why}")


def operated(there: Machine, cluster: Path, folder: Path, here: str) -> None:
    """Operate the run from a folder on that machine."""
    folder.mkdir()
    first = run_directory(cluster)
    key = folder / "mine.key"
    key.write_bytes((first / FILE).read_bytes())
    key.chmod(0o600)
    assert json.loads(key.read_text())["address"].startswith(f"{here}:")

    def command(*words: str) -> list[str]:
        return [
            "ip",
            "netns",
            "exec",
            there.namespace,
            *runtime_command(*words, "--connect", str(key)),
        ]

    def said(*words: str) -> str:
        environ = {**environment(), "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            command(*words), cwd=folder, env=environ, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    # a file, since a pipe that is not read would stop the command when it is full
    told = folder / "told"
    with told.open("w") as output:
        following = subprocess.Popen(
            command("events", "-f", "--json"),
            cwd=folder,
            env={**os.environ, **environment()},
            stdout=output,
        )
    try:
        assert said("status").startswith(f"{first.name}  running")
        assert (
            "process conv-0-0: pid " in (stacks := said("stack", "conv-0-0"))
            and "Thread compute" in stacks
        )
        checkpoint.verify(Path(said("save").strip()))
        assert f"{first.parent}/" in (scaled := said("scale", "--workers", "2"))
        assert said("status").startswith(f"{Path(scaled.partition(': ')[0]).name}  running")
        assert "has ended; last checkpoint: " in said("down")
        assert following.wait(60) == 0
    finally:
        following.kill()
        following.wait()
    names = [json.loads(line)["event"] for line in told.read_text().splitlines()]
    assert names.count("began") == 2 and "continued" in names and names.count("finished") == 1
