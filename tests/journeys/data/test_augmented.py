"""`train.data.augment` in cluster.toml: the training images do not depend on the worker that reads
them, and mistakes are reported."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from nets.data import open_source
from nets.files.checkpoint import load
from nets.predict import Predictor
from nets.predict.deployment import KEY, WITH_DEVIATION
from ops import get_backend
from runtime.cli.main import main
from runtime.runs.checking import check
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


def configured(directory: Path, preset: str, workers: int, more: str, net: str) -> Path:
    """A cluster.toml with `more` at the end of [train.data], whose images are a small file of the
    form of CIFAR-10."""
    cluster = configure(directory, preset, workers=workers, iterations=4)
    (directory / "net.prototxt").write_text(net)
    rng = np.random.default_rng(1)
    records = rng.integers(0, 256, (40, 3073), np.uint8)
    records[:, 0] %= 10
    (directory / "batch.bin").write_bytes(records.tobytes())
    text = cluster.read_text().replace("[train]\n", '[train]\nnet = "net.prototxt"\n', 1)
    text = text.replace(
        'format = "digits", split = "train"', 'format = "cifar10", files = ["batch.bin"]'
    )
    cluster.write_text(text.replace("[train.strategy]", f"{more}[train.strategy]"))
    return cluster


def losses(directory: Path, preset: str, workers: int, more: str, net: str = "") -> list[float]:
    return train(configured(directory, preset, workers, more, net or NET)).losses()


def test_runs_of_one_and_of_three_workers_see_the_same_images(tmp_path: Path) -> None:
    single = losses(tmp_path / "single", "single", 1, AUGMENT)
    shared = losses(tmp_path / "shared", "sync", 3, AUGMENT)
    assert shared == pytest.approx(single, rel=1e-5)
    plain = losses(tmp_path / "plain", "single", 1, "")
    assert plain != pytest.approx(single, rel=1e-3)
    seeds = losses(tmp_path / "again", "single", 1, AUGMENT)
    assert seeds == single


TODAY = """crop = 14
mean = [120, 121, 122.5]
deviation = [60, 61.0, 62]
[train.data.augment]
pad = 2
padding = "reflect"
flip = "alternating"
erase = 0.3
randaugment = { operations = 2, magnitude = 9 }
"""
MIXING = """mixup = 0.2
cutmix = 1.0
"""
MIXED = NET.replace("crop_size: 12 ", "")


@pytest.mark.few("[sync-3", "[omnivore-2")
@pytest.mark.parametrize("mixing", ["", MIXING], ids=["plain", "mixed"])
@pytest.mark.parametrize(
    ("preset", "workers"),
    [("sync", 3), ("omnivore", 2), ("replicas", 4), ("one-weird-trick", 2)],
)
def test_todays_augmentation_does_not_depend_on_the_workers(
    tmp_path: Path, mixing: str, preset: str, workers: int
) -> None:
    net = MIXED if mixing else NET
    single = losses(tmp_path / "single", "single", 1, TODAY + mixing, net)
    shared = losses(tmp_path / "shared", preset, workers, TODAY + mixing, net)
    assert shared == pytest.approx(single, rel=1e-5)
    other = losses(tmp_path / "other", "single", 1, TODAY.replace("erase = 0.3", "") + mixing, net)
    assert other != pytest.approx(single, rel=1e-3)


@pytest.mark.few("[omnivore", "[local-fc-shards")
@pytest.mark.parametrize("preset", ["omnivore", "one-weird-trick", "local-fc-shards"])
def test_a_run_that_mixes_images_has_the_test_scores_of_one_process(
    tmp_path: Path, preset: str
) -> None:
    tested = f'test = {{ format = "cifar10", files = ["batch.bin"] }}\n{TODAY}{MIXING}'
    found = [
        train(configured(tmp_path / name, name, workers, tested, MIXED)).journal.of("test")
        for name, workers in (("single", 1), (preset, 2))
    ]
    single, shared = ([event["loss"] for event in events] for events in found)
    assert single and shared == pytest.approx(single, rel=1e-5)


def test_a_checkpoint_describes_crop_mean_and_deviation_for_predictions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = configured(tmp_path, "single", 1, TODAY, NET)
    text = cluster.read_text()
    data = 'format = "cifar10", files = ["batch.bin"]'
    cluster.write_text(text.replace("crop = 14", f"test = {{ {data} }}\ncrop = 14"))
    file = tmp_path / train(cluster).journal.of("checkpoint")[-1]["file"]
    said = json.loads(load(file)[1][KEY])
    assert said["version"] == WITH_DEVIATION
    net = Predictor.load(file, backend=get_backend("numpy"))
    transform = net.deployment.transform
    assert (transform.crop, transform.scale) == (14, 1.0)
    assert transform.mean == (120, 121, 122.5)
    assert transform.deviation == (60, 61, 62)
    source = open_source({"format": "cifar10", "files": ["batch.bin"]}, tmp_path)
    images, labels = source.read(np.arange(40))
    monkeypatch.chdir(tmp_path)
    assert main(["test", str(file), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["scores"]["loss"]
    own = net.scores(images)[np.arange(40), labels]
    assert found == pytest.approx(-np.log(own).mean(), abs=1e-4)


def test_settings_that_replace_those_of_the_net_are_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    cluster = configured(tmp_path, "single", 1, TODAY, NET)
    assert main(["check", str(cluster)]) == 0
    said = capsys.readouterr()
    assert "replaces" not in said.err + caplog.text
    told = said.out
    place = r"cluster\.toml:\d+: train\.data\."
    layer = "in transform_param of layer 'in'"
    for expected in (
        f"{place}crop: replaces 'crop_size: 12' {layer}",
        f"{place}deviation: replaces 'scale: 0.01' {layer}",
        f"{place}augment.flip: replaces 'mirror: true' {layer}",
    ):
        assert re.search(expected, told), told
    assert "data.mean: " not in told


@pytest.mark.parametrize(
    ("theirs", "key"),
    [
        ("mean_value: 125.3 mean_value: 123 mean_value: 113.9", "mean = [125.3, 123.0, 113.9]"),
        ("mean_value: 128", "mean = [128, 128, 128]"),
        ("scale: 0.00390625", "deviation = [256]"),
        ("deviation_value: 62.1", "deviation = [62.1]"),
    ],
)
def test_numbers_that_the_net_has_too_replace_nothing(
    tmp_path: Path, theirs: str, key: str
) -> None:
    net = NET.replace("scale: 0.01", theirs).replace("crop_size: 12 mirror: true", "crop_size: 12")
    file = configured(tmp_path, "single", 1, f"{key}\n", net)
    assert not [line for line in check(file).notes if "replaces" in line]
    other = configured(
        tmp_path, "single", 1, key.replace("[", "[9").replace(", ", ", 9") + "\n", net
    )
    assert [line for line in check(other).notes if "replaces" in line]


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        (
            "[train.data.augment]\npadding = 'reflect'\n",
            "augment.padding: has no effect without pad",
        ),
        ("[train.data.augment]\nratio = [0.5, 2]\n", "augment.ratio: has no effect without scale"),
        ("deviation = [0.5, 0.5, 0.5]\n", "data.deviation: found only numbers below 1, but the im"),
    ],
)
def test_keys_without_effect_are_reported(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    more: str,
    expected: str,
) -> None:
    cluster = configured(tmp_path, "single", 1, more, NET)
    assert main(["check", str(cluster)]) == 0
    assert expected in capsys.readouterr().err + caplog.text


PLACE = r"cluster\.toml:\d+: train\.data\."
MISTAKES = [
    ("augment.brightness", "-1", "found -1 .*, expected a finite number from 0 to 10"),
    ("augment.scale", "[0.5]", "expected an array of 2 values, each a finite number > 0"),
    ("augment.scale", "[0.1, 0.5, 1]", "found an array, expected an array of 2 values, each a"),
    ("augment.crop", "8", "unknown key, expected train.data.crop"),
    ("batch", "8", "unknown key, expected train.batch"),
    ("augment.hue", "0.1", "unknown key"),
    ("augment.pad", "-1", "found -1 .*, expected an integer from 0 to 1024"),
    ("augment.pad", "1.5", "found 1.5 .*, expected an integer from 0 to 1024"),
    ("augment.pad", "28", "found 28, expected at most 27 for images of 28 x 28"),
    ("augment.padding", "'mirror'", "found 'mirror' .*, expected 'black' or 'reflect'"),
    ("augment.flip", "'altenating'", "found 'altenating'.*'random' or 'alternating'.*alternating"),
    ("augment.flip", "true", "found true .*, expected 'random' or 'alternating'"),
    ("augment.erase", "1.5", "found 1.5 .*, expected a number from 0 to 1"),
    ("augment.erase", "nan", "expected a number from 0 to 1"),
    ("augment.mixup", "-0.1", "found -0.1 .*, expected a finite number from 0 to 100"),
    ("augment.cutmix", "inf", "expected a finite number from 0 to 100"),
    ("augment.cutmix", "'1'", "found '1' .*, expected a finite number from 0 to 100"),
    ("augment.randaugment", "9", "found 9 .*, expected a table"),
    ("augment.randaugment.magnitude", "31", "found 31 .*, expected an integer from 0 to 30"),
    ("augment.randaugment.operations", "0", "found 0 .*, expected an integer from 1 to 14"),
    ("augment.randaugment.magnitud", "3", "unknown key.*magnitude"),
    ("augment.saturation", "0.4", "found images of 1 channel, expected 3: it changes colours"),
    ("crop", "0", "found 0 .*, expected an integer >= 1"),
    ("crop", "29", "found 29, expected at most 28 for images of 28 x 28"),
    ("mean", "[]", "expected a non-empty array of values, each a finite number"),
    ("mean", "[1, 2, 3]", "found 3 numbers, expected 1, one per channel"),
    ("mean", "33.3", "found 33.3 .*, expected a non-empty array of values, each a finite number"),
    ("mean", "[nan]", "expected a finite number"),
    ("deviation", "[0]", "found 0 .*, expected a finite number > 0"),
    ("deviation", "[1, 2]", "found 2 numbers, expected 1, one per channel"),
    ("test_flips", "1", "found 1 .*, expected true or false"),
]


@pytest.mark.parametrize(("key", "value", "expected"), MISTAKES)
def test_a_mistake_is_answered_with_its_line_its_key_and_what_is_allowed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], key: str, value: str, expected: str
) -> None:
    cluster = configure(tmp_path, "single")
    text = cluster.read_text().replace("[train.strategy]", f"{key} = {value}\n[train.strategy]")
    cluster.write_text(text)
    assert main(["check", str(cluster)]) == 2
    error = capsys.readouterr().err
    index = r"(\[0\]|\.0)?"
    assert re.search(f"{PLACE}{re.escape(key)}{index}: .*{expected}", error), error


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("crop", "1"),
        ("mean", "[1]"),
        ("deviation", "[2]"),
        ("augment.pad", "3"),
        ("augment.erase", "0.5"),
    ],
)
def test_characters_of_a_text_are_not_images(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], key: str, value: str
) -> None:
    (tmp_path / "a.txt").write_text("to be or not to be, " * 200)
    cluster = configure(tmp_path, "single")
    text = cluster.read_text().replace(
        'format = "digits", split = "train"', 'format = "text", source = "a.txt", length = 4'
    )
    text = text.replace("[train]\n", '[train]\nnet = "char_lstm"\n', 1)
    cluster.write_text(text.replace("[train.strategy]", f"{key} = {value}\n[train.strategy]"))
    assert main(["check", str(cluster)]) == 2
    told = capsys.readouterr().err
    whole = "train.data." + key.removesuffix(".pad").removesuffix(".erase")
    assert f"{whole}: found samples of shape (64,), expected images (C, H, W)" in told


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (
            "{scale=[0.9,0.2]}",
            "train.data.augment: scale: found [0.9, 0.2], expected two rising numbers > 0, at most 1",
        ),
        ("{pad=2,scale=[0.5,1]}", "train.data.augment.pad: given together with 'scale'"),
    ],
)
def test_settings_that_contradict_each_other_are_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], said: str, expected: str
) -> None:
    cluster = configure(tmp_path, "single")
    assert main(["check", str(cluster), "--set", f"train.data.augment={said}"]) == 2
    assert expected in capsys.readouterr().err


@pytest.mark.parametrize("preset", ["one-weird-trick", "local-fc-shards"])
def test_a_divided_fc_phase_learns_from_mixed_labels_and_tests_with_plain_ones(
    tmp_path: Path, preset: str
) -> None:
    mixing = "[train.data.augment]\nmixup = 0.2\n[train.strategy]\n"
    scores = {}
    for name in ("single", preset):
        cluster = configure(tmp_path / name, name, workers=2, iterations=2, test=True)
        cluster.write_text(cluster.read_text().replace("[train.strategy]\n", mixing))
        (tested,) = train(cluster).journal.of("test")
        scores[name] = (tested["loss"], tested["accuracy"])
    assert scores[preset] == pytest.approx(scores["single"], rel=1e-5)


def test_images_without_partners_or_labels_are_not_mixed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = "[train.data.augment]\nmixup = 0.2\n"
    cluster = configured(tmp_path, "single", 1, more, MIXED)
    assert main(["check", str(cluster), "--set", "train.batch=1"]) == 2
    assert "train.data.augment.mixup: found a batch of 1 image" in capsys.readouterr().err
    embedded = """layer { name: "e" type: "Embed" bottom: "label" top: "e"
      embed_param { num_output: 3 input_dim: 10 } }
    layer { name: "s" type: "Silence" bottom: "e" }"""
    (tmp_path / "net.prototxt").write_text(MIXED + embedded)
    assert main(["check", str(cluster)]) == 2
    told = capsys.readouterr().err
    assert "train.data.augment.mixup: layer 'e' of type 'Embed' takes one class for each" in told
    net = MIXED.replace(' top: "label"', "").replace("SoftmaxWithLoss", "EuclideanLoss")
    (tmp_path / "net.prototxt").write_text(net.replace('bottom: "label"', 'bottom: "ip"'))
    assert main(["check", str(cluster)]) == 2
    assert "train.data.augment.mixup: found labels: none, expected" in capsys.readouterr().err
