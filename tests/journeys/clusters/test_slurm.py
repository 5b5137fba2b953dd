"""Runs in jobs of a real Slurm, with a slurmd in each of two network namespaces, and the remains of
the runs."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from benchmarks.helpers.machines import Refused
from tests.helpers.far_machines import folders
from tests.helpers.slurm_cluster import Cluster, slurm_cluster, until
from tests.helpers.support import (
    configure,
    environment,
    events,
    run_directory,
    runtime_command,
    train,
)

pytestmark = pytest.mark.slow
KILLS = int(os.environ.get("CONVOY_KILLS", "1"))  # how often the test kills an srun
TALKING = """
import asyncio, json, os
from runtime import Actor, ActorSpec, Envelope, Message, Topology, message
from runtime.messages.message import WindDown

@message
class Ask(Message):
    pass

@message
class Has(Message):
    found: str

class Place(Actor):
    async def on_ask(self, message: Ask, envelope: Envelope) -> None:
        names = "SLURM_STEP_NODELIST", "SLURM_GPUS_ON_NODE", "MINE"
        found = {name: os.environ.get(name) for name in names} | {"cores": len(os.sched_getaffinity(0))}
        await self.reply(envelope, Has(found=json.dumps(found)))

class Lead(Actor):
    async def run(self):
        (self.run_directory / "found").write_text((await self.ask("there", Ask(), Has)).found)
        if "STAY" in os.environ:
            await asyncio.Event().wait()
        self.finish()

    async def on_wind_down(self, message: WindDown, envelope: Envelope) -> None:
        self.finish()

ROLES = {"place": Place, "lead": Lead}

def plan(config, options):
    return Topology(__name__, (ActorSpec("lead", "lead"), ActorSpec("there", "place")), (("lead", "there"),), "lead")
"""
NODES = """
program = "talking"
[launcher]
kind = "slurm"
[[machine]]
name = "n0"
[[machine]]
name = "n1"
{more}
[[process]]
name = "p0"
machine = "n0"
actors = ["lead"]
[[process]]
name = "p1"
machine = "n1"
actors = ["there"]
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    try:
        with slurm_cluster(tmp_path_factory.mktemp("slurm") / "cluster") as made:
            yield made
    except Refused as why:
        pytest.skip(f"no Slurm here: {why}")


def talking(folder: Path, more: str = "") -> Path:
    """A cluster.toml of two named actors on two nodes."""
    (folder / "talking.py").write_text(TALKING)
    (folder / "cluster.toml").write_text(NODES.format(more=more))
    return folder / "cluster.toml"


def submit(cluster: Cluster, file: Path, *options: str) -> str:
    """Submit a job whose script `up` wrote. Returns its number. Its output goes to `out` next to
    cluster.toml."""
    words = runtime_command("up", file.name, "--sbatch", "job.sh")
    done = subprocess.run(
        words, cwd=file.parent, env=environment(), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == "    sbatch job.sh"
    return cluster.run("sbatch", "--parsable", "--output=out", *options, "job.sh", cwd=file.parent)


def staying(cluster: Cluster, file: Path, *options: str) -> str:
    """Submit a job and wait until its run has begun. Returns its number. The run does not end by
    itself."""
    job = submit(cluster, file, "--export=ALL,STAY=1", *options)
    until(lambda: any(file.parent.glob("runs/*/found")))
    return job


def said(file: Path) -> str:
    """The last line that a job wrote."""
    return (file.parent / "out").read_text().splitlines()[-1]


def nothing_is_left(cluster: Cluster) -> bool:
    """Wait until no process and no folder of the run is left. Processes that were killed with
    others may end a moment later."""
    until(lambda: not cluster.living() and not folders())
    return True


def test_a_job_of_two_nodes_learns_the_digits_as_one_process_does_and_leaves_nothing(
    tmp_path: Path, cluster: Cluster
) -> None:
    def configured(preset: str, more: str) -> Path:
        file = configure(
            tmp_path / preset, preset, workers=2, iterations=150, batch=64, test=True, more=more
        )
        solver = file.parent / "solver.prototxt"
        text = (
            solver.read_text()
            .replace("0.01 ", "0.03 ")
            .replace("snapshot", ("test_iter: 4 test_interval: 150 snapshot"))
        )
        solver.write_text(re.sub("lr_policy.*", 'lr_policy: "step" gamma: 0.1 stepsize: 100', text))
        file.write_text(file.read_text() + "reproducible = true\n")
        return file

    single = train(configured("single", ""), checkpoint=False)
    file = configured("sync", '[launcher]\nkind = "slurm"\nnodes = 2\n')
    job = submit(cluster, file)
    assert cluster.settled(job) == "COMPLETED 0:0", (file.parent / "out").read_text()
    directory = run_directory(file)
    assert [event["loss"] for event in events(directory, "progress")] == single.losses()
    accuracy = events(directory, "finished")[0]["accuracy"]
    assert accuracy == single.journal.of("finished")[0]["accuracy"] >= 0.975
    assert {event["host"] for event in events(directory, "process")} == {"n0", "n1"}
    assert nothing_is_left(cluster)


def test_a_step_has_all_cores_and_cards_of_the_job_on_its_node_and_the_environment(
    tmp_path: Path, cluster: Cluster
) -> None:
    file = talking(tmp_path, "environment = { MINE = 'a b' }")
    job = submit(cluster, file, "--gpus-per-node=2", "--export=NONE")
    assert cluster.settled(job) == "COMPLETED 0:0", (tmp_path / "out").read_text()
    found = json.loads((run_directory(file) / "found").read_text())
    cores = len(os.sched_getaffinity(0))
    expected = {
        "SLURM_STEP_NODELIST": "n1",
        "SLURM_GPUS_ON_NODE": "2",
        "MINE": "a b",
        "cores": cores,
    }
    assert found == expected
    assert nothing_is_left(cluster)


def test_a_python_that_one_node_lacks_is_reported_in_one_line(
    tmp_path: Path, cluster: Cluster
) -> None:
    file = talking(tmp_path, "python = 'python9'")
    assert cluster.settled(submit(cluster, file)) == "FAILED 3:0"
    assert re.fullmatch(r"machine 'n1': srun n1: .*python9: not found", said(file))
    assert nothing_is_left(cluster)


def test_a_step_that_is_cancelled_ends_the_run_with_slurms_reason(
    tmp_path: Path, cluster: Cluster
) -> None:
    file = talking(tmp_path)
    job = staying(cluster, file)
    cluster.run("scancel", f"{job}.1")
    assert cluster.settled(job) == "FAILED 4:0"
    ended = r"(srun n\d|Slurm has ended its step): STEP [0-9.]+ ON n\d CANCELLED AT"
    assert re.search((rf"is lost with its machine 'n\d': " rf"{ended}"), said(file)), (
        tmp_path / "out"
    ).read_text()
    assert nothing_is_left(cluster)


def test_a_job_that_is_cancelled_reports_it_and_leaves_nothing(
    tmp_path: Path, cluster: Cluster
) -> None:
    """`up` gets SIGTERM together with all other processes. If these can still end well, the run
    ends well; otherwise with Slurm's report about their steps."""
    job = staying(cluster, talking(tmp_path))
    cluster.run("scancel", job)
    assert cluster.settled(job).startswith("CANCELLED")
    told = (tmp_path / "out").read_text()
    assert re.search(rf"JOB {job} ON n0 CANCELLED AT", told)
    assert "SIGTERM: finishing the work under way" in told
    assert nothing_is_left(cluster)


@pytest.mark.parametrize("turn", range(KILLS))
def test_a_killed_srun_ends_the_run_and_its_step(
    tmp_path: Path, cluster: Cluster, turn: int, record_property: Callable[[str, object], None]
) -> None:
    file = talking(tmp_path)
    job = staying(cluster, file)
    srun = subprocess.run(
        ["pgrep", "-f", "srun .*--nodelist=n1"], capture_output=True, text=True, check=True
    )
    os.kill(int(srun.stdout.split()[0]), signal.SIGKILL)
    killed = time.monotonic()
    until(lambda: "is lost with its machine" in said(file))
    record_property("named", time.monotonic() - killed)
    assert nothing_is_left(cluster)
    record_property("gone", time.monotonic() - killed)
    assert cluster.settled(job) == "FAILED 4:0"
    assert "is lost with its machine 'n1': srun n1 killed by SIGKILL" in said(file)


def test_nothing_is_left_of_an_up_that_was_killed(tmp_path: Path, cluster: Cluster) -> None:
    job = staying(cluster, talking(tmp_path))
    up = subprocess.run(
        ["pgrep", "-f", f"up {tmp_path}/cluster.toml"], capture_output=True, text=True, check=True
    )
    os.kill(int(up.stdout.split()[0]), signal.SIGKILL)
    assert cluster.settled(job) == "FAILED 0:9"
    assert nothing_is_left(cluster)


def test_the_signal_before_the_time_limit_ends_a_run_with_a_checkpoint(
    tmp_path: Path, cluster: Cluster
) -> None:
    file = configure(
        tmp_path,
        "sync",
        workers=2,
        iterations=10**6,
        more=('[launcher]\nkind = "slurm"\nnodes = 2\n'),
    )
    job = submit(cluster, file)
    until(lambda: (tmp_path / "out").exists() and "iteration 2/" in (tmp_path / "out").read_text())
    cluster.run("scancel", "--batch", "--signal=TERM", job)
    assert cluster.settled(job) == "FAILED 143:0"
    directory = run_directory(file)
    assert (directory / events(directory, "finished")[0]["checkpoint"]).stat().st_size > 1e6
    assert nothing_is_left(cluster)


def test_a_job_whose_slurmd_has_died_ends_well_when_slurm_gives_the_node_up(
    tmp_path: Path, cluster: Cluster
) -> None:
    """Processes on the node go on, and Slurm grants all processes of the job their time to end.
    This is the last test of the file, since the node stays down."""
    # otherwise Slurm would restart the job
    job = staying(cluster, talking(tmp_path), "--no-requeue")
    cluster.slurmd["n1"].kill()
    assert cluster.settled(job).startswith("NODE_FAIL")
    told = (tmp_path / "out").read_text()
    assert "DUE TO NODE FAILURE" in told
    assert "SIGTERM: finishing the work under way" in told
    assert nothing_is_left(cluster)
