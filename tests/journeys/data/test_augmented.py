"""`train.data.augment` in cluster.toml: the training images do not depend on the worker that reads
them, and mistakes are reported."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.cli.main import main
from tests.helpers.support import configure, train

pytestmark = pytest.mark.usefixtures("one_thread")

AUGMENT = """[train.data.augment]
brightness = 0.3
contrast = 0.3
saturation = 0.3
lighting = 0.1
scale = [0.3, 1.0]
"""
NET = """
layer { name: "in" type: "Data" top: "data" top: "label" data_param { batch_size: 16 }
  transform_param { crop_size: 12 mirror: true scale: 0.01 } }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"
  convolution_param { num_output: 4 kernel_size: 3 weight_filler { type: "xavier" } } }
layer { name: "ip" type: "InnerProduct" bottom: "conv" top: "ip"
  inner_product_param { num_output: 10 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }"""


def losses(directory: Path, preset: str, workers: int, more: str) -> list[float]:
    cluster = configure(directory, preset, workers=workers, iterations=4)
    (directory / "net.prototxt").write_text(NET)
    text = cluster.read_text().replace("[train]\n", '[train]\nnet = "net.prototxt"\n', 1)
    data = 'format = "synthetic", shape = [3, 16, 16], size = 40'
    cluster.write_text(text.replace('format = "digits", split = "train"', data) + more)
    return train(cluster).losses()


def test_runs_of_one_and_of_three_workers_see_the_same_images(tmp_path: Path) -> None:
    single = losses(tmp_path / "single", "single", 1, AUGMENT)
    shared = losses(tmp_path / "shared", "sync", 3, AUGMENT)
    assert shared == pytest.approx(single, rel=1e-5)
    plain = losses(tmp_path / "plain", "single", 1, "")
    assert plain != pytest.approx(single, rel=1e-3)
    seeds = losses(tmp_path / "again", "single", 1, AUGMENT)
    assert seeds == single


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("brightness=-1", "train.data.augment.brightness: found -1"),
        ("scale=[0.5]", "train.data.augment.scale"),
        (
            "scale=[0.9,0.2]",
            (
                "train.data.augment: scale: found [0.9, 0.2], expected two rising numbers > 0, at most 1"
            ),
        ),
        (
            "saturation=0.4",
            ("augment: saturation: found images of 1 channels, expected 3: it changes colours"),
        ),
        ("hue=0.1", "train.data.augment.hue: unknown key"),
    ],
)
def test_impossible_settings_are_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], said: str, expected: str
) -> None:
    cluster = configure(tmp_path, "single")
    assert main(["check", str(cluster), "--set", f"train.data.augment={{{said}}}"]) == 2
    assert expected in capsys.readouterr().err
