"""The identity of data sources, which shows whether two machines have the same data: equal for
copies, and different for everything else."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nets.data import MemorySource, identity, open_source
from nets.data.data_identity import MOST_NUMBERS
from nets.data.joined import JoinedSource
from nets.data.lmdb.writers import records_of, write_lmdb

COUNT = 40
SIDE = 6


def pixels(seed: int = 0) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return np.random.default_rng(seed).integers(0, 256, (COUNT, 3, SIDE, SIDE), dtype=np.uint8)


def as_idx(folder: Path) -> dict[str, Any]:
    for name, array in (
        ("images", pixels()[:, 0]),
        ("labels", np.arange(COUNT, dtype=np.uint8) % 10),
    ):
        header = bytes((0, 0, 8, array.ndim)) + b"".join(
            size.to_bytes(4, "big") for size in array.shape
        )
        (folder / name).write_bytes(header + array.tobytes())
    return {"format": "idx", "images": "images", "labels": "labels"}


def as_lmdb(folder: Path) -> dict[str, Any]:
    pytest.importorskip("lmdb")
    write_lmdb(folder / "db", records_of(zip(pixels(), range(COUNT), strict=True)))
    return {"format": "lmdb", "source": "db"}


def as_images(folder: Path) -> dict[str, Any]:
    image = pytest.importorskip("PIL.Image")
    for number, one in enumerate(pixels()):
        image.fromarray(one.transpose(1, 2, 0)).save(folder / f"{number}.png")
    (folder / "list").write_text("".join(f"{number}.png {number % 3}\n" for number in range(COUNT)))
    return {"format": "images", "source": "list"}


def as_hdf5(folder: Path) -> dict[str, Any]:
    h5py = pytest.importorskip("h5py")
    with h5py.File(folder / "a.h5", "w") as file:
        file["data"], file["label"] = (
            pixels().astype(np.float32),
            np.arange(COUNT, dtype=np.float32),
        )
    return {"format": "hdf5", "source": "a.h5"}


def as_text(folder: Path) -> dict[str, Any]:
    (folder / "text").write_text("the quick brown fox jumps over the lazy dog\n" * 20)
    return {"format": "text", "source": "text", "streams": 2, "length": 5}


def in_bytes(name: str, at: int = -20) -> Callable[[Path], None]:
    """Return a function that changes one byte of a file."""

    def change(folder: Path) -> None:
        content = bytearray((folder / name).read_bytes())
        content[at] ^= 1
        (folder / name).write_bytes(bytes(content))

    return change


def in_a_record(folder: Path) -> None:
    """Change the first pixel of the last image in the database."""
    path = folder / "db" / "data.mdb"
    content = path.read_bytes()
    last = pixels()[-1].tobytes()
    assert last in content
    path.write_bytes(content.replace(last, bytes([last[0] ^ 1]) + last[1:]))


def relabelled(folder: Path) -> None:
    """Change the label of an image that is not among the sampled images."""
    text = (folder / "list").read_text()
    (folder / "list").write_text(text.replace("17.png 2", "17.png 1"))


def longer(folder: Path) -> None:
    (folder / "list").write_text((folder / "list").read_text() + "0.png 0\n")


CASES = [
    (as_idx, in_bytes("images")),
    (as_idx, in_bytes("labels", -7)),
    (as_lmdb, in_a_record),
    (as_images, in_bytes("39.png")),
    (as_images, relabelled),
    (as_images, longer),
    (as_hdf5, in_bytes("a.h5")),
    (as_text, in_bytes("text", 3)),
]


@pytest.mark.parametrize(
    ("made", "change"), CASES, ids=[f"{made.__name__}-{n}" for n, (made, _) in enumerate(CASES)]
)
def test_a_copy_elsewhere_is_the_same_data_and_a_changed_copy_is_not(
    tmp_path: Path, made: Callable[[Path], dict[str, Any]], change: Callable[[Path], None]
) -> None:
    (tmp_path / "here").mkdir()
    config = made(tmp_path / "here")
    shutil.copytree(tmp_path / "here", tmp_path / "there")
    before = identity(open_source(config, tmp_path / "here"))
    assert identity(open_source(config, tmp_path / "there")) == before
    change(tmp_path / "there")
    assert identity(open_source(config, tmp_path / "there")) != before


def test_of_many_samples_a_selection_over_the_whole_range_is_compared_and_all_labels() -> None:
    count = 8 * MOST_NUMBERS // (64 * 64)
    images = np.zeros((count, 1, 64, 64), np.uint8)
    labels = np.zeros(count, np.int64)
    before = identity(MemorySource("zeros", images, labels))
    assert before.startswith(f"{count} samples (1, 64, 64), checksum ")
    for change in (images[0], images[-1]):
        change[0, 0, 0] = 1
        assert identity(MemorySource("zeros", images, labels)) != before
        change[0, 0, 0] = 0
    labels[5] = 1
    assert identity(MemorySource("zeros", images, labels)) != before


def test_sources_side_by_side_are_the_same_if_each_of_them_is() -> None:
    def joined(seed: int) -> str:
        first = MemorySource("a", pixels(), np.arange(COUNT))
        other = MemorySource("b", pixels(seed), np.arange(COUNT))
        return identity(JoinedSource({"a": (first, 2), "b": (other, 1)}))

    assert joined(1) == joined(1) != joined(2)
