"""Checkpoints: named arrays in one safetensors file, written so that a crash leaves the old file or
the new one.

The metadata have a SHA-256 of all other contents, so a file that a disk or a copy has changed is
refused. Files of version "1" have no SHA-256 and are read without that check.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from nets.errors import CheckpointError
from nets.files.binary import replacing
from nets.reasons import reason
from nets.regular import size_of

VERSION = "2"
UNCHECKED = "1"
KEY = "convoy_checkpoint"
SUM = "sha256"
PIECE = 8 << 20  # bytes per write and flush; the slowest disks need a second for it
KINDS = {"f": "F", "i": "I", "u": "U"}  # kinds of dtypes: numpy's letter -> safetensors' letter
OF_CAFFE = (".caffemodel", ".solverstate", ".h5")  # the endings of Caffe's snapshots
Arrays = Mapping[str, NDArray[Any]]


def save(path: Path, arrays: Arrays, metadata: Mapping[str, str]) -> None:
    """Write `arrays` and `metadata` to `path` in one step: write a temporary file in the same
    folder, fsync, rename, fsync of the folder.

    Raises OSError if the folder does not exist or the disk is full. The temporary file is then
    removed.
    """
    deque(saving(path, arrays, metadata), maxlen=0)


def saving(path: Path, arrays: Arrays, metadata: Mapping[str, str]) -> Iterator[None]:
    """Do `save` piece by piece; the file is complete when the iterator ends. If the iterator is
    closed earlier, nothing of the new file remains.

    The slow parts of a piece (checksum, write, flush) do not hold the interpreter's lock.
    """
    parts = _parts(arrays, metadata)
    yield
    try:
        with replacing(path) as temporary:
            file = os.open(temporary, os.O_WRONLY)
            try:
                for data in parts:
                    for low in range(0, len(data), PIECE):
                        _write(file, data[low : low + PIECE])
                        yield
            finally:
                os.close(file)
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(path)) from None


def in_memory(arrays: Arrays, metadata: Mapping[str, str]) -> int:
    """Write the same file without a name, in memory, and return its descriptor. The file is freed
    when no process has it open. Linux only.

    Raises OSError if there is not enough memory.
    """
    file = os.memfd_create("convoy-checkpoint", os.MFD_CLOEXEC)
    try:
        for data in _parts(arrays, metadata):
            while len(data):
                data = data[os.write(file, data) :]
    except BaseException:
        os.close(file)
        raise
    return file


def _parts(arrays: Arrays, metadata: Mapping[str, str]) -> list[memoryview]:
    """Return the parts of the file, in order."""
    contiguous = {
        name: np.ascontiguousarray(array).reshape(array.shape)
        for name, array in sorted(arrays.items())
    }
    # only one metadata key, so that equal checkpoints are equal files
    said = {"version": VERSION, **metadata}
    facts = json.dumps({**said, SUM: _sum_of(contiguous.items(), said)}, sort_keys=True)
    return [_header(contiguous, facts), *(_bytes(array) for array in contiguous.values())]


def _header(arrays: Arrays, facts: str) -> memoryview:
    """Return the beginning of a safetensors file: the length of the header, then the type, shape
    and place of each array."""
    said: dict[str, Any] = {"__metadata__": {KEY: facts}}
    end = 0
    for name, array in arrays.items():
        begin = end
        end = end + array.nbytes
        kind = (
            "BOOL"
            if array.dtype == bool
            else f"{KINDS[array.dtype.kind]}{array.dtype.itemsize * 8}"
        )
        said[name] = {"dtype": kind, "shape": array.shape, "data_offsets": (begin, end)}
    text = json.dumps(said, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # the arrays begin at a multiple of 8
    return memoryview(len(text).to_bytes(8, "little") + text)


def _write(file: int, data: memoryview) -> None:
    """Write all data and flush them to the disk. One long flush at the end would delay every other
    writer."""
    while len(data):
        data = data[os.write(file, data) :]
    os.fdatasync(file)


def _bytes(array: NDArray[Any]) -> memoryview:
    return array.reshape(-1).view(np.uint8).data


def load(path: Path) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """Return (arrays, metadata) of a file that `save` wrote. Raises CheckpointError if it is
    missing, damaged or not such a file."""
    arrays: dict[str, NDArray[Any]] = {}
    metadata = _read(path, arrays.__setitem__)
    return arrays, metadata


def verify(path: Path) -> dict[str, str]:
    """Read the whole file, one array at a time, and return its metadata. Raises as `load` does."""
    return _read(path, lambda name, array: None)


def metadata(path: Path) -> dict[str, str]:
    """Return only the metadata, quickly, even if the arrays are damaged. Raises as `load` does."""
    with _opened(path) as (_, said):
        return {key: value for key, value in said.items() if key not in (SUM, "version")}


def _read(path: Path, take: Callable[[str, NDArray[Any]], None]) -> dict[str, str]:
    """Give every array to `take` and return the metadata, if the checksum matches."""
    with _opened(path) as (file, said):
        version = said["version"]
        written = said.pop(SUM, "")
        if _sum_of(_arrays_of(file, take), said) != written and version == VERSION:
            raise CheckpointError(
                f"{path}: damaged: its content does not match its SHA-256; use another one"
            )
        del said["version"]
        return said


@contextmanager
def _opened(path: Path) -> Iterator[tuple[Any, dict[str, str]]]:
    """Open a file of a known version and give it with its metadata. Raises CheckpointError for
    every fault that is found while it is read."""
    try:
        if not size_of(path):
            raise CheckpointError(f"{path}: found an empty file, expected a checkpoint")
        if path.suffix in OF_CAFFE:
            raise CheckpointError(
                f"{path}: found a file of Caffe, expected a checkpoint (.safetensors), which "
                "`convert WEIGHTS c.safetensors --state STATE` makes of Caffe's weights and state"
            )
        path.open("rb").close()  # safetensors reports every file that it cannot open as missing
        with safe_open(path, framework="numpy") as file:
            said = _facts((file.metadata() or {}).get(KEY, ""))
            version = said.get("version")
            if version not in (VERSION, UNCHECKED):
                found = "none" if version is None else f"'{version}'"
                raise CheckpointError(f"{path}: found {KEY} version {found}, expected '{VERSION}'")
            yield file, said
    except FileNotFoundError:
        raise CheckpointError(f"{path}: no such checkpoint") from None
    except OSError as error:
        why = (
            f"cannot be read: {reason(error)}"
            if error.strerror
            else f"damaged or not a checkpoint: {error}"
        )
        raise CheckpointError(f"{path}: {why}") from None
    except (SafetensorError, TypeError, KeyError) as error:
        raise CheckpointError(f"{path}: damaged or not a checkpoint: {error}") from None


def _arrays_of(
    file: Any, take: Callable[[str, NDArray[Any]], None]
) -> Iterator[tuple[str, NDArray[Any]]]:
    for name in sorted(file.keys()):
        array = file.get_tensor(name)
        take(name, array)
        yield name, array


def _facts(text: str) -> dict[str, str]:
    """Return the file's metadata, or an empty dict if `save` did not write them."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return {str(key): str(value) for key, value in found.items()} if isinstance(found, dict) else {}


def _sum_of(arrays: Iterable[tuple[str, NDArray[Any]]], metadata: Mapping[str, str]) -> str:
    """Return the SHA-256 of the metadata and of each array's name, type, shape and bytes, in the
    order of names. 500 MB take 0.7 s."""
    found = hashlib.sha256(json.dumps(dict(metadata), sort_keys=True).encode())
    for name, array in arrays:
        found.update(f"\n{name} {array.dtype.str} {array.shape}\n".encode())
        found.update(_bytes(array))  # does not hold the interpreter's lock
    return found.hexdigest()
