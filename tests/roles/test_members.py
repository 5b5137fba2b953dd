"""The words of `predict` and `test`: which name weights, which images, which the cluster.toml."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nets import NetError
from nets.files.checkpoint import save
from roles.commands.members import CLUSTER, members_of, weights_and_file, weights_and_images
from runtime.records.run_identity import Identity


def run(name: str, number: int = 1) -> Path:
    """The directory of a run of this name with one checkpoint."""
    directory = Path("runs", f"20260101-00000{number}-{name}")
    directory.mkdir(parents=True)
    Identity.new(name, float(number)).write(directory)
    model(directory / "checkpoint-0000004.safetensors")
    return directory


def model(path: Path) -> Path:
    save(path, {"ip.0": np.zeros(1, "f4")}, {"iteration": "4"})
    return path


def folder(name: str, *files: str) -> Path:
    Path(name).mkdir()
    for file in files:
        Path(name, file).touch()
    return Path(name)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_words_of_predict_are_weights_by_their_ending_or_as_a_run() -> None:
    directory = run("digits")
    folder("pictures", "a.png")
    Path("bare").touch()
    images = ["three.png", "pictures", "gone.JPG", "bare", "nobody", "pictures/"]
    for weights in (
        ["b.safetensors", "c.caffemodel", "d.caffemodel.h5", "e.hdf5"],
        ["digits", str(directory), f"{directory}/", directory.name],
        ["conv.caffemodel,ip.caffemodel", "a.h5,digits"],
        [],
    ):
        assert weights_and_images([*weights, *images]) == (weights, images)
        assert weights_and_images(weights) == (weights, [])


def test_weights_after_an_image_are_refused() -> None:
    with pytest.raises(NetError, match=r"^b.h5: found weights after the image a.png, expected all"):
        weights_and_images(["x.h5", "a.png", "c.png", "b.h5"])


@pytest.mark.parametrize("word", ["both", "both,x.h5"])
def test_a_folder_with_a_model_and_images_is_refused_with_what_to_write(word: str) -> None:
    model(folder("both", "a.png") / "best.safetensors")
    text = r"^both: found a folder with models and with images: name the model in it, such as "
    with pytest.raises(NetError, match=rf"{text}both/best.safetensors, or the images, such as"):
        weights_and_images([word])


def test_a_path_that_is_also_the_name_of_a_run_is_refused_with_what_to_write() -> None:
    directory = run("digits")
    other = run("letter", 2)
    folder("digits", "a.png")
    Path("letter").touch()
    text = "digits: found a path and a run of this name: write digits/ for the folder of images"
    with pytest.raises(NetError, match=rf"^{text}, or {directory} for the run"):
        weights_and_images(["digits"])
    for words in (weights_and_images, lambda words: weights_and_file(words, None)):
        with pytest.raises(NetError, match=rf"write ./letter for the file, or {other} for the run"):
            words(["letter"])
    named = ["digits/", "./letter"]
    assert weights_and_images([str(directory), str(other), *named]) == (
        [str(directory), str(other)],
        named,
    )
    # a cluster.toml that cannot be read does not matter for paths
    CLUSTER.write_text("[")
    assert weights_and_images(["digits"]) == ([], ["digits"])


def test_words_of_test_are_weights_except_the_cluster_toml() -> None:
    directory = run("digits")
    Path("described").touch()
    weights = ["b.h5", "digits", str(directory), "a.caffemodel,digits"]
    assert weights_and_file(weights, None) == (weights, CLUSTER)
    for words in ([*weights, "other.toml"], ["other.toml", *weights]):
        assert weights_and_file(words, None) == (weights, Path("other.toml"))
    assert weights_and_file([*weights, "described"], None) == (weights, Path("described"))
    assert weights_and_file(weights, Path("any")) == (weights, Path("any"))
    assert weights_and_file([], None) == ([], CLUSTER)


def test_a_run_is_sought_in_the_folder_that_the_named_cluster_toml_gives() -> None:
    run("digits").rename(folder("elsewhere") / "20260101-000001-digits")
    Path("other.toml").write_text('[run]\ndirectory = "elsewhere"\n')
    found, file = weights_and_file(["digits", "other.toml"], None)
    assert found == ["digits"]
    assert [str(each.files[0].parent) for each in members_of(found, file)] == [
        "elsewhere/20260101-000001-digits"
    ]


@pytest.mark.parametrize(
    ("words", "file", "named"),
    [
        (["a.toml", "b.toml"], None, "a.toml, b.toml"),
        (["a.toml"], Path("b"), "b, a.toml"),
        (["described"], Path("b"), "b, described"),
    ],
)
def test_two_descriptions_of_the_cluster_are_refused(
    words: list[str], file: Path | None, named: str
) -> None:
    Path("described").touch()
    with pytest.raises(NetError, match=f"^found {named}, expected one description of the cluster"):
        weights_and_file(["x.h5", *words], file)


def test_a_word_that_is_nothing_is_refused_as_weights() -> None:
    further, file = weights_and_file(["nobody"], None)
    with pytest.raises(NetError, match=r"^nobody: found no such file, and no run of this name in"):
        members_of(further, file)


def test_the_same_weights_twice_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    directory = run("digits")
    Path("link").symlink_to(directory)
    for other in ("digits", "link", str(directory / "checkpoint-0000004.safetensors")):
        with pytest.raises(NetError, match=f"^{other}: found the same weights as {directory}"):
            members_of([str(directory), other], CLUSTER)
    capsys.readouterr()
    Path("circle.h5").symlink_to("circle.h5")
    members_of(["circle.h5", "a.h5"], CLUSTER)  # reading it gives the error
    capsys.readouterr()
    found = members_of(["a.h5", "b.h5,c.h5"], CLUSTER)
    assert [each.files for each in found] == [(Path("a.h5"),), (Path("b.h5"), Path("c.h5"))]
    assert capsys.readouterr().err == "ensemble   the average of 2 nets: a.h5 b.h5,c.h5\n"
    members_of(["a.h5"], CLUSTER)
    assert capsys.readouterr().err == ""
