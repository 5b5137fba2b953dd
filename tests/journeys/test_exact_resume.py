"""A run that was broken off in the middle of an epoch and goes on from a checkpoint ends as the unbroken run: parameters,
histories, what senders kept, and the losses that are told, to the last bit.
"""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from nets.files import checkpoint
from tests.chaos.running import Running
from tests.journeys.fc_shards import configured, lenet_with_dropout, resume_from
from tests.support import Simulated, configure, events, run_directory, run_up, train

pytestmark = pytest.mark.usefixtures("one_thread")

HALF, WHOLE = 7, 14  # iterations; an epoch has 5
DATA = (
    'data = { shuffle = true, train = { format = "synthetic", shape = [1, 28, 28], classes = 10, size = 100, seed = 3 } }\n'
)
REPRODUCIBLE = "reproducible = true\n"
GRADIENTS = "[train.gradients]\nformat = "
PRESETS = [
    ("single", 1, ""),
    ("sync", 2, ""),
    ("replicas", 2, ""),
    ("firecaffe", 4, ""),
    ("host-accumulate", 2, ""),
    ("parameter-server", 2, ""),
    ("mxnet-sync", 4, "servers = 2\n"),
    ("singa", 2, "servers = 2\n"),
    ("local-fc-shards", 2, "servers = 2\n"),
    ("one-weird-trick", 2, 'scheme = "a"\n'),
    ("one-weird-trick", 2, 'scheme = "b"\n'),
    ("one-weird-trick", 2, 'scheme = "c"\n'),
]
LSTM = """
name: "memory"
layer { name: "data" type: "Input" top: "data" top: "label" }
layer { name: "shape" type: "Reshape" bottom: "data" top: "x" reshape_param { shape { dim: 5 dim: 4 dim: 4 } } }
"""


def broken(directory: Path, preset: str, workers: int, more: str, **options: Any) -> tuple[Simulated, Simulated]:
    """An unbroken run that saves in its middle, and one that goes on from there."""
    runs = []
    for name in ("whole", "rest"):
        cluster = configured(
            directory / name, preset, batch=20, net=lenet_with_mirrors(), train_more=DATA, workers=workers,
            iterations=WHOLE, strategy=more, **options,
        )  # fmt: skip
        solver = cluster.parent / "solver.prototxt"
        solver.write_text(solver.read_text().replace("snapshot: 0", f"snapshot: {HALF}").replace("display: 1", "display: 4"))
        if name == "rest":
            resume_from(cluster, "whole", HALF)
        runs.append(train(cluster))
    return runs[0], runs[1]


def lenet_with_mirrors() -> str:
    """With everything random: dropout, mirrors, crops."""
    text = lenet_with_dropout()
    assert text.count("transform_param {") >= 1
    return text.replace("transform_param {", "transform_param { mirror: true")


def assert_the_same(rest: Simulated, whole: Simulated) -> None:
    assert rest.arrays.keys() == whole.arrays.keys()
    for name, expected in whole.arrays.items():
        assert rest.arrays[name].tobytes() == expected.tobytes(), name
    losses = {fields["iteration"]: fields["loss"] for fields in whole.journal.of("progress")}
    again = {fields["iteration"]: fields["loss"] for fields in rest.journal.of("progress")}
    told = [f"{number}/{WHOLE}" for number in (8, 12)]
    assert [again[number] for number in told] == [losses[number] for number in told]


@pytest.mark.few("[single-1", "[sync-2", "[replicas-2", "[local-fc-shards-2")
@pytest.mark.parametrize(("preset", "workers", "more"), PRESETS)
def test_a_run_that_goes_on_in_the_middle_of_an_epoch_ends_as_the_unbroken_one(
    tmp_path: Path, preset: str, workers: int, more: str
) -> None:
    whole, rest = broken(tmp_path, preset, workers, more + REPRODUCIBLE)
    assert_the_same(rest, whole)


@pytest.mark.few("[one-bit")
@pytest.mark.parametrize("said", ["one-bit", "threshold", "bfloat16"])
def test_what_senders_kept_of_their_gradients_goes_on_too(tmp_path: Path, said: str) -> None:
    whole, rest = broken(tmp_path, "sync", 2, f"{GRADIENTS}'{said}'\n")
    kept = [name for name in whole.arrays if ".beside." in name]
    assert bool(kept) is (said != "bfloat16")
    assert_the_same(rest, whole)
