"""Keys of [train.data] that the data or the net cannot have, or that have no effect: one line with
the key, and with what is allowed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from roles.data_options import Augment, Data
from roles.other_names import AUGMENT, DATA, SMOOTHING
from runtime.cli.main import main
from runtime.runs.checking import check
from tests.helpers.support import configure

h5py = pytest.importorskip("h5py")
image = pytest.importorskip("PIL.Image")
Capture = pytest.CaptureFixture[str]
NET = """
layer { name: "in" type: "<data>" top: "data" top: "label" <block> { batch_size: 4 } }
layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip"
  inner_product_param { num_output: 2 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "<loss>" bottom: "ip" bottom: "label" top: "loss" }
"""
HDF5 = ("HDF5Data", "hdf5_data_param", 'format = "hdf5", source = "h5.txt"')
LIST = ("ImageData", "image_data_param", 'format = "images", source = "list.txt"')


def cluster(
    folder: Path, data: tuple[str, str, str], more: str, loss: str = "SoftmaxWithLoss"
) -> Path:
    """A cluster.toml with `more` in [train.data], whose eight pictures are files or in one file of
    HDF5."""
    kind, block, source = data
    file = configure(folder, "single", iterations=2, batch=4)
    net = NET.replace("<data>", kind).replace("<block>", block).replace("<loss>", loss)
    (folder / "net.prototxt").write_text(net)
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (8, 3, 8, 8), dtype=np.uint8)
    for at in range(8):
        image.fromarray(pixels[at].transpose(1, 2, 0)).save(folder / f"{at}.png")
    (folder / "list.txt").write_text("".join(f"{at}.png {at % 2}\n" for at in range(8)))
    with h5py.File(folder / "a.h5", "w") as opened:
        opened["data"] = pixels.astype(np.float32)
        opened["label"] = np.arange(8) % 2
    (folder / "h5.txt").write_text("a.h5\n")
    text = file.read_text().replace("[train]\n", '[train]\nnet = "net.prototxt"\n', 1)
    text = text.replace('format = "digits", split = "train"', source)
    file.write_text(text.replace("[train.strategy]", f"{more}\n[train.strategy]"))
    return file


def mistake(capsys: Capture, file: Path) -> str:
    """The only line with which `check` refuses a cluster.toml."""
    assert main(["check", str(file)]) == 2
    lines = capsys.readouterr().err.splitlines()
    (line,) = (line for line in lines if not line.startswith("warning: "))
    return line.partition("cluster.toml:")[2].partition(": ")[2]


def test_a_crop_for_a_layer_that_cannot_crop_names_the_key_and_the_layer(
    tmp_path: Path, capsys: Capture
) -> None:
    assert mistake(capsys, cluster(tmp_path, HDF5, "crop = 4")) == (
        "train.data.crop: found 4, but layer 'in' of type 'HDF5Data' has no transform_param, "
        "expected a data layer of one of the types Data, ImageData, MemoryData"
    )


@pytest.mark.parametrize("key", ["mean = [1]", "deviation = [2]"])
def test_mean_and_deviation_are_for_data_layers_of_every_type(tmp_path: Path, key: str) -> None:
    assert not [line for line in check(cluster(tmp_path, HDF5, key)).warnings if "data." in line]


def test_an_orientation_without_image_files_is_reported(tmp_path: Path) -> None:
    key = 'orientation = "stored"'
    expected = "train.data.orientation: has no effect: no source has image files"
    assert any(expected in line for line in check(cluster(tmp_path, HDF5, key)).warnings)
    assert any(expected in line for line in check(configured_digits(tmp_path / "d", key)).warnings)
    own = (*LIST[:2], f'{LIST[2]}, orientation = "exif"')
    assert any(expected in line for line in check(cluster(tmp_path, own, key)).warnings)
    assert not any(expected in line for line in check(cluster(tmp_path, LIST, key)).warnings)
    plain = check(cluster(tmp_path, HDF5, 'orientation = "exif"')).warnings
    assert not any(expected in line for line in plain)


def configured_digits(folder: Path, more: str) -> Path:
    """A cluster.toml that trains on the digits."""
    file = configure(folder, "single")
    file.write_text(file.read_text().replace("[train.strategy]", f"{more}\n[train.strategy]"))
    return file


@pytest.mark.parametrize("key", ["mixup", "cutmix"])
@pytest.mark.parametrize("loss", ["HingeLoss", "MultinomialLogisticLoss", "InfogainLoss"])
def test_mixed_images_for_a_loss_without_probabilities_name_the_layer_and_the_losses(
    tmp_path: Path, capsys: Capture, key: str, loss: str
) -> None:
    file = cluster(tmp_path, LIST, f"[train.data.augment]\n{key} = 1.0", loss)
    found, _, expected = mistake(capsys, file).partition(", expected ")
    assert found == (
        f"train.data.augment.{key}: layer 'loss' of type '{loss}' takes one class for each image"
    )
    assert expected.startswith("a loss that takes probabilities of the classes: ")
    assert "SoftmaxWithLoss" in expected


@pytest.mark.parametrize("loss", ["SoftmaxWithLoss", "SigmoidCrossEntropyLoss", "EuclideanLoss"])
def test_mixed_images_are_for_each_loss_that_takes_probabilities(tmp_path: Path, loss: str) -> None:
    check(cluster(tmp_path, LIST, "[train.data.augment]\nmixup = 1.0", loss))


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("cutout", "erase"),
        ("RandomErasing", "erase"),
        ("random_crop", "pad"),
        ("random_resized_crop", "scale"),
        ("horizontal_flip", "flip"),
        ("color_jitter", "brightness"),
        ("auto_augment", "randaugment"),
    ],
)
def test_the_name_of_another_program_leads_to_the_key(
    tmp_path: Path, capsys: Capture, key: str, meant: str
) -> None:
    file = cluster(tmp_path, LIST, f"[train.data.augment]\n{key} = 1")
    assert mistake(capsys, file) == f"train.data.augment.{key}: unknown key, expected {meant}"


def test_each_such_name_is_unknown_and_leads_to_a_key_of_its_section_or_to_another_place() -> None:
    for section, names in ((Augment, AUGMENT), (Data, DATA)):
        known = set(section.model_fields)
        assert known.isdisjoint(names)
        elsewhere = {"train.batch", "augment.mixup", "augment.cutmix", SMOOTHING} | {
            f"train.data.{key}" for key in Data.model_fields
        }
        assert set(names.values()) <= known | elsewhere
        assert all(name == name.lower() for name in names)
