"""A GPU and the CPU in one group, on the stand-in: rows follow the measured speeds."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.chaos.paced import SLOW, slow_down
from benchmarks.helpers.survivor import Survivor
from nets.definition.spec import ZOO
from tests.fake_cuda.processes import TIMEOUT, command, on_fake_cuda
from tests.gpu.test_training import placed
from tests.helpers.support import configure, events, run_directory

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

ON_GPU = '{ "*-0" = "cuda:0" }'
ROWS = r"progress .*rows \w[\w-]*-0 (\d+), \w[\w-]*-1 (\d+)"
# LeNet with a pause at the end of its conv phase, which one process can make longer
PACE = """layer {{ name: "pace" type: "Paced" bottom: "pool2" top: "pool2" include {{ phase: TRAIN }}
  python_param {{ param_str: '{{"seconds": 0.05, "slow": "{}"}}' }} }}
"""


def unequal(folder: Path, preset: str, **options: Any) -> Path:
    """The cluster.toml of two workers, the first of them on a GPU, with rows by throughput."""
    cluster = configure(folder, preset, workers=2, **options)
    cluster.write_text(cluster.read_text() + 'shares = "throughput"\n')
    return placed(cluster, ON_GPU)


@pytest.fixture
def paced(stand_in: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Survivor]:
    cluster = unequal(tmp_path, request.param, iterations=400)
    conv, ip1, fc = (ZOO / "lenet.prototxt").read_text().partition('layer {\n  name: "ip1"')
    pace = PACE.format(tmp_path / SLOW)
    (tmp_path / "paced.prototxt").write_text(f"{conv}{pace}{ip1}{fc}")
    solver = tmp_path / "solver.prototxt"
    solver.write_text(solver.read_text().replace("lenet.prototxt", "paced.prototxt"))
    run = Survivor(cluster, on_fake_cuda(stand_in))
    try:
        yield run
    finally:
        run.stop()


@pytest.mark.parametrize("slow", [0, 1], ids=["GPU", "CPU"])
@pytest.mark.parametrize("paced", ["sync", "replicas"], indirect=True)
def test_rows_move_to_the_faster_of_a_gpu_and_a_cpu(paced: Survivor, slow: int) -> None:
    paced.until(ROWS, TIMEOUT)
    worker = next(name for name in paced.pids() if name.endswith(f"-{slow}"))
    slow_down(paced.runs.parent, paced.pid(worker), 20)
    few = r"[1-4]"
    many = r"1[2-5]"
    sizes = (few, many) if slow == 0 else (many, few)
    paced.until(ROWS.replace(r"(\d+)", "{}").format(*(f"{size}\\b" for size in sizes)), TIMEOUT)


def waits(folder: Path, stand_in: Path, iterations: int, shares: str) -> int:
    """The waits for the device in a run of `sync`, in all processes together."""
    cluster = unequal(folder, "sync", iterations=iterations)
    cluster.write_text(cluster.read_text().replace("throughput", shares))
    counts = folder / "counts"
    counts.mkdir()
    words = ["-m", "tests.gpu.counted", str(counts), cluster.name]
    done = command(words, on_fake_cuda(stand_in), cwd=cluster.parent)
    assert done.returncode == 0, done.stderr
    told = [event["rows"] for event in progress(cluster) if "rows" in event]
    assert bool(told) == (shares == "throughput")
    total: Counter[str] = Counter()
    for file in counts.iterdir():
        total.update(json.loads(file.read_text()))
    return total["synchronisations"]


def progress(cluster: Path) -> list[dict[str, Any]]:
    return events(run_directory(cluster), "progress")


def test_a_conv_worker_on_a_gpu_is_timed_until_its_device_has_computed(
    stand_in: Path, tmp_path: Path
) -> None:
    """At the end of its forward and of its backward pass. Other waits depend a little on the order
    in which processes come to them."""
    found = {}
    for shares in ("throughput", "equal"):
        few, many = (
            waits(tmp_path / f"{shares}-{count}", stand_in, count, shares) for count in (3, 8)
        )
        found[shares] = (many - few) / 5
    assert 1.5 < found["throughput"] - found["equal"] < 2.5


def test_a_profile_has_the_times_of_each_worker_on_its_own_device(
    stand_in: Path, tmp_path: Path
) -> None:
    cluster = unequal(tmp_path, "replicas")
    file = tmp_path / "profile.json"
    words = ["-m", "runtime", "time", cluster.name, "--iterations", "1", "--profile", str(file)]
    done = command(words, on_fake_cuda(stand_in), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert re.search(
        r"timed with 8 rows on \w+(:0)?, 8 rows on \w+(:0)? and \d thread", done.stdout
    )
    table = json.loads(file.read_text())
    assert {"replica-0/forward", "replica-1/forward"} <= table.keys()
