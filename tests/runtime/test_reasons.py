"""The error when a process may open no more files: it names that limit, and no reader reports a
missing or wrong file instead.
"""

from __future__ import annotations

import errno
import os
import resource
import socket
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
import pytest

from nets import NetError, load_net, load_solver
from nets import reasons as of_nets
from nets.data.decoding.encoded import read_file
from nets.data.lmdb.mdb import open_mdb
from nets.data.sources.zipped import opened as unzipped
from nets.files import checkpoint, hdf5
from nets.files.binary import read_message
from nets.schema import caffe_pb2
from runtime import reasons
from runtime.attached.finding import listens
from runtime.config.file import load
from runtime.errors import ConvoyError
from runtime.plan.run_plan import RunPlan
from runtime.records.runs import directories


@contextmanager
def none_left() -> Iterator[int]:
    """Let no file be opened inside the block; yield the limit of this process."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with closing(socket.socket()) as spare:
        lowest = spare.fileno()
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, limits[1]))
    try:
        yield lowest
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def hdf5_of(path: Path) -> None:
    with hdf5.opened(path):
        pass


def text_of(path: Path) -> None:
    with unzipped(path) as (file, _):
        file.read()


READERS: dict[str, Callable[[Path], object]] = {
    "a checkpoint": checkpoint.load,
    "a checkpoint that is read back": checkpoint.verify,
    "an HDF5 file": hdf5_of,
    "an image": read_file,
    "a database": open_mdb,
    "a file that may be zipped": text_of,
    "a binary message": lambda path: read_message(path, caffe_pb2.BlobProto, "a mean"),
    "a net": load_net,
    "a solver": load_solver,
    "cluster.toml": load,
    "a plan": lambda path: RunPlan.read(path.parent),
}


@pytest.mark.parametrize("reader", READERS)
def test_an_existing_file_is_not_called_missing_or_wrong_when_no_descriptor_is_left(
    reader: str, tmp_path: Path
) -> None:
    path = tmp_path / "plan.json"
    checkpoint.save(path, {"a": np.ones(3000, np.float32)}, {"iteration": "1"})
    hdf5.need("h5py", "h5py")  # import it while files can still be opened
    # this call makes the reader's later imports happen now
    with pytest.raises((NetError, ConvoyError)):
        READERS[reader](tmp_path / "none" / "nothing")
    with none_left() as most, pytest.raises((NetError, ConvoyError)) as caught:
        READERS[reader](path)
    told = str(caught.value)
    assert (
        f"Too many open files: this process has reached its limit of {most}; raise it "
        "with `ulimit -n`"
    ) in told
    for wrong in ("no such", "damaged", "not a", "missing"):
        assert wrong not in told


def test_whether_a_run_is_live_is_not_known_when_no_descriptor_is_left(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text("{}")
    assert not listens(tmp_path)
    with (
        none_left(),
        pytest.raises(
            ConvoyError, match=(r"plan\.json: it cannot be read: Too " r"many open files")
        ),
    ):
        listens(tmp_path)
    with none_left(), pytest.raises(ConvoyError, match="Too many open files"):
        directories(tmp_path)


@pytest.mark.parametrize("reason", [reasons.reason, of_nets.reason])
def test_an_error_of_the_system_is_shown_in_its_words_and_with_advice(
    reason: Callable[[OSError], str],
) -> None:
    assert reason(OSError(errno.EACCES, os.strerror(errno.EACCES), "f")) == "Permission denied"
    assert reason(OSError("only words")) == "only words"
    assert "this machine has reached its limit; end something" in reason(OSError(errno.ENFILE, "x"))
