"""Machines that are pods: their Kubernetes objects compared with the published schemas, and runs
whose containers are started by hand."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.helpers.machines import Refused, machines
from runtime.cluster.kubernetes.objects import job_set, pods_of, secret
from runtime.config.file import load
from tests.helpers.far_machines import Far, folders
from tests.helpers.kubernetes_cluster import FAULTS, installed, mistakes
from tests.helpers.slurm_cluster import until
from tests.helpers.support import (
    configure,
    environment,
    events,
    run_directory,
    runtime_command,
    train,
)

HEAD = """
[launcher]
kind = "kubernetes"
{launcher}
[launcher.kubernetes]
image = "convoy:1"
{more}
"""
MACHINES = """
[[machine]]
hosts = "w[0-1]"
cores = 1
python = "{python}"
environment = {{ PYTHONPATH = "{path}", OPENBLAS_NUM_THREADS = "1" }}
"""
FULL = """
namespace = "ours"
service_account = "runner"
node_selector = { zone = "a" }
tolerations = [{ key = "gpu", operator = "Exists" }]
resources = { memory = "8Gi" }
volumes = { "/data" = "digits", "/scratch" = { emptyDir = {} } }
"""

# stated explicitly, since other tests give this host more addresses for a while
HERE = 'address = "127.0.0.1"'


def far(launcher: str = HERE, more: str = "", python: str = sys.executable) -> str:
    """The tables of two machines that are pods."""
    where = MACHINES.format(python=python, path=environment()["PYTHONPATH"])
    return HEAD.format(launcher=launcher, more=more) + where


def learning(folder: Path, preset: str, more: str) -> Path:
    """A cluster.toml of a run that learns the digits in 150 iterations."""
    path = configure(folder, preset, workers=2, iterations=150, test=True, batch=64, more=more)
    solver = folder / "solver.prototxt"
    text = (
        solver.read_text()
        .replace("0.01 ", "0.03 ")
        .replace("snapshot", ("test_iter: 4 test_interval: 150 snapshot"))
    )
    solver.write_text(re.sub("lr_policy.*", 'lr_policy: "step" gamma: 0.1 stepsize: 100', text))
    path.write_text(path.read_text() + "reproducible = true\n")
    return path


def started(path: Path, folder: Path, **more: str) -> subprocess.CompletedProcess[str]:
    words = runtime_command("up", path.name)
    return subprocess.run(
        words,
        cwd=path.parent,
        env=installed(folder) | more,
        capture_output=True,
        text=True,
        timeout=200,
    )


def test_objects_of_a_run_are_valid_and_an_unknown_field_is_not(tmp_path: Path) -> None:
    path = tmp_path / "cluster.toml"
    card = (
        '[[machine]]\nname = "g"\naddress = "auto"\ndevices = ["cuda:0", '
        '"cuda:1"]\ndirectory = "/data/run"\n'
    )
    path.write_text(far(more=FULL) + card)
    config = load(path)
    assert config.launcher.kubernetes is not None
    made = job_set("convoy-x", config.machine, "10.0.0.1:4000", config.launcher.kubernetes)
    pods = pods_of("convoy-x", config.machine)
    key = secret(pods, {"w0": "a", "w1": "b", "g": "c"}, "some-uid")
    assert mistakes(made) == mistakes(key) == []
    assert key["stringData"] == {"m0-0": "w0\na\n", "m0-1": "w1\nb\n", "m1-0": "g\nc\n"}
    first, second = (job["template"]["spec"] for job in made["spec"]["replicatedJobs"])
    assert (first["completions"], first["parallelism"], first["completionMode"]) == (
        2,
        2,
        "Indexed",
    )
    limits = [
        job["template"]["spec"]["containers"][0]["resources"]["limits"] for job in (first, second)
    ]
    assert limits == [{"cpu": "1", "memory": "8Gi"}, {"nvidia.com/gpu": "2", "memory": "8Gi"}]
    made["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["restartpolicy"] = (
        "Never"
    )
    made["spec"]["maxRestart"] = 0
    assert len(mistakes(made)) == 2


def test_a_kubernetes_without_an_image_is_a_mistake_with_its_line(tmp_path: Path) -> None:
    path = configure(tmp_path, "sync", workers=2, more='[launcher]\nkind = "kubernetes"\n')
    done = subprocess.run(
        runtime_command("check", path.name),
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert (
        "cluster.toml:2: launcher.kind" in done.stderr
        and "needs launcher.kubernetes" in done.stderr
    )


@pytest.mark.slow
@pytest.mark.parametrize("fault", [*FAULTS, "image", "unschedulable", "no-kubectl", "no-python"])
def test_the_reason_why_pods_do_not_start_is_one_line_and_nothing_is_left(
    tmp_path: Path, fault: str
) -> None:
    expected = {
        "no-job-sets": "the cluster has no JobSet",
        "forbidden": r"Forbidden.*\(`.* docs cluster` has the role",
        "namespace": r'namespaces "x" not found \(see launcher.kubernetes.namespace\)',
        "image": "machine 'w.': pod .* waits: ImagePullBackOff: Back-off pulling image",
        "unschedulable": (
            r"not ready within 20 s: pod .* waits: Unschedulable: 0/3 nodes are " r"available"
        ),
        "no-kubectl": "kubectl cannot be started",
        "no-python": r"machine 'w.': pod .*: Error \(exit code 127\): .*python9: not found",
    }[fault]
    folder = tmp_path / "cluster"
    python = "python9" if fault == "no-python" else sys.executable
    # only "unschedulable" is reported when the time is up; the stand-in for kubectl starts a Python
    # for each of its three calls
    seconds = 20 if fault == "unschedulable" else 60
    launcher = f"{HERE}\nstart_seconds = {seconds}"
    path = configure(tmp_path / "run", "sync", workers=2, more=far(launcher, python=python))
    folder.mkdir()
    (folder / "fault").write_text("" if fault == "no-python" else fault)
    done = started(path, folder, **({"PATH": "/nowhere"} if fault == "no-kubectl" else {}))
    assert done.returncode == 3, done.stderr
    assert re.search(expected, done.stderr.splitlines()[-1]), done.stderr
    # with one warning before it
    assert len(done.stderr.splitlines()) == 1 + (fault == "unschedulable"), done.stderr
    assert list((folder / "objects").iterdir()) == folders() == []


@pytest.mark.slow
def test_pods_learn_the_digits_as_one_process_does_and_leave_nothing(tmp_path: Path) -> None:
    try:
        with machines(2, 10**9) as made:
            host = f"{made[0].address.rpartition('.')[0]}.254"
            path = learning(tmp_path / "far", "sync", far(f'address = "{host}"'))
            folder = tmp_path / "cluster"
            folder.mkdir()
            (folder / "namespaces").write_text("\n".join(machine.namespace for machine in made))
            done = started(path, folder)
    except Refused as why:
        pytest.skip(f"no machines here: {why}")
    assert (done.returncode, done.stderr) == (0, "")
    directory = run_directory(path)
    single = train(learning(tmp_path / "single", "single", ""), checkpoint=False)
    assert [event["loss"] for event in events(directory, "progress")] == single.losses()
    accuracy = events(directory, "finished")[0]["accuracy"]
    assert accuracy == single.journal.of("finished")[0]["accuracy"] >= 0.975
    assert list((folder / "objects").iterdir()) == folders() == []
    kept = [
        *directory.rglob("*.log"),
        *directory.glob("*.json*"),
        *folder.glob("*.log"),
        folder / "calls",
    ]
    assert [
        str(file) for file in kept if re.search("[0-9a-f]{64}", file.read_text(errors="replace"))
    ] == []


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["pod", "up"])
def test_a_pod_that_dies_is_reported_with_its_reason_and_pods_end_with_up(
    tmp_path: Path, victim: str
) -> None:
    folder = tmp_path / "cluster"
    try:
        with machines(2, 10**9) as made:
            tables = far(f'address = "{made[0].address.rpartition(".")[0]}.254"')
            path = configure(tmp_path / "far", "sync", workers=2, iterations=10**6, more=tables)
            environ = installed(folder)
            (folder / "namespaces").write_text("\n".join(machine.namespace for machine in made))
            pipe = subprocess.PIPE
            words = runtime_command("up", path.name)
            with subprocess.Popen(
                words, cwd=path.parent, env=environ, stdout=pipe, stderr=pipe, text=True
            ) as up:
                assert up.stdout is not None and up.stderr is not None
                for line in up.stdout:
                    if "iteration 3/" in line:
                        break
                pod = json.loads((folder / "objects" / "pod-m0-1.json").read_text())["pid"]
                os.kill(pod if victim == "pod" else up.pid, signal.SIGKILL)
                code = up.wait(60)
                said = up.stderr.read()
            left = Far(made, folder)
            until(lambda: not left.living())
    except Refused as why:
        pytest.skip(f"no machines here: {why}")
    assert folders() == []
    if victim == "up":
        phases = [
            json.loads(file.read_text())["status"]["phase"]
            for file in (folder / "objects").glob("pod-*")
        ]
        assert (code, phases) == (-signal.SIGKILL, ["Failed", "Failed"])
        return
    assert code == 4, said
    assert re.search(r"lost with its machine 'w1': pod .*: OOMKilled .exit code 137", said), said
    assert list((folder / "objects").iterdir()) == []
