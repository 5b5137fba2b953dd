"""Every preset by `up` with steps that are replayed, call by call or as graphs, on one device and on
two: the losses, tests and models are those of plain runs, bit by bit."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from nets.files import checkpoint
from roles.planning.strategies import PRESETS
from tests.fake_cuda.processes import command, on_fake_cuda
from tests.gpu.small_runs import ONE, written
from tests.gpu.test_replayed_runs import ORDERED
from tests.gpu.test_training import TWO
from tests.helpers.support import events, run_directory

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

ITERATIONS = 60
NOT_REPLAYED = 3  # of each size: two plain passes, and one that is recorded
# The parts of a pass, of all actors together. A replica has a part forward and one bucket. A conv
# worker has each stage forward and backward, four before the FC phase or six in the whole net. The
# FC server has two parts.
PARTS = {
    "single": 1,
    "sync": 18,
    "omnivore": 18,
    "adam": 18,
    "replicas": 4,
    "firecaffe": 4,
    "host-accumulate": 4,
    "sparknet": 4,
    "dl4j": 4,
    "parameter-server": 24,
    "mxnet-sync": 24,
    "singa": 24,
    "local-fc-shards": 16,
    "one-weird-trick": 4,
}
# A step in one part, in the stages of two workers and a server, and in buckets: these are compared in
# all ways, the other presets in the last one
THOROUGHLY = ("single", "sync", "replicas")
WAYS = [("replay", ONE), ("graph", ONE), ("replay", TWO), ("graph", TWO)]
TOLD = re.compile(r"train\.gpu_step: (.*)")


def trained(
    folder: Path, stand_in: Path, preset: str, how: str, devices: str
) -> tuple[dict[str, Any], list[str], int]:
    """Train by `up`. Returns the losses, the tests and the model; the lines about steps in the logs
    of all processes; and how many graphs were launched."""
    cluster = written(folder, preset, how, ITERATIONS, devices=devices)
    counts = folder / "counts"
    counts.mkdir()
    words = ["-m", "tests.gpu.counted", str(counts), cluster.name]
    done = command(words, on_fake_cuda(stand_in, devices=2), cwd=folder)
    assert done.returncode == 0, done.stderr
    directory = run_directory(cluster)
    arrays, _ = checkpoint.load(directory / events(directory, "checkpoint")[-1]["file"])
    outcome = {
        "losses": [entry["loss"] for entry in events(directory, "progress")],
        "tests": [entry["accuracy"] for entry in events(directory, "test")],
        **{name: array.tobytes() for name, array in arrays.items()},
    }
    told = [line for log in directory.rglob("*.log") for line in TOLD.findall(log.read_text())]
    graphs = sum(json.loads(file.read_text())["graphs"] for file in counts.iterdir())
    return outcome, told, graphs


@pytest.mark.parametrize("preset", PARTS)
def test_a_replayed_run_has_the_losses_tests_and_model_of_a_plain_one(
    preset: str, stand_in: Path, tmp_path: Path
) -> None:
    plain, told, graphs = trained(tmp_path / "plain", stand_in, preset, "plain", ONE)
    assert len(plain["losses"]) == ITERATIONS and len(plain["tests"]) > 1
    assert told == [] and graphs == 0
    ways = WAYS if preset in THOROUGHLY else WAYS[-1:]
    for how, devices in ways[:2] if preset == "single" else ways:
        folder = tmp_path / f"{how}-{devices.count('cuda')}"
        found, told, graphs = trained(folder, stand_in, preset, how, devices)
        assert found == plain, (
            how,
            devices,
            [name for name in plain if plain[name] != found[name]],
        )
        calls = [re.fullmatch(r"passes of \d+ rows are replayed, calls: (\d+)", of) for of in told]
        assert all(calls), told
        parts = sum(int(one[1]) for one in calls if one)
        assert (parts == PARTS[preset]) == (how == "graph"), (how, devices, told)
        assert graphs == (how == "graph") * PARTS[preset] * (ITERATIONS - NOT_REPLAYED)


def test_every_preset_is_compared_here_or_on_virtual_time() -> None:
    assert {*PARTS} | {*ORDERED} == {*PRESETS}
