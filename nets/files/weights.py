"""Weights from a file into a net: matched by layer name, as Caffe's `--weights` does. The suffix chooses the format."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nets.definition.params import ParamSpec
from nets.definition.spec import NetSpec
from nets.errors import NetError, did_you_mean
from nets.files import checkpoint, hdf5
from nets.files.blobs import same_shape
from nets.files.caffemodel import Weights, read_caffemodel, write_caffemodel

SUFFIXES = (".caffemodel", ".caffemodel.h5", ".safetensors")


@dataclass(frozen=True, eq=False)
class Matched:
    """`blobs`: what the net gets, in its own shapes; `missing`: its layers the file does not have; `extra`: the
    file's layers the net does not have.
    """

    blobs: Weights = field(repr=False)
    missing: tuple[str, ...]
    extra: tuple[str, ...]


def read_weights(path: Path) -> Weights:
    """Read a .caffemodel, an HDF5 file (.h5, .hdf5) or a checkpoint (.safetensors), told apart by the suffix."""
    if path.suffix in (".h5", ".hdf5"):
        return hdf5.read_weights(path)
    if path.suffix == ".safetensors":
        return from_checkpoint(checkpoint.load(path)[0], path.name)
    if path.suffix == ".caffemodel":
        return read_caffemodel(path)
    raise NetError(f"{path.name}: found suffix '{path.suffix}', expected one of {', '.join(SUFFIXES)}")


def read_each(paths: Iterable[str]) -> Weights:
    """Read several files; of a layer in more than one of them the last one counts, as in Caffe."""
    found: Weights = {}
    for path in paths:
        found |= read_weights(Path(path))
    return found


def write_weights(path: Path, weights: Mapping[str, Sequence[NDArray[Any]]], net: NetSpec | None = None) -> None:
    """Write weights in the format of the suffix; `net` describes the layers of a .caffemodel."""
    if path.suffix in (".h5", ".hdf5"):
        hdf5.write_weights(path, weights)
    elif path.suffix == ".safetensors":
        arrays = {f"{layer}.{at}": array for layer, blobs in weights.items() for at, array in enumerate(blobs)}
        checkpoint.save(path, arrays, {"net": net.name if net else path.stem})
    elif path.suffix == ".caffemodel":
        write_caffemodel(path, weights, net)
    else:
        raise NetError(f"{path.name}: found suffix '{path.suffix}', expected one of {', '.join(SUFFIXES)}")


def from_checkpoint(arrays: Mapping[str, NDArray[Any]], file: str) -> Weights:
    """Return the weights among a checkpoint's arrays: those named `layer.index`; the history stays out."""
    found: dict[str, dict[int, NDArray[Any]]] = {}
    for name, array in arrays.items():
        layer, _, index = name.rpartition(".")
        if layer and index.isascii() and index.isdigit():
            found.setdefault(layer, {})[int(index)] = array
    problems = [
        f"{file}: layer '{layer}': found blobs {sorted(blobs)}, expected 0 to {len(blobs) - 1}"
        for layer, blobs in found.items()
        if sorted(blobs) != list(range(len(blobs)))
    ]
    if problems or not found:
        raise NetError(problems or f"{file}: found no array named 'layer.index', expected weights")
    return {layer: tuple(blobs[at] for at in range(len(blobs))) for layer, blobs in found.items()}


def match(
    weights: Mapping[str, Sequence[NDArray[Any]]], params: Mapping[str, Sequence[ParamSpec]], file: str
) -> Matched:
    """Fit `weights` to a net's `params`; NetError lists every layer whose blobs have other numbers or shapes."""
    problems: list[str] = []
    blobs: Weights = {}
    for layer in (layer for layer in params if layer in weights):
        expected = [param.shape for param in params[layer]]
        found = [tuple(array.shape) for array in weights[layer]]
        fits = len(found) == len(expected) and all(same_shape(f, e) for f, e in zip(found, expected, strict=True))
        if fits:
            blobs[layer] = tuple(
                np.asarray(array).reshape(shape) for array, shape in zip(weights[layer], expected, strict=True)
            )
        else:
            problems.append(f"{file}: layer '{layer}': found blobs of shapes {found}, expected {expected}")
    if problems:
        raise NetError(problems)
    missing = tuple(layer for layer in params if layer not in weights)
    extra = tuple(layer for layer in weights if layer not in params)
    if not blobs and params:
        names = f"{', '.join(list(weights)[:8])}"
        near = did_you_mean(missing[0], weights)
        raise NetError(f"{file}: no layer of the net is in it{near}; it has {names}, expected {', '.join(missing[:8])}")
    return Matched(blobs, missing, extra)


def load_weights(path: Path, params: Mapping[str, Sequence[ParamSpec]]) -> Matched:
    """Read `path` and fit it to `params` (a net's `params`); layers of the net that are not in it are `missing`."""
    return match(read_weights(path), params, path.name)
