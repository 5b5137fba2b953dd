"""Machines that are nodes of a real Ray cluster of two nodes. The tests are skipped without Ray.
Ray is in no `dev` extra, since it is larger than everything else together."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.helpers.machines import Refused
from tests.helpers.ray_cluster import Cluster, ray_cluster
from tests.helpers.support import (
    ROOT,
    configure,
    environment,
    events,
    run_directory,
    run_up,
    runtime_command,
    train,
)

pytest.importorskip("ray", reason="the package ray is not installed")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    try:
        with ray_cluster() as made:
            yield made
    except Refused as why:
        pytest.skip(f"no Ray cluster here: {why}")


@pytest.fixture(autouse=True)
def temporary(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """A private temporary folder, so that files of other runs are not counted."""
    monkeypatch.setenv("TMPDIR", str(cluster.folder))


def left(cluster: Cluster) -> list[str]:
    """The remains of the run after Ray has noticed its end: living processes, folders, a placement
    group."""
    script = (
        "import ray, sys\nray.init(sys.argv[1], log_to_driver=False)\n"
        "print([g['state'] for g in ray.util.placement_group_table().values() if g['state'] "
        "!= 'REMOVED'])"
    )
    deadline = time.monotonic() + 30
    while True:
        groups = subprocess.run(
            [*runtime_command()[:1], "-c", script, cluster.address],
            capture_output=True,
            text=True,
            check=True,
        )
        found = [*cluster.left(), *([groups.stdout] if groups.stdout.strip() != "[]" else [])]
        if not found or time.monotonic() > deadline:
            return found


@pytest.mark.parametrize("way", ["node", "client"])
def test_a_run_on_a_ray_cluster_has_the_numbers_of_one_process_and_leaves_nothing(
    tmp_path: Path, cluster: Cluster, way: str
) -> None:
    iterations = 500 if way == "node" else 3
    more = "reproducible = true\n"
    address = cluster.address if way == "node" else cluster.clients
    tables = cluster.tables(f'ray = {{ address = "{address}" }}\naddress = "{cluster.host}"')
    path = configure(
        tmp_path / "far",
        "sync",
        workers=2,
        iterations=iterations,
        batch=64,
        test=way == "node",
        more=tables,
    )
    path.write_text(path.read_text() + more)
    single = configure(tmp_path / "single", "single", iterations=3, batch=64)
    single.write_text(single.read_text() + more)
    done = run_up(path, timeout=200)
    assert (done.returncode, done.stderr) == (0, "")
    directory = run_directory(path)
    losses = [event["loss"] for event in events(directory, "progress")]
    assert losses[:3] == train(single).losses()
    if way == "node":
        assert events(directory, "test")[-1]["accuracy"] >= 0.975
    assert left(cluster) == []
    keys = re.compile("[0-9a-f]{64} [0-9a-f]{64}")
    kept = [
        *cluster.temporary.rglob("*.log"),
        *cluster.temporary.rglob("*.out"),
        *cluster.temporary.rglob("*.err"),
    ]
    assert [
        str(file)
        for file in (*kept, directory / "logs" / "ray.log")
        if keys.search(file.read_text("latin1"))
    ] == []


def test_resources_that_never_become_free_are_reported_with_the_request_and_the_present_ones(
    tmp_path: Path, cluster: Cluster
) -> None:
    tables = cluster.tables(
        (f'ray = {{ address = "{cluster.address}" }}\nstart_seconds = 20'), cores=3
    )
    done = run_up(configure(tmp_path, "sync", workers=2, iterations=3, more=tables))
    assert done.returncode == 3
    (line,) = done.stderr.splitlines()
    assert (
        "was not ready within 20 s: Ray has no room yet: asked for 2 of 3 CPU, each on a "
        "separate node"
    ) in line
    assert f"{cluster.host} has 1 CPU" in line and f"{cluster.far.address} has 1 CPU" in line
    assert left(cluster) == []


def test_a_cluster_that_does_not_answer_is_reported(tmp_path: Path, cluster: Cluster) -> None:
    tables = cluster.tables(
        f'ray = {{ address = "{cluster.host}:1" }}\nstart_seconds = 8\naddress = "{cluster.host}"'
    )
    done = run_up(configure(tmp_path, "sync", workers=2, iterations=3, more=tables))
    assert done.returncode == 3
    (line,) = done.stderr.splitlines()
    assert f"Ray does not answer at {cluster.host}:1" in line


@pytest.mark.parametrize("victim", ["up", "driver", "raylet"])  # the last one takes a node away
def test_a_killed_process_of_a_run_on_ray_is_reported_and_nothing_is_left(
    tmp_path: Path, cluster: Cluster, victim: str
) -> None:
    tables = cluster.tables(f'ray = {{ address = "{cluster.address}" }}')
    path = configure(tmp_path, "sync", workers=2, iterations=100_000, more=tables)
    with subprocess.Popen(
        runtime_command("up", path.name),
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as up:
        assert up.stdout is not None and up.stderr is not None
        for line in up.stdout:
            if "iteration 3/" in line:
                break
        drivers = [
            int(pid)
            for pid in subprocess.check_output(["pgrep", "-P", str(up.pid)], text=True).split()
        ]
        driver = next(
            pid for pid in drivers if b"ray_driver" in Path(f"/proc/{pid}/cmdline").read_bytes()
        )
        os.kill(
            {"up": up.pid, "driver": driver, "raylet": cluster.far_raylet}[victim], signal.SIGKILL
        )
        code = up.wait(60)
        said = up.stderr.read()
    if victim == "up":
        assert code == -signal.SIGKILL
    else:
        assert code == 4
        assert "Traceback" not in said
        assert "machine 'm" in said
        assert len(said.splitlines()) == 1
    assert left(cluster) == []


def test_ray_is_imported_by_its_driver_only() -> None:
    script = "import runtime.cluster.launchers.ray, sys; sys.exit('ray' in sys.modules)"
    assert (
        subprocess.run([*runtime_command()[:1], "-c", script], cwd=ROOT, check=False).returncode
        == 0
    )
