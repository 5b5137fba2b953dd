"""A checkpoint is read back as it was saved, or is refused. A failed save leaves the old
checkpoint."""

import os
import resource
import tracemalloc

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from nets import CheckpointError
from nets.files.checkpoint import KEY, load, metadata, save, verify


def test_arrays_and_metadata_come_back_as_they_were(tmp_path):
    arrays = {
        "conv1/0": np.random.default_rng(0).random((3, 2, 5, 5)).astype(np.float32),
        "transposed": np.arange(6.0).reshape(2, 3).T,
        "iteration": np.array(7, np.int64),
        "empty": np.zeros((0, 3), np.float32),
    }
    save(tmp_path / "a.safetensors", arrays, {"net": "LeNet"})
    found, metadata = load(tmp_path / "a.safetensors")
    assert metadata == {"net": "LeNet"}
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)
    assert [file.name for file in tmp_path.iterdir()] == ["a.safetensors"]


def test_a_damaged_file_is_refused_wherever_it_is_cut(tmp_path):
    file = tmp_path / "a.safetensors"
    save(file, {"w": np.arange(9.0)}, {})
    data = file.read_bytes()
    for end in range(0, len(data), 7):
        file.write_bytes(data[:end])
        with pytest.raises(CheckpointError, match=r"/a.safetensors: "):
            load(file)


def test_foreign_and_missing_files_are_refused(tmp_path):
    save_file({"w": np.arange(9.0)}, tmp_path / "other.safetensors")
    with pytest.raises(
        CheckpointError,
        match=(r"other.safetensors: found convoy_checkpoint " r"version none, expected '2'"),
    ):
        load(tmp_path / "other.safetensors")
    with pytest.raises(CheckpointError, match="no such checkpoint"):
        load(tmp_path / "absent")


@pytest.mark.parametrize("name", ["a.caffemodel", "a.solverstate", "a.solverstate.h5"])
def test_a_snapshot_of_caffe_is_refused_with_the_command_that_makes_a_checkpoint_of_it(
    tmp_path, name
):
    (tmp_path / name).write_bytes(b"caffe")
    with pytest.raises(CheckpointError, match=rf"{name}: found a file of Caffe.*`convert WEIGHTS"):
        metadata(tmp_path / name)


def test_endlessly_nested_metadata_are_refused_in_words(tmp_path):
    path = tmp_path / "deep.safetensors"
    save_file({"w": np.zeros(1)}, path, {KEY: "[" * 100_000})
    for read in (load, verify, metadata):
        with pytest.raises(
            CheckpointError, match=(r"/deep\.safetensors: found " r"convoy_checkpoint version none")
        ):
            read(path)


def test_a_save_that_fails_leaves_the_old_checkpoint_and_no_litter(tmp_path, monkeypatch):
    file = tmp_path / "a.safetensors"
    save(file, {"w": np.arange(3.0)}, {"step": "1"})

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        save(file, {"w": np.arange(4.0)}, {"step": "2"})
    assert load(file)[1] == {"step": "1"}
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.safetensors"]


def test_a_checkpoint_for_which_the_disk_has_no_room_is_an_oserror_and_leaves_the_old_one(tmp_path):
    file = tmp_path / "a.safetensors"
    save(file, {"w": np.arange(3.0)}, {"step": "1"})
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, hard))
    try:
        with pytest.raises(OSError, match=r"too large: .*a\.safetensors"):
            save(file, {"w": np.arange(1e6)}, {"step": "2"})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert load(file)[1] == {"step": "1"}
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.safetensors"]


def test_a_checkpoint_is_written_from_the_arrays_own_memory(tmp_path):
    """Saving must not copy the arrays. Such a copy holds the interpreter, so that nothing else of
    the process runs meanwhile."""
    array = np.ones(1 << 20)
    tracemalloc.start()
    save(tmp_path / "a.safetensors", {"w": array}, {})
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < array.nbytes / 8


def test_a_flipped_bit_anywhere_is_refused_by_name_or_changes_nothing(tmp_path):
    file = tmp_path / "a.safetensors"
    arrays = {"w": np.arange(9.0), "b": np.arange(3, dtype=np.float32)}
    save(file, arrays, {"iteration": "7"})
    data = file.read_bytes()
    refused = 0
    for place in range(len(data)):
        file.write_bytes(data[:place] + bytes([data[place] ^ 1 << place % 8]) + data[place + 1 :])
        try:
            found, metadata = load(file)
        except CheckpointError as error:
            assert str(error).startswith(f"{tmp_path}/a.safetensors: ")
            refused += 1
        else:  # the changed bit is in a space that pads the header
            assert metadata == {"iteration": "7"}
            assert all((found[name] == array).all() for name, array in arrays.items())
    assert refused >= len(data) - 16


def test_a_zeroed_half_is_refused_by_name(tmp_path):
    file = tmp_path / "a.safetensors"
    save(file, {"w": np.arange(1, 1000.0)}, {})
    data = file.read_bytes()
    file.write_bytes(data[: len(data) // 2] + bytes(len(data) - len(data) // 2))
    with pytest.raises(
        CheckpointError,
        match=(r"a.safetensors: damaged: its content does not " r"match its SHA-256"),
    ):
        load(file)


def test_a_checkpoint_without_checksums_from_older_versions_is_read(tmp_path):
    save_file(
        {"w": np.arange(9.0)},
        tmp_path / "old.safetensors",
        {KEY: '{"iteration": "7", "version": "1"}'},
    )
    arrays, metadata = load(tmp_path / "old.safetensors")
    assert metadata == {"iteration": "7"}
    assert (arrays["w"] == np.arange(9.0)).all()


def test_equal_checkpoints_are_equal_files_which_any_reader_of_safetensors_reads(tmp_path):
    for name in "ab":
        save(
            tmp_path / name,
            {"w": np.arange(9.0), "b": np.zeros((0, 2))},
            {"iteration": "7", "net": "x"},
        )
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert (load_file(tmp_path / "a")["w"] == np.arange(9.0)).all()
