"""`train.data.test_flips`: `test` scores the mean of the probabilities of an image and its mirror
image, for one net and for the members of an ensemble."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from nets.data import open_source
from nets.predict import Predictor
from ops import get_backend
from runtime.cli.main import main
from runtime.runs.checking import check
from tests.helpers.support import configure, train

FLIPS = ("--set", "train.data.test_flips=true")
COUNT = 359  # the digits' test images


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("flips")
    for seed in (2, 1):
        found = train(configure(folder, "single", iterations=8, seed=seed, test=True))
        shutil.move(
            folder / found.journal.of("checkpoint")[-1]["file"], folder / f"{seed}.safetensors"
        )
    return folder


def mean_of(*files: str) -> tuple[np.ndarray, np.ndarray]:
    """The mean probabilities of the digits and their mirror images, and the labels."""
    images, labels = open_source({"format": "digits", "split": "test"}, Path()).read(
        np.arange(COUNT)
    )
    nets = [Predictor.load(file, backend=get_backend("numpy")) for file in files]
    both = [net.scores(x) for net in nets for x in (images, images[..., ::-1])]
    return np.mean(both, axis=0), labels


@pytest.mark.parametrize("files", [("1.safetensors",), ("1.safetensors", "2.safetensors")])
def test_the_probabilities_of_an_image_and_its_mirror_image_are_averaged(
    trained: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    files: tuple[str, ...],
) -> None:
    monkeypatch.chdir(trained)
    expected, labels = mean_of(*files)
    own = expected[np.arange(COUNT), labels]
    assert main(["test", *files, "--json", "--top", "2", *FLIPS]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["scores"] == {
        "accuracy": pytest.approx((expected.argmax(1) == labels).mean()),
        "loss": pytest.approx(-np.log(own).mean(), abs=1e-5),
    }
    among = (np.argsort(-expected)[:, :2] == labels[:, None]).any(axis=1)
    assert found["top"]["accuracy"] == pytest.approx(among.mean())
    assert main(["test", *files, "--json"]) == 0
    plain = json.loads(capsys.readouterr().out)
    assert plain["scores"]["loss"] != pytest.approx(found["scores"]["loss"], rel=1e-3)


def test_the_output_names_the_mirror_images_and_check_does_not_warn_of_them(
    trained: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(trained)
    assert main(["test", "1.safetensors", *FLIPS]) == 0
    for line in capsys.readouterr().out.splitlines():
        assert line.endswith(f" on {COUNT} images and their mirror images")
    assert main(["test", "1.safetensors", "--json", *FLIPS]) == 0
    assert json.loads(capsys.readouterr().out)["test_flips"] is True
    assert not [
        line for line in check(trained / "cluster.toml", FLIPS[1:]).warnings if "flips" in line
    ]


def test_a_predictor_mirrors_images_after_their_transform(trained: Path) -> None:
    net = Predictor.load(trained / "1.safetensors", backend=get_backend("numpy"))
    images, _ = open_source({"format": "digits", "split": "test"}, Path()).read(np.arange(4))
    assert (net.scores(images, mirrored=True) == net.scores(images[..., ::-1])).all()
