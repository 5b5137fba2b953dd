"""`init`, `check`, `test`, `convert` and `predict` with folders of images, as users have them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from nets import DataError
from nets.data import open_source
from roles.commands.common import job_of_file
from runtime.cli.main import main
from runtime.runs.checking import check
from tests.helpers.support import configure, train

image = pytest.importorskip("PIL.Image")
Capture = pytest.CaptureFixture[str]
SIZE = 12
SPECIES = ("oak", "pine")
NET = """
layer { name: "in" type: "ImageData" top: "data" top: "label" image_data_param { batch_size: 4 } }
layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip"
  inner_product_param { num_output: 2 weight_filler { type: "xavier" } } }
layer { name: "accuracy" type: "Accuracy" bottom: "ip" bottom: "label" top: "accuracy"
  include { phase: TEST } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }
"""


def pictures(folder: Path, *names: str) -> Path:
    """Six images of each class: those of a class are alike, and of another brightness."""
    rng = np.random.default_rng(0)
    for name in names:
        (folder / name).mkdir(parents=True, exist_ok=True)
        level = 40 if name == "oak" else 200
        for at in range(6):
            pixels = rng.normal(level, 9, (SIZE, SIZE, 3)).clip(0, 255).astype(np.uint8)
            image.fromarray(pixels).save(folder / name / f"{at}.jpg")
    return folder


def strewn(folder: Path) -> Path:
    """A folder of classes in which file managers, notebooks and archives left their own."""
    pictures(folder, *SPECIES)
    for stray in (".ipynb_checkpoints", "__MACOSX", "@eaDir", "oak/more"):
        (folder / stray).mkdir()
        shutil.copy(folder / "oak" / "0.jpg", folder / stray / "7.jpg")
    (folder / "birch").mkdir()
    (folder / ".DS_Store").write_bytes(b"\0\0\0\1Bud1")
    (folder / "oak" / "._0.jpg").write_bytes(b"\0\5\26\7" + bytes(60))
    shutil.copy(folder / "oak" / "0.jpg", folder / "oak" / "6.jfif")
    return folder


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def cluster(here: Path) -> Callable[..., Path]:
    """Writes a cluster.toml that trains on `train` and tests on `val`."""

    def written(test: str = 'format = "images", source = "val"', iterations: int = 2) -> Path:
        (here / "net.prototxt").write_text(NET)
        file = configure(here, "single", iterations=iterations, batch=4, test=True)
        text = file.read_text().replace("[train]\n", '[train]\nnet = "net.prototxt"\n', 1)
        text = text.replace(
            'format = "digits", split = "train"', 'format = "images", source = "train"'
        )
        file.write_text(text.replace('format = "digits", split = "test"', test))
        return file

    return written


def told_by_init(here: Path, capsys: Capture) -> str:
    assert main(["init", "work", "--images", "photos"]) == 0
    return capsys.readouterr().err


def test_init_takes_the_classes_that_the_user_made_and_reports_the_rest(
    here: Path, capsys: Capture
) -> None:
    strewn(here / "photos")
    err = told_by_init(here, capsys)
    assert (here / "work" / "classes.txt").read_text() == "oak\npine\n"
    listed = "".join((here / "work" / name).read_text() for name in ("train.txt", "val.txt"))
    assert len(listed.splitlines()) == 12
    assert "more" not in listed
    for part in (
        "hidden files and folders: 3 (.DS_Store, .ipynb_checkpoints, oak/._0.jpg)",
        "folders of a file manager or an archive: 2 (@eaDir, __MACOSX)",
        ": 1 (oak/6.jfif)",
        "folders inside the folder of a class: 1 (oak/more)",
        "folders without an image: 1 (birch)",
    ):
        assert part in err


def test_init_reports_classes_whose_names_differ_only_in_case(here: Path, capsys: Capture) -> None:
    pictures(here / "photos", "oak", "Oak")
    if len(list((here / "photos").iterdir())) < 2:
        pytest.skip("this file system takes the two names for one")
    assert "'Oak' and 'oak' differ only in case" in told_by_init(here, capsys)


def test_check_reports_what_was_passed_over_in_the_data_of_each_phase(
    here: Path, cluster: Callable[..., Path]
) -> None:
    strewn(here / "train")
    strewn(here / "val")
    warnings = check(cluster()).warnings
    for phase in ("train", "test"):
        (line,) = (line for line in warnings if f"train.data.{phase}: " in line)
        assert "folders without an image: 1 (birch)" in line


@pytest.mark.parametrize(
    "test", ['format = "images", source = "val"', 'in = { format = "images", source = "val" }']
)
def test_a_test_folder_has_the_labels_of_the_training_folder_by_name(
    here: Path, cluster: Callable[..., Path], test: str
) -> None:
    pictures(here / "train", *SPECIES)
    pictures(here / "val", "ash", "pine")  # a class is missing, and one more folder lies there
    file = cluster(test)
    source = job_of_file(file, ()).source("TEST")
    assert (set(source.read(np.arange(len(source)))[1]), source.class_names) == ({1}, SPECIES)
    said = "\n".join(check(file).warnings)
    assert "val: passed over: folders with the name of no class: 1 (ash)" in said
    assert "val: found no image of 1 of 2 classes: oak" in said


def test_a_folder_that_the_net_itself_names_has_the_labels_of_the_training_folder(
    here: Path, cluster: Callable[..., Path]
) -> None:
    pictures(here / "train", *SPECIES)
    pictures(here / "val", "pine")
    file = cluster('format = "net"')
    net = NET.replace("batch_size: 4", 'batch_size: 4 source: "val"')
    (here / "net.prototxt").write_text(net)
    source = job_of_file(file, ()).source("TEST")
    assert (set(source.read(np.arange(len(source)))[1]), source.class_names) == ({1}, SPECIES)


def test_the_roles_of_a_run_and_the_command_test_score_by_the_names_of_the_folders(
    here: Path, cluster: Callable[..., Path], capsys: Capture
) -> None:
    pictures(here / "train", *SPECIES)
    pictures(here / "val", "pine")
    file = cluster(iterations=30)
    text = file.read_text().replace("[train.data]\n", "[train.data]\nshuffle = true\n", 1)
    file.write_text(text)
    (here / "net.prototxt").write_text(
        NET.replace(
            "image_data_param", "transform_param { mean_value: 120 scale: 0.01 } image_data_param"
        )
    )
    run = train(file)
    # the tests of the run: all pines are pines, and would be oaks in the order of `val`
    assert run.journal.of("test")[-1]["accuracy"] == 1.0
    saved = run.journal.of("checkpoint")[-1]["file"]
    capsys.readouterr()
    assert main(["test", saved, "--json"]) == 0
    told = capsys.readouterr()
    assert json.loads(told.out)["scores"]["accuracy"] == 1.0
    assert "found no image of 1 of 2 classes: oak" in told.err
    assert main(["predict", saved, str(strewn(here / "val")), "--json"]) == 0
    told = capsys.readouterr()
    names = [json.loads(line)["image"] for line in told.out.splitlines()]
    assert len(names) == 13  # twelve and oak/more/7.jpg
    assert not [name for name in names if "/." in name or "__MACOSX" in name]
    assert "hidden files and folders: 3" in told.err
    data = "format=images,source=train,classes=pine+oak"
    assert main(["predict", saved, "--data", data]) == 0


def test_names_of_classes_in_another_order_than_the_folders_are_refused(
    here: Path, cluster: Callable[..., Path], capsys: Capture
) -> None:
    pictures(here / "train", *SPECIES)
    pictures(here / "val", *SPECIES)
    cluster()
    assert main(["check", "--set", "train.data.classes=['pine', 'oak']"]) == 2
    assert "the labels of the data are in the order oak, pine" in capsys.readouterr().err
    assert main(["check", "--set", "train.data.classes=['Kiefer', 'Eiche']"]) == 0


def test_a_resumed_run_whose_folders_became_other_classes_is_warned(
    here: Path, cluster: Callable[..., Path]
) -> None:
    pictures(here / "train", *SPECIES)
    pictures(here / "val", *SPECIES)
    file = cluster()
    (here / "net.prototxt").write_text(NET.replace("num_output: 2", "num_output: 3"))
    saved = train(file).journal.of("checkpoint")[-1]["file"]
    settings = [f"train.resume={saved}", "train.max_iter=4"]
    assert not [line for line in check(file, settings).warnings if "label" in line]
    pictures(here / "train", "birch")
    (line,) = (line for line in check(file, settings).warnings if "the same label may" in line)
    assert "was trained on 2 classes (oak, pine), and the data have 3 (birch, oak, pine)" in line


def test_names_of_classes_that_differ_only_in_case_are_reported_too(
    here: Path, cluster: Callable[..., Path]
) -> None:
    pictures(here / "train", *SPECIES)
    pictures(here / "val", *SPECIES)
    found = check(cluster(), ["train.data.classes=['Oak', 'oak']"]).warnings
    assert any("train.data.classes: 'Oak' and 'oak' differ only in case" in line for line in found)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("['x', 'x']", "classes: found 'x' 2 times, expected each class once"),
        ("[1]", "classes[0]: found 1 (integer), expected a non-empty string"),
        ("['a', '']", "classes[1]: found '' (string), expected a non-empty string"),
        ("1", "classes: found 1 (integer), expected a non-empty string or a non-empty array of"),
        ("[]", "classes: found an array, expected a non-empty string or a non-empty array of"),
    ],
)
def test_wrong_names_of_classes_are_refused_in_one_line(
    here: Path, cluster: Callable[..., Path], value: str, expected: str, capsys: Capture
) -> None:
    pictures(here / "train", *SPECIES)
    pictures(here / "val", *SPECIES)
    assert main(["check", str(cluster()), "--set", f"train.data.classes={value}"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"train.data.{expected}" in line


def test_a_file_may_name_two_classes_alike(here: Path, cluster: Callable[..., Path]) -> None:
    pictures(here / "train", *SPECIES)
    pictures(here / "val", *SPECIES)
    (here / "names.txt").write_text("crane\ncrane\n")
    found = check(cluster(), ["train.data.classes=names.txt"]).warnings
    assert any("classes: found 'crane' 2 times, expected each class once" in line for line in found)


def test_convert_stores_the_images_of_the_classes_and_reports_the_rest(
    here: Path, capsys: Capture, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("lmdb")
    strewn(here / "photos")
    assert main(["convert", "photos", "photos_lmdb"]) == 0
    assert "photos_lmdb: 12 images" in capsys.readouterr().out
    assert "folders without an image: 1 (birch)" in caplog.text
    source = open_source({"format": "lmdb", "source": "photos_lmdb"}, here)
    assert source.read(np.arange(12))[1].tolist() == [0] * 6 + [1] * 6


def test_check_of_all_samples_lists_all_damaged_files_and_counts_the_classes(
    here: Path, cluster: Callable[..., Path], capsys: Capture
) -> None:
    pictures(here / "train", *SPECIES)
    pictures(here / "val", "pine")
    file = cluster()
    assert main(["check", "--all-samples"]) == 0
    told = capsys.readouterr().out
    assert "train.data.train: 12 samples\n  class 0 oak: 6 samples\n  class 1 pine: 6" in told
    assert "train.data.test: 6 samples\n  class 0 oak: 0 samples\n" in told
    wrong = [here / "train/oak/0.jpg", here / "train/pine/4.jpg", here / "val/pine/2.jpg"]
    for path in wrong:
        path.write_bytes(path.read_bytes()[:-60])
    assert main(["check", "--all-samples"]) == 2
    told = capsys.readouterr()
    lines = told.err.splitlines()
    assert [line for path in wrong for line in lines if f"{path}: damaged" in line] == lines
    assert "train.data.train: 12 samples, 2 damaged" in told.out
    file.write_text(
        file.read_text().replace("[train.data]\n", "[train.data]\nclasses = ['a']\n", 1)
    )
    assert main(["check", "--all-samples"]) == 2


def test_check_of_all_samples_names_a_damaged_file_once_even_with_a_line_break_in_its_name(
    here: Path, cluster: Callable[..., Path], capsys: Capture
) -> None:
    pictures(here / "train", *SPECIES)
    pictures(here / "val", *SPECIES)
    cluster()
    (here / "train" / "oak" / "a\nb.png").write_bytes(b"no image")
    assert main(["check", "--all-samples"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "oak/a\\nb.png: damaged or not an image" in line
    assert line.endswith("; remove it from its folder")


def test_a_damaged_image_of_a_list_is_refused_with_the_list_that_names_it(here: Path) -> None:
    (here / "a.png").write_bytes(b"no image")
    (here / "list.txt").write_text("a.png 0\n")
    with pytest.raises(DataError, match=r"damaged.*; remove its line from \S*list\.txt$"):
        open_source({"format": "images", "source": "list.txt"}, here)


@pytest.mark.parametrize(
    ("source", "options", "expected"),
    [
        ("format=digits", ["--gray"], "--gray: given for a data source"),
        (
            "format=digits",
            ["--encoded", "--new-height", "9", "--shuffle-seed", "0"],
            "--new-height, --encoded, --shuffle-seed: given for a data source",
        ),
        ("train", ["--mean"], "--mean: found train, expected a data source"),
    ],
)
def test_convert_refuses_an_option_that_the_source_does_not_have(
    here: Path, capsys: Capture, source: str, options: list[str], expected: str
) -> None:
    pictures(here / "train", *SPECIES)
    for target in ("made_lmdb", "made.binaryproto"):
        if target == "made_lmdb" or "--mean" in options:
            assert main(["convert", source, str(here / target), *options]) == 2
            assert expected in capsys.readouterr().err
            assert not (here / target).exists()


def test_check_of_all_samples_finds_a_label_that_the_net_does_not_know(
    here: Path, cluster: Callable[..., Path], capsys: Capture
) -> None:
    pictures(here / "train", *SPECIES)
    pictures(here / "val", *SPECIES)
    (here / "list.txt").write_text("train/oak/0.jpg 0\ntrain/pine/0.jpg 1\ntrain/oak/1.jpg 7\n")
    file = cluster()
    file.write_text(file.read_text().replace('source = "train"', 'source = "list.txt"'))
    assert main(["check", "--all-samples"]) == 2
    assert len([line for line in capsys.readouterr().err.splitlines() if "7" in line]) == 1
