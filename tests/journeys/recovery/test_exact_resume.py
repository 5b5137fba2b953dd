"""A run that is broken off in the middle of an epoch and resumed from a checkpoint: it ends like
the unbroken run.

Parameters, histories, the errors that senders keep and the reported losses are equal to the last
bit.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping
from pathlib import Path

import pytest

from nets.files import checkpoint
from ops import Array
from tests.chaos.running import Running
from tests.helpers.added_layers import OF_TODAY
from tests.helpers.fc_shards import configured, lenet_with_dropout, resume_from
from tests.helpers.support import Simulated, configure, events, run_directory, run_up, train

pytestmark = pytest.mark.usefixtures("one_thread")

HALF = 7  # iterations; an epoch has 5
WHOLE = 14
DATA = (
    'data = { shuffle = true, train = { format = "synthetic", shape = [1, 28, 28], size = 100 } }\n'
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
MEMORY = """
layer { name: "data" type: "Data" top: "data" top: "label" data_param { batch_size: 4 } }
layer { name: "cont" type: "Reshape" bottom: "label" top: "cont" reshape_param { shape { dim: 0 dim: 1 } } }
layer { name: "lstm" type: "LSTM" bottom: "data" bottom: "cont" top: "lstm" recurrent_param { num_output: 3 } }
layer { name: "ip" type: "InnerProduct" bottom: "lstm" top: "ip" inner_product_param { num_output: 10 } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }
"""
AUGMENT = (
    'pad = 2, flip = "alternating", erase = 0.3, randaugment = {}, mixup = 0.2, cutmix = 1.0, '
    "brightness = 0.2"
)
MIXED = """
layer { name: "data" type: "Data" top: "data" top: "label" data_param { batch_size: 4 }
  transform_param { scale: 0.01 } }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"
  convolution_param { num_output: 4 kernel_size: 5 stride: 3 weight_filler { type: "xavier" } } }
layer { name: "ip" type: "InnerProduct" bottom: "conv" top: "ip"
  inner_product_param { num_output: 10 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }
"""


def broken(
    directory: Path,
    preset: str,
    workers: int,
    more: str,
    net: str = "",
    solver: str = "",
    data: str = DATA,
) -> tuple[Simulated, Simulated]:
    """An unbroken run that saves in its middle, and a run resumed from there."""
    runs = []
    for name in ("whole", "rest"):
        cluster = configured(
            directory / name,
            preset,
            batch=20,
            net=net or lenet_with_mirrors(),
            train_more=data,
            workers=workers,
            iterations=WHOLE,
            strategy=more,
        )
        file = cluster.parent / "solver.prototxt"
        text = (
            file.read_text()
            .replace("snapshot: 0", f"snapshot: {HALF}")
            .replace("display: 1", "display: 4")
        )
        file.write_text(text + solver)
        if name == "rest":
            resume_from(cluster, "whole", HALF)
        runs.append(train(cluster))
    return runs[0], runs[1]


def lenet_with_mirrors() -> str:
    """LeNet with everything random: dropout, mirrors."""
    text = lenet_with_dropout()
    assert text.count("transform_param {") >= 1
    return text.replace("transform_param {", "transform_param { mirror: true")


def assert_same_arrays(found: Mapping[str, Array], wanted: Mapping[str, Array]) -> None:
    assert found.keys() == wanted.keys()
    for name, expected in wanted.items():
        assert found[name].tobytes() == expected.tobytes(), name


def assert_the_same(rest: Simulated, whole: Simulated) -> None:
    assert_same_arrays(rest.arrays, whole.arrays)
    losses = {fields["iteration"]: fields["loss"] for fields in whole.journal.of("progress")}
    again = {fields["iteration"]: fields["loss"] for fields in rest.journal.of("progress")}
    told = (8, 12)
    assert [again[number] for number in told] == [losses[number] for number in told]


@pytest.mark.few("[sync-2")
@pytest.mark.parametrize(("preset", "workers", "more"), PRESETS)
def test_a_run_resumed_in_the_middle_of_an_epoch_ends_as_the_unbroken_one(
    tmp_path: Path, preset: str, workers: int, more: str
) -> None:
    whole, rest = broken(tmp_path, preset, workers, more + REPRODUCIBLE)
    assert_the_same(rest, whole)


def test_augmented_and_mixed_images_are_resumed_too(tmp_path: Path) -> None:
    train_data = 'train = { format = "digits" }'  # bytes
    data = f"data = {{ shuffle = true, {train_data}, augment = {{ {AUGMENT} }} }}\n"
    whole, rest = broken(tmp_path, "sync", 2, REPRODUCIBLE, net=MIXED, data=data)
    assert_the_same(rest, whole)


def test_choices_of_stochastic_depth_and_the_other_layers_of_today_are_resumed_too(
    tmp_path: Path,
) -> None:
    whole, rest = broken(tmp_path, "sync", 2, REPRODUCIBLE, net=OF_TODAY)
    assert_the_same(rest, whole)


@pytest.mark.few("[one-bit")
@pytest.mark.parametrize("said", ["one-bit", "threshold", "bfloat16"])
def test_errors_that_senders_kept_of_their_gradients_are_resumed_too(
    tmp_path: Path, said: str
) -> None:
    whole, rest = broken(tmp_path, "sync", 2, f"{GRADIENTS}'{said}'\n")
    kept = [name for name in whole.arrays if ".beside." in name]
    assert bool(kept) is (said != "bfloat16")
    assert_the_same(rest, whole)


def test_states_of_recurrent_layers_and_the_losses_of_a_mean_are_resumed_too(
    tmp_path: Path,
) -> None:
    whole, rest = broken(tmp_path, "single", 1, "", net=MEMORY, solver="average_loss: 3\n")
    assert [name for name in whole.arrays if ".beside." in name]
    assert_the_same(rest, whole)


def test_senders_that_no_longer_exist_are_named_and_their_errors_are_dropped(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    whole = configure(
        tmp_path / "whole", "sync", workers=3, iterations=3, more=f"{GRADIENTS}'one-bit'\n"
    )
    train(whole)
    rest = configure(tmp_path / "rest", "single", iterations=4)
    resume_from(rest, "whole", 3)
    train(rest)
    senders = "conv-0-0, conv-0-1, conv-0-2, reducer-0"
    text = (
        f"the state that {senders} kept for the next gradients is dropped: no actor of this run "
        "has that name"
    )
    assert any(
        (f"checkpoint-0000003.safetensors: {text}") in record.getMessage()
        for record in caplog.records
    )


@pytest.fixture(scope="module")
def unkilled(tmp_path_factory: pytest.TempPathFactory) -> Simulated:
    """The `killable` run without a kill."""
    return train(killable(tmp_path_factory.mktemp("unkilled")))


def killable(folder: Path) -> Path:
    cluster = configure(folder, "sync", workers=2, iterations=150, batch=32)
    cluster.write_text(cluster.read_text() + REPRODUCIBLE)
    return cluster


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0.1, 0.3])  # seconds between checkpoints
def test_a_killed_run_that_up_resumes_ends_as_the_unbroken_one(
    tmp_path: Path, unkilled: Simulated, seconds: float
) -> None:
    killed = killable(tmp_path / "killed")
    killed.write_text(f"{killed.read_text()}[checkpoint]\nseconds = {seconds}\n")
    run = Running(killed, lambda line: line.startswith("checkpoint "))
    try:
        run.process.send_signal(signal.SIGKILL)
        run.process.wait()
    finally:
        run.end()
    broken_off = run_directory(killed)
    done = run_up(killed, "--resume")
    assert done.returncode == 0, done.stderr
    told = [line for line in done.stdout.splitlines() if line.startswith("resumes ")]
    assert len(told) == 1
    assert str(broken_off.relative_to(tmp_path / "killed")) in told[0]
    rest = run_directory(killed)
    assert rest != broken_off
    arrays, _ = checkpoint.load(rest / events(rest, "checkpoint")[-1]["file"])
    assert_same_arrays(arrays, unkilled.arrays)
    losses = {entry["iteration"]: entry["loss"] for entry in events(rest, "progress")}
    unbroken = {fields["iteration"]: fields["loss"] for fields in unkilled.journal.of("progress")}
    assert 0 < len(losses) < 150
    assert all(unbroken[number] == loss for number, loss in losses.items())
