"""Pictures that are read otherwise than a user may expect are reported by `check` and in a run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nets.data.pictures.jpeg import WARNED
from nets.data.pictures.notices import NOTICES
from nets.data.pictures.rasters import FRAMES
from runtime.cli.main import main
from runtime.runs.checking import check
from tests.helpers.pictures import saved
from tests.helpers.support import configure, events, run_directory, run_up

image = pytest.importorskip("PIL.Image")
NET = """
layer { name: "in" type: "ImageData" top: "data" top: "label" image_data_param { batch_size: 4 }
  transform_param { scale: 0.01 } }
layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip"
  inner_product_param { num_output: 2 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }
"""


def cluster(folder: Path) -> Path:
    """A cluster.toml that trains on a JPEG with two bytes between its segments, an animation and two
    other pictures."""
    rng = np.random.default_rng(0)
    pictures = [image.fromarray(rng.integers(0, 256, (8, 8, 3), dtype=np.uint8)) for _ in range(4)]
    good = saved(pictures[0], "JPEG")
    (folder / "fault.jpg").write_bytes(good[:20] + bytes(2) + good[20:])
    moving = saved(pictures[1], "GIF", save_all=True, append_images=pictures[2:])
    (folder / "moving.gif").write_bytes(moving)
    pictures[2].save(folder / "2.png")
    pictures[3].save(folder / "3.png")
    names = ("fault.jpg", "moving.gif", "2.png", "3.png")
    (folder / "list.txt").write_text("".join(f"{name} 0\n" for name in names))
    (folder / "net.prototxt").write_text(NET)
    file = configure(folder, "single", iterations=2, batch=4)
    text = file.read_text().replace("[train]\n", '[train]\nnet = "net.prototxt"\n', 1)
    source = 'format = "images", source = "list.txt"'
    file.write_text(text.replace('format = "digits", split = "train"', source))
    return file


@pytest.fixture(autouse=True)
def noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing has been noticed before a test."""
    monkeypatch.setattr(NOTICES, "_names", {})


def test_check_names_each_picture_with_a_notice(tmp_path: Path) -> None:
    said = check(cluster(tmp_path)).warnings
    assert sum(f"{tmp_path}/fault.jpg: {WARNED}: " in line for line in said) == 1
    assert sum(f"{tmp_path}/moving.gif: {FRAMES}" in line for line in said) == 1


def test_check_of_all_samples_counts_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", str(cluster(tmp_path)), "--all-samples"]) == 0
    out = capsys.readouterr().out
    assert f"  {WARNED}: 1 ({tmp_path}/fault.jpg)" in out
    assert f"  {FRAMES}: 1 ({tmp_path}/moving.gif)" in out


@pytest.mark.slow
def test_a_run_reads_such_pictures_and_its_events_name_them(tmp_path: Path) -> None:
    file = cluster(tmp_path)
    ended = run_up(file)
    assert ended.returncode == 0, ended.stderr
    told = [event["text"] for event in events(run_directory(file), "warning")]
    shown = ended.stdout + ended.stderr
    for name in ("fault.jpg", "moving.gif"):
        assert sum(f"{tmp_path}/{name}: " in text for text in told) == 1
        assert shown.count(f"{tmp_path}/{name}: ") == 1, "the check has said it already"
