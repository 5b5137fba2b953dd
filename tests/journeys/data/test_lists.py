"""Lists of images: labels that the net or the training does not know, paths below another folder,
and the same file for `convert`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nets.data import open_source
from runtime.cli.main import main
from tests.helpers.support import configure

image = pytest.importorskip("PIL.Image")
Capture = pytest.CaptureFixture[str]
NET = """
layer { name: "in" type: "ImageData" top: "data" top: "label" image_data_param { batch_size: 4 } }
layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip"
  inner_product_param { num_output: 10 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }
"""
SOURCE = 'format = "images", source = "{}.txt"'


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with ten pictures in the folder `photos`."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "photos").mkdir()
    rng = np.random.default_rng(0)
    for at in range(10):
        pixels = rng.integers(0, 256, (8, 8, 3), dtype=np.uint8)
        image.fromarray(pixels).save(tmp_path / "photos" / f"{at}.png")
    return tmp_path


def listed(here: Path, name: str, labels: list[int], folder: str = "photos/") -> None:
    """Write a list of the first pictures, behind an empty line."""
    lines = (f"{folder}{at}.png {label}\n" for at, label in enumerate(labels))
    (here / f"{name}.txt").write_text("\n" + "".join(lines))


def cluster(here: Path, train: list[int], test: list[int], form: str = "{{ {} }}") -> Path:
    """A cluster.toml that trains and tests on lists with these labels."""
    listed(here, "train", train)
    listed(here, "val", test)
    (here / "net.prototxt").write_text(NET)
    file = configure(here, "single", iterations=2, batch=4)
    text = file.read_text().replace("[train]\n", '[train]\nnet = "net.prototxt"\n', 1)
    text = text.replace(
        'train = { format = "digits", split = "train" }',
        f"train = {form.format(SOURCE.format('train'))}\n"
        f"test = {form.format(SOURCE.format('val'))}",
    )
    file.write_text(text)
    return file


def mistakes(file: Path, capsys: Capture, *options: str) -> list[str]:
    assert main(["check", str(file), *options]) == 2
    lines = capsys.readouterr().err.splitlines()
    return [line for line in lines if not line.startswith("warning: ")]


FORMS = ("{{ {} }}", "{{ in = {{ {} }} }}")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("options", [(), ("--all-samples",)])
def test_a_label_beyond_the_net_is_refused_with_its_line_and_the_number_of_classes(
    here: Path, capsys: Capture, form: str, options: tuple[str, ...]
) -> None:
    file = cluster(here, [0, 1, 2, 9], [0, 1, 10, 11], form)
    (line,) = mistakes(file, capsys, *options)
    assert line.endswith(
        f"train.data.test: {here}/val.txt:4: 'label' holds 10, but layer 'loss' takes whole "
        "numbers from 0 to 9 (10 classes)"
    )


@pytest.mark.parametrize("form", FORMS)
def test_a_test_label_that_only_the_net_knows_is_a_warning_that_names_both_lists(
    here: Path, capsys: Capture, form: str
) -> None:
    assert main(["check", str(cluster(here, [0, 1, 2, 2], [1, 2, 3, 3], form))]) == 0
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "val.txt" in line]
    assert line.startswith("warning: ")
    assert line.endswith(
        f"train.data.test: {here}/val.txt:4: found label 3, but the images for training, "
        f"{here}/train.txt, have labels from 0 to 2 (3 classes): the net has an output for it and "
        "never learns it, so check that both lists number the classes alike"
    )


def test_a_test_list_may_have_fewer_classes(here: Path) -> None:
    assert main(["check", str(cluster(here, [0, 1, 2, 3], [1, 1, 0, 0]))]) == 0


def test_convert_stores_the_images_of_a_list_below_a_folder(here: Path, capsys: Capture) -> None:
    pytest.importorskip("lmdb")
    listed(here, "list", [3, 1, 2], folder="")
    found = {}
    for target, options in (("pixels", ()), ("files", ("--encoded",))):
        assert main(["convert", "list.txt", target, "--root-folder", "photos", *options]) == 0
        assert capsys.readouterr().out == f"{target}: 3 images\n"
        source = open_source({"format": "lmdb", "source": target}, here)
        found[target] = source.read(np.arange(3))
    assert found["pixels"][1].tolist() == found["files"][1].tolist() == [3, 1, 2]
    assert (found["pixels"][0] == found["files"][0]).all()
    stored = (here / "files" / "data.mdb").read_bytes()
    assert (here / "photos" / "0.png").read_bytes() in stored
    assert main(["convert", "list.txt", "again"]) == 2
    assert capsys.readouterr().err == "0.png: no such file\n"


def test_convert_refuses_a_root_folder_for_a_folder(here: Path, capsys: Capture) -> None:
    assert main(["convert", "photos", "made", "--root-folder", "photos"]) == 2
    assert "root_folder: found 'photos', but photos is a folder" in capsys.readouterr().err
    assert not (here / "made").exists()
