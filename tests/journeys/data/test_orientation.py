"""`train.data.orientation`: it reaches every source, is kept in the checkpoint, and `predict` follows
it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from nets.data.decoding.decode import image as decoded
from nets.predict.given import deployment_of
from roles.commands.common import job_of_file
from runtime.cli.main import main
from tests.helpers.pictures import exif_of
from tests.helpers.support import configure, train

image = pytest.importorskip("PIL.Image")
Capture = pytest.CaptureFixture[str]
NET = """
layer { name: "in" type: "ImageData" top: "data" top: "label" transform_param { scale: 0.001 }
  image_data_param { batch_size: 4 source: "list.txt" } }
layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip"
  inner_product_param { num_output: 2 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }
"""
LIST = 'format = "images", source = "list.txt"'
SOURCES = (LIST, f"in = {{ {LIST} }}", 'format = "net"')


def cluster(folder: Path, source: str, data: str = "") -> Path:
    """A cluster.toml that trains on four photographs whose rows are columns in the file."""
    rng = np.random.default_rng(0)
    for at in range(4):
        pixels = rng.integers(0, 256, (8, 12, 3), dtype=np.uint8)
        image.fromarray(pixels).save(folder / f"{at}.jpg", exif=exif_of(6))
    (folder / "list.txt").write_text("".join(f"{at}.jpg {at % 2}\n" for at in range(4)))
    (folder / "net.prototxt").write_text(NET)
    file = configure(folder, "single", iterations=2, batch=4)
    text = file.read_text().replace("[train]\n", '[train]\nnet = "net.prototxt"\n', 1)
    text = text.replace("[train.data]\n", f"[train.data]\n{data}\n", 1)
    file.write_text(text.replace('format = "digits", split = "train"', source))
    return file


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize(
    ("data", "shape"),
    [
        ("", (3, 12, 8)),
        ('orientation = "stored"', (3, 8, 12)),
        ('orientation = "exif"', (3, 12, 8)),
    ],
)
def test_the_key_counts_for_sources_of_every_form(
    tmp_path: Path, source: str, data: str, shape: tuple[int, ...]
) -> None:
    assert job_of_file(cluster(tmp_path, source, data), ()).source("TRAIN").shape == shape


def test_a_source_may_have_its_own_orientation(tmp_path: Path) -> None:
    own = f'{LIST}, orientation = "stored"'
    file = cluster(tmp_path, own, 'orientation = "exif"')
    assert job_of_file(file, ()).source("TRAIN").shape == (3, 8, 12)


@pytest.mark.parametrize("orientation", ["exif", "stored"])
def test_predict_turns_photographs_as_the_training_of_its_checkpoint_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture, orientation: str
) -> None:
    monkeypatch.chdir(tmp_path)
    run = train(cluster(tmp_path, LIST, f'orientation = "{orientation}"'))
    file = tmp_path / run.journal.of("checkpoint")[-1]["file"]
    said = deployment_of([file])
    assert said is not None
    assert said.orientation == orientation
    shown = {}
    for option in ((), ("--orientation", "exif"), ("--orientation", "stored")):
        capsys.readouterr()
        assert main(["predict", str(file), "0.jpg", "--json", *option]) == 0
        shown[option] = json.loads(capsys.readouterr().out)
    assert shown[()] == shown[("--orientation", orientation)]
    assert shown[("--orientation", "exif")] != shown[("--orientation", "stored")]
    data = (tmp_path / "0.jpg").read_bytes()
    assert decoded(data, "0", orientation=orientation).shape == said.shape


def test_test_reports_settings_of_images_that_differ_from_those_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    pixels = np.random.default_rng(1).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    source = f"{LIST}, new_height = 8, new_width = 8"
    file = cluster(tmp_path, source, f"test = {{ {source} }}\nmean = [100]")
    image.fromarray(pixels).save(tmp_path / "0.jpg", exif=exif_of(6))
    run = train(file)
    saved = run.journal.of("checkpoint")[-1]["file"]

    def told(*settings: str) -> str:
        capsys.readouterr()
        assert main(["test", saved, *(word for each in settings for word in ("--set", each))]) == 0
        return capsys.readouterr().err

    assert "trained with" not in told()
    assert told("train.data.orientation=stored") == (
        f"weights    {saved}: trained with orientation exif; this test has orientation stored\n"
    )
    assert told("train.data.mean=[1.5, 2, 3]", "train.data.deviation=[4]").endswith(
        "trained with mean 100, deviation none, scale 0.001; this test has mean 1.5 2 3, "
        "deviation 4, scale 1\n"
    )


def test_predict_names_an_unknown_orientation(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "w.safetensors").write_bytes(b"")
    words = ["predict", str(tmp_path / "w.safetensors"), "a.jpg", "--orientation", "up"]
    assert main(words) == 2
    assert "--orientation: found 'up', expected one of exif, stored" in capsys.readouterr().err
