"""A layer with the `whitening` filler: every preset begins with the same filters of the training
images, checkpoints hold them, and mistakes are answered in one line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nets.definition.whitening import covariance, whitening_filters
from runtime.cli.main import main
from tests.helpers.support import train

NET = """name: "white"
layer { name: "data" type: "Data" top: "data" top: "label" transform_param { mirror: true } data_param { batch_size: 8 } }
layer { name: "white" type: "Convolution" bottom: "data" top: "white"
  param { lr_mult: 0 decay_mult: 0 } param { lr_mult: 1 }
  convolution_param { num_output: 20 kernel_size: 2 weight_filler { type: "whitening" } } }
layer { name: "pool" type: "Pooling" bottom: "white" top: "pool" pooling_param { pool: MAX kernel_size: 8 stride: 8 } }
layer { name: "ip" type: "InnerProduct" bottom: "pool" top: "ip"
  inner_product_param { num_output: 10 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }
"""
SOLVER = 'net: "net.prototxt" base_lr: 0.01 momentum: 0.9 lr_policy: "fixed" max_iter: 3 display: 1'
CLUSTER = """[train]
net = "net.prototxt"
solver = "solver.prototxt"
[train.strategy]
preset = "{preset}"
workers = {workers}
{strategy}[checkpoint]
seconds = 0.0
[train.data]
shuffle = true
mean = [120.0]
deviation = [60.0]
train = {{ format = "cifar10", files = ["batch.bin"] }}
[train.data.augment]
pad = 2
flip = "alternating"
"""


def images_of(directory: Path) -> np.ndarray:
    """Write a few correlated images of CIFAR-10's format, and return them."""
    rng = np.random.default_rng(3)
    steps = rng.integers(-3, 4, (40, 1, 32, 32)).cumsum(2).cumsum(3)
    images = np.clip(128 + steps + rng.integers(-9, 9, (40, 3, 32, 32)), 0, 255).astype(np.uint8)
    labels = np.arange(40, dtype=np.uint8)[:, None] % 10
    records = np.concatenate((labels, images.reshape(40, -1)), axis=1)
    (directory / "batch.bin").write_bytes(records.tobytes())
    return images


def cluster_of(
    directory: Path, preset: str = "single", workers: int = 1, strategy: str = "", net: str = NET
) -> Path:
    directory.mkdir(parents=True)
    images_of(directory)
    (directory / "net.prototxt").write_text(net)
    (directory / "solver.prototxt").write_text(SOLVER)
    text = CLUSTER.format(preset=preset, workers=workers, strategy=strategy)
    (directory / "cluster.toml").write_text(text)
    return directory / "cluster.toml"


@pytest.mark.parametrize(
    ("preset", "workers", "strategy"),
    [
        ("single", 1, ""),
        ("replicas", 3, ""),
        ("omnivore", 2, "groups = 1\n"),
        ("one-weird-trick", 2, ""),
    ],
)
def test_every_worker_begins_with_the_filters_of_the_first_training_images(
    tmp_path: Path, preset: str, workers: int, strategy: str
) -> None:
    found = train(cluster_of(tmp_path / "c", preset, workers, strategy)).arrays["white.0"]
    images = (images_of(tmp_path / "c").astype(np.float32) - 120) / np.float32(60)
    filters = whitening_filters(covariance(images, (2, 2)))
    expected = np.concatenate((filters, -filters))[:20].astype(np.float32).reshape(20, 3, 2, 2)
    np.testing.assert_array_equal(found, expected)


LOOKAHEAD = "[train.ema]\ndecay = 0.8\nevery = 2\npower = 1\nlookahead = true\n"


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize(
    ("preset", "workers", "strategy"), [("omnivore", 2, "groups = 1\n"), ("replicas", 4, "")]
)
def test_whitening_and_lookahead_keep_the_bits_of_one_process(
    tmp_path: Path, preset: str, workers: int, strategy: str
) -> None:
    found = []
    for of in (("single", 1, ""), (preset, workers, strategy)):
        cluster = cluster_of(tmp_path / of[0], of[0], of[1], f"reproducible = true\n{of[2]}")
        cluster.write_text(cluster.read_text() + LOOKAHEAD)
        found.append(train(cluster).arrays)
    one, other = found
    assert one.keys() == other.keys()
    for name, array in one.items():
        assert other[name].tobytes() == array.tobytes(), name


def test_a_resumed_run_and_one_with_first_weights_take_the_filters_of_the_file(
    tmp_path: Path,
) -> None:
    first = cluster_of(tmp_path / "first")
    made = train(first)
    file = tmp_path / "first" / made.journal.of("checkpoint")[-1]["file"]
    for key in ("resume", "weights"):
        again = cluster_of(tmp_path / key)
        (tmp_path / key / "batch.bin").write_bytes(bytes(3073 * 9))  # other images: all black
        text = again.read_text().replace("[train]\n", f"[train]\n{key} = '{file}'\nmax_iter = 5\n")
        again.write_text(text)
        np.testing.assert_array_equal(train(again).arrays["white.0"], made.arrays["white.0"])


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            "num_output: 20",
            "num_output: 25",
            "layer 'white': key 'convolution_param.weight_filler': filler 'whitening' on shape "
            "(25, 3, 2, 2), expected four axes, patches of at most 128 numbers, and at most two "
            "outputs for each number of a patch",
        ),
        (
            'weight_filler { type: "xavier" }',
            'weight_filler { type: "whitening" }',
            "layer 'ip': key 'inner_product_param.weight_filler': filler 'whitening' on shape",
        ),
        (
            "num_output: 20 ",
            "num_output: 20 dilation: 2 ",
            "layer 'white': key 'weight_filler': 'whitening': found group 1 and dilation (2, 2), "
            "expected 1 and (1, 1)",
        ),
        (
            'name: "white" type: "Convolution" bottom: "data"',
            'name: "relu" type: "ReLU" bottom: "data" top: "relu" }\n'
            'layer { name: "white" type: "Convolution" bottom: "relu"',
            "layer 'white': key 'weight_filler': 'whitening' reads blob 'relu', expected a "
            "Convolution of training images",
        ),
    ],
)
def test_a_layer_that_cannot_whiten_is_named_with_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, expected: str
) -> None:
    assert NET.count(old) == 1
    assert main(["check", str(cluster_of(tmp_path / "c", net=NET.replace(old, new)))]) == 2
    said = capsys.readouterr().err
    assert expected in said
    assert "net.prototxt:" in said
