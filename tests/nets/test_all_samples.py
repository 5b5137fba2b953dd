"""All samples of a source are read once, and each that is damaged or not finite is named."""

from collections import Counter

import numpy as np
import pytest

from nets import DataError
from nets.data import MemorySource, open_source
from nets.data.all_samples import read_all

pillow = pytest.importorskip("PIL.Image")


def folder_of(tmp_path, *classes, count=5):
    for level, name in enumerate(classes):
        (tmp_path / "set" / name).mkdir(parents=True)
        for at in range(count):
            image = pillow.new("RGB", (8, 8), (40 * level, 0, 0))
            image.save(tmp_path / "set" / name / f"{at}.jpg")
    return tmp_path / "set"


def cut(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 2 // 3])


@pytest.mark.parametrize("rows", [1, 3, 1000])
def test_all_damaged_files_are_named_by_their_paths_and_the_others_are_counted(
    tmp_path, monkeypatch, rows
):
    monkeypatch.setattr("nets.data.all_samples.MOST_NUMBERS", rows * 3 * 8 * 8)
    folder = folder_of(tmp_path, "oak", "pine")
    wrong = [folder / "oak" / "0.jpg", folder / "oak" / "3.jpg", folder / "pine" / "4.jpg"]
    for path in wrong:
        cut(path)
    source = open_source({"format": "images", "source": "set"}, tmp_path)
    found = read_all(source)
    assert [line.partition(": ")[0] for line in found.damaged] == [str(path) for path in wrong]
    assert found.mistakes == found.damaged
    assert list(found.told(source.class_names, source.num_classes)) == [
        "10 samples, 3 damaged",
        "  class 0 oak: 3 samples",
        "  class 1 pine: 4 samples",
    ]


def test_a_class_without_a_sample_is_counted_too():
    source = MemorySource("m", np.zeros((3, 1, 2, 2), np.uint8), np.array([0, 2, 2]), 4)
    counts = [line.split()[-2] for line in [*read_all(source).told((), 4)][1:]]
    assert counts == ["1", "0", "2", "0"]


def test_many_classes_in_a_row_without_a_sample_have_one_line():
    labels = np.array([1, 999_999_999])
    source = MemorySource("m", np.zeros((2, 1, 2, 2), np.uint8), labels, 10**9 + 20)
    assert [*read_all(source).told(("oak",), source.num_classes)][1:] == [
        "  class 0 oak: 0 samples",
        "  class 1: 1 sample",
        "  classes 2 to 999999998: 0 samples",
        "  class 999999999: 1 sample",
        "  classes 1000000000 to 1000000019: 0 samples",
    ]


def test_nan_and_infinity_are_told_apart_and_named_by_the_sample():
    images = np.zeros((6, 1, 2, 2), np.float32)
    images[1, 0, 0, 0] = np.nan
    images[4, 0, 1, 1] = -np.inf
    labels = np.array([0, 1, 0, 1, np.nan, 0.5])
    found = read_all(MemorySource("m", images, labels))
    assert found.mistakes == [
        "found NaN in 2 samples: m: sample 1, m: sample 4",
        "found infinity in 1 sample: m: sample 4",
    ]
    assert found.labels[1] == Counter({0.0: 2, 1.0: 2, 0.5: 1})
    assert [*found.told((), None)][1] == "  labels from 0 to 1"


def test_rows_of_hdf5_files_and_records_of_a_database_are_named_by_file_and_number(tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["data"] = np.array([[1.0, 2.0], [np.inf, 0.0]], np.float32)
        file["label"] = np.zeros((2, 1), np.float32)
    with h5py.File(tmp_path / "b.h5", "w") as file:
        file["data"] = np.array([[np.nan, 2.0]], np.float32)
        file["label"] = np.ones((1, 1), np.float32)
    (tmp_path / "list.txt").write_text("a.h5\nb.h5\n")
    source = open_source(
        {"format": "hdf5", "source": "list.txt", "tops": ["data", "label"]}, tmp_path
    )
    assert read_all(source).mistakes == [
        f"found NaN in 1 sample: {tmp_path}/b.h5: row 0",
        f"found infinity in 1 sample: {tmp_path}/a.h5: row 1",
    ]


def test_a_source_of_which_nothing_can_be_decoded_is_refused_with_its_first_fault(tmp_path):
    folder = folder_of(tmp_path, "oak", "pine", count=1)
    for name in ("oak", "pine"):
        cut(folder / name / "0.jpg")
    with pytest.raises(DataError, match=f"^{folder}/oak/0.jpg: damaged"):
        open_source({"format": "images", "source": "set"}, tmp_path)
