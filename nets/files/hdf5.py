"""Access to HDF5 files, which only this module opens: Caffe's weights and solver states in that
format, and numbered datasets.

Sizes are checked before memory is taken, and h5py's errors are translated.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nets.errors import NetError
from nets.files.binary import replacing
from nets.files.extras import need
from nets.reasons import reason
from nets.regular import size_of

# Deflate shrinks by at most 1032. Datasets that claim to shrink more, singly or together, are
# false.
RATIO = 1100
MOST_TEXT = 1 << 16  # bytes of a string


@contextmanager
def opened(path: Path, kind: type[NetError] = NetError) -> Iterator[Any]:
    """Open the file. Errors of h5py inside the `with` block become errors of `kind` that name the
    file."""
    h5py = need("h5py", f"{path}: HDF5")
    try:
        if not size_of(path):
            raise kind(f"{path}: found an empty file, expected an HDF5 file")
        with h5py.File(path, "r") as file:
            yield file
    except FileNotFoundError:
        raise kind(f"{path}: no such file") from None
    except NetError as error:
        raise (error if isinstance(error, kind) else kind(error.problems)) from None
    except OSError as error:
        if error.strerror and error.errno:  # errors of h5py itself have neither
            raise kind(f"{path}: cannot be read: {reason(error)}") from None
        raise kind(f"{path}: damaged or not an HDF5 file: {' '.join(str(error).split())}") from None
    except (
        RuntimeError,
        LookupError,
        ValueError,
        TypeError,
        ArithmeticError,
        MemoryError,
    ) as error:
        text = " ".join(str(error).split()) or type(error).__name__
        raise kind(f"{path}: damaged or not an HDF5 file: {text}") from None


def dataset(group: Any, name: str, path: Path) -> Any:
    """Return the dataset `name`, which must have numbers. Raises NetError if it is absent, of
    another type, or larger than its file."""
    h5py = need("h5py", f"{path}: HDF5")
    where = f"{path}: {group.name.rstrip('/')}/{name}"
    if group.get(name, getlink=True) is None:
        raise NetError(f"{where}: missing, expected a dataset")
    if not isinstance(group.get(name, getlink=True), h5py.HardLink) or not isinstance(
        group[name], h5py.Dataset
    ):
        raise NetError(f"{where}: found a group or a link, expected a dataset")
    found = group[name]
    if found.dtype.kind not in "fiu" or found.dtype.itemsize > 8:
        raise NetError(f"{where}: found numbers of type {found.dtype}, expected float or integer")
    if found.external or found.is_virtual:
        raise NetError(f"{where}: its data are in other files, expected them in this one")
    # h5py reads a chunk as a whole, so its size is checked, too
    for what, shape in (("shape", found.shape), ("chunks of shape", found.chunks or ())):
        if math.prod(shape) * found.dtype.itemsize > RATIO * path.stat().st_size:
            raise NetError(
                f"{where}: found {what} {shape}, too large for a file of "
                f"{path.stat().st_size} bytes"
            )
    return found


def datasets(wanted: Iterable[tuple[Any, str]], path: Path) -> list[Any]:
    """Return the `dataset` of each (group, name), all of which will be read. Raises NetError also
    if together they are larger than their file. If several names mean one dataset, each counts,
    because each is read."""
    found: list[Any] = []
    claimed = 0
    most = RATIO * path.stat().st_size
    for group, name in wanted:
        found.append(dataset(group, name, path))
        claimed += found[-1].size * found[-1].dtype.itemsize
        if claimed > most:
            text = f"found {len(found)} datasets or more that claim {claimed} bytes in total"
            raise NetError(f"{path}: {text}, too large for a file of {path.stat().st_size} bytes")
    return found


def numbered(group: Any, path: Path) -> tuple[NDArray[Any], ...]:
    """Return the datasets "0", "1", ... of a group, each as float32 or float64. Raises NetError if
    a number is missing."""
    return tuple(map(_array, datasets(((group, str(index)) for index in range(len(group))), path)))


def read_weights(path: Path) -> dict[str, dict[int, NDArray[Any]]]:
    """Return the weights of a `.caffemodel.h5` by layer and number (group `data`, a group per
    layer, datasets 0, 1, ...). Parameters that a layer borrows from another one are missing."""
    with opened(path) as file:
        layers = _group(file, "data", path)
        wanted = [
            (layer, name)
            for layer in layers
            for name in _numbers(_group(layers, layer, path), path)
        ]
        found = datasets(((layers[layer], name) for layer, name in wanted), path)
        weights: dict[str, dict[int, NDArray[Any]]] = {}
        for (layer, name), one in zip(wanted, found, strict=True):
            weights.setdefault(layer, {})[int(name)] = _array(one)
        return weights


def _numbers(group: Any, path: Path) -> list[str]:
    """Return the names "0", "1", ... that the group has. Raises NetError for any other name."""
    for name in sorted(group):
        if not (name.isascii() and name.isdigit()):
            raise NetError(f"{path}: {group.name}/{name}: found this name, expected numbers")
    return sorted(group)


def _array(one: Any) -> NDArray[Any]:
    """Read a dataset into memory, as float32 or float64."""
    array: NDArray[Any] = one[()]
    return array.astype(np.float64 if array.dtype == np.float64 else np.float32)


def write_weights(path: Path, weights: Mapping[str, Mapping[int, NDArray[Any]]]) -> None:
    """Write a `.caffemodel.h5` as Caffe does. Raises OSError; a failed write leaves no file."""
    with _new(path) as file:
        data = file.create_group("data", track_order=False)
        for layer, arrays in weights.items():
            group = data.create_group(layer)
            for number, array in arrays.items():
                group.create_dataset(str(number), data=array)


def read_state(path: Path) -> tuple[int, int, str, tuple[NDArray[Any], ...]]:
    """Return (iter, current_step, learned_net, history) of a `.solverstate.h5`."""
    with opened(path) as file:
        iteration, step = (_number(file, key, path) for key in ("iter", "current_step"))
        return (
            iteration,
            step,
            _text(file, "learned_net", path),
            numbered(_group(file, "history", path), path),
        )


def write_state(
    path: Path, iteration: int, step: int, learned_net: str, history: Sequence[NDArray[Any]]
) -> None:
    """Write a `.solverstate.h5` as Caffe does."""
    with _new(path) as file:
        for key, value in (("iter", iteration), ("current_step", step)):
            file.create_dataset(key, data=np.array([value], np.int32))
        file.create_dataset("learned_net", data=np.bytes_(learned_net.encode()))
        _put(file.create_group("history"), history)


def _number(file: Any, name: str, path: Path) -> int:
    """Return the only number of a dataset."""
    found = dataset(file, name, path)
    if found.size != 1:
        raise NetError(f"{path}: /{name}: found shape {found.shape}, expected one number")
    return int(found[()].item())


def _text(file: Any, name: str, path: Path) -> str:
    """Return the only string of a dataset, "" if there is no dataset. Raises NetError if it is in
    another file or not a string."""
    h5py = need("h5py", f"{path}: HDF5")
    if file.get(name, getlink=True) is None:
        return ""
    found = file[name] if isinstance(file.get(name, getlink=True), h5py.HardLink) else None
    if not isinstance(found, h5py.Dataset) or found.external or found.is_virtual:
        raise NetError(f"{path}: /{name}: found a group or a link, expected a string in this file")
    if (
        found.size != 1
        or h5py.check_string_dtype(found.dtype) is None
        or found.dtype.itemsize > MOST_TEXT
    ):
        raise NetError(
            f"{path}: /{name}: found {found.dtype} of shape {found.shape}, expected one string"
        )
    text = found[()]
    text = text.item() if isinstance(text, np.ndarray) else text
    return text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)


def _put(group: Any, arrays: Sequence[NDArray[Any]]) -> None:
    for index, array in enumerate(arrays):
        group.create_dataset(str(index), data=array)


def _group(parent: Any, name: str, path: Path) -> Any:
    h5py = need("h5py", f"{path}: HDF5")
    if not isinstance(parent.get(name, getlink=True), h5py.HardLink) or not isinstance(
        parent[name], h5py.Group
    ):
        raise NetError(f"{path}: {parent.name.rstrip('/')}/{name}: missing or not a group")
    return parent[name]


@contextmanager
def _new(path: Path) -> Iterator[Any]:
    """Open a new file in memory, which is written to `path` when it is complete. Raises OSError if
    it cannot be written.

    The HDF5 library writes the rest of a file when its objects are collected. On a full disk this
    ends the process.
    """
    h5py = need("h5py", f"{path}: HDF5")
    whole = io.BytesIO()
    with h5py.File(whole, "w") as file:
        yield file
    with replacing(path) as temporary:
        temporary.write_bytes(whole.getbuffer())
