"""Loading of weights from files into nets. Layers are matched by name, as Caffe's `--weights` does.
The suffix chooses the format."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nets.definition.params import ParamSpec
from nets.definition.spec import LayerSpec, NetSpec
from nets.errors import NetError, did_you_mean
from nets.files import checkpoint, hdf5, torch_files
from nets.files.blobs import same_shape
from nets.files.caffemodel import read_caffemodel, write_caffemodel
from nets.files.parts import names
from nets.files.shared import Lent, Numbered, Shapes, Weights, as_caffe, lent, numbered, owned
from nets.files.torch_names import FromTorch, from_torch, named, to_torch
from nets.imported import import_weights

SUFFIXES = (".caffemodel", ".caffemodel.h5", ".safetensors", *torch_files.PICKLED)
SHARES = "shares"  # metadata key: the checkpoint's net shares parameters
NONE: Mapping[Any, Any] = MappingProxyType({})


@dataclass(frozen=True, eq=False)
class Matched:
    """The result of fitting weights to a net.

    `blobs` are the net's weights, in its own shapes. `missing` are the net's layers that the file
    does not have, `extra` the file's layers that the net does not have. `told` are the lines of
    `Several`.
    """

    blobs: Weights = field(repr=False)
    missing: tuple[str, ...]
    extra: tuple[str, ...]
    told: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Several:
    """The weights of one net from several files. `told` has a line for each file whose layers
    replace those of a file before it, and for each file with torch's names."""

    weights: Weights = field(repr=False)
    told: tuple[str, ...] = ()


def read_weights(path: Path, layers: Sequence[LayerSpec] = ()) -> Weights:
    """Read a .caffemodel, an HDF5 file (.h5, .hdf5), a checkpoint (.safetensors), a file with the
    names of torch's modules (.safetensors, .pth, .pt) or a graph (.onnx); the suffix decides.

    `layers`: those of the net. The result has only the blobs that these layers own. torch's names
    become theirs (`torch_names`).
    """
    if torch_files.is_torchs(path):
        return from_torch(torch_files.read(path), layers).weights
    shared = lent(layers)
    if path.suffix in (".h5", ".hdf5"):
        return owned(hdf5.read_weights(path), shared, path.name)
    if path.suffix == ".safetensors":
        arrays, facts = checkpoint.load(path)
        found = from_checkpoint(arrays, path.name)
        return found if SHARES in facts else owned(numbered(found), shared, path.name)
    if path.suffix == ".caffemodel":
        return owned(numbered(read_caffemodel(path)), shared, path.name)
    if path.suffix == ".onnx":
        return import_weights(path)
    raise NetError(
        f"{path}: found suffix '{path.suffix}', expected one of {', '.join((*SUFFIXES, '.onnx'))}"
    )


def read_each(paths: Iterable[str | Path], layers: Sequence[LayerSpec] = ()) -> Several:
    """Read the files of one net with these `layers`. If a layer is in several files, the last one
    counts, as in Caffe's CopyTrainedLayersFrom. Raises NetError with the mistakes of all files."""
    found: Weights = {}
    origin: dict[str, Path] = {}
    told: list[str] = []
    problems: list[str] = []
    for path in map(Path, paths):
        try:
            if layers and torch_files.is_torchs(path):
                read = from_torch(torch_files.read(path), layers)
                more = read.weights
                told += _told_of_torch(path, read, len(named(layers)))
            else:
                more = read_weights(path, layers)
        except NetError as error:
            problems += error.problems
            continue
        again = [layer for layer in more if layer in found]
        if again:
            earlier = ", ".join(dict.fromkeys(str(origin[layer]) for layer in again))
            told.append(
                f"layers {listed(again)}: the weights in {path} replace the weights in {earlier}"
            )
        found |= more
        origin |= dict.fromkeys(more, path)
    if problems:
        raise NetError(problems)
    return Several(found, tuple(told))


def _told_of_torch(path: Path, read: FromTorch, layers: int) -> list[str]:
    """Return lines for the user about the match of a file with torch's names."""
    told = [f"{path}: torch's names give {len(read.matched)} of {layers} layers with weights"]
    if read.ordered:
        told.append(
            f"{path}: layers {listed(read.ordered)}: no array has their names: matched by order "
            "and shape, so compare the net's scores with those in torch"
        )
    return told


def write_weights(
    path: Path,
    weights: Mapping[str, Sequence[NDArray[Any]]],
    net: NetSpec | None = None,
    shapes: Shapes = NONE,
    *,
    torch: bool = False,
) -> None:
    """Write the weights that layers own in the format of the suffix.

    `net`, in one state, describes the layers of a .caffemodel and the blobs that each layer
    borrows. `shapes` are the shapes of borrowed blobs that differ from their owner's. `torch`: a
    .safetensors gets the names of torch's modules, as a .pth and a .pt always do.
    """
    layers = net.layers if net else ()
    if torch or path.suffix in torch_files.PICKLED:
        torch_files.write(path, to_torch(weights, layers, path.name))
    elif path.suffix in (".h5", ".hdf5"):
        # Caffe writes these groups, too
        empty: Numbered = {layer.proto.name: {} for layer in layers}
        hdf5.write_weights(path, empty | as_caffe(weights, layers, shapes, path.name, whole=False))
    elif path.suffix == ".safetensors":
        arrays = {
            f"{layer}.{at}": array
            for layer, blobs in weights.items()
            for at, array in enumerate(blobs)
        }
        facts = {"net": net.name if net else path.stem}
        checkpoint.save(path, arrays, facts | shares(lent(layers)))
    elif path.suffix == ".caffemodel":
        whole = as_caffe(weights, layers, shapes, path.name, whole=True)
        write_caffemodel(path, {layer: tuple(of.values()) for layer, of in whole.items()}, net)
    else:
        raise NetError(
            f"{path}: found suffix '{path.suffix}', expected one of {', '.join(SUFFIXES)}"
        )


def listed(layers: Sequence[str]) -> str:
    """Return the first eight of these names in words."""
    return f"{', '.join(layers[:8])}{', ...' if len(layers) > 8 else ''}"


def shares(shared: Lent) -> dict[str, str]:
    """Return the metadata of a checkpoint whose net shares parameters. It has each of these once,
    at its owner."""
    return {SHARES: "yes"} if shared else {}


def from_checkpoint(arrays: Mapping[str, NDArray[Any]], file: str) -> Weights:
    """Return the weights among a checkpoint's arrays, which are named `layer.index`. Histories are
    left out."""
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
    weights: Mapping[str, Sequence[NDArray[Any]]],
    params: Mapping[str, Sequence[ParamSpec]],
    file: str,
    advice: str = "",
) -> Matched:
    """Fit `weights` to a net's `params`. Raises NetError with every layer whose blobs differ in
    number or shape, each with the `advice` what to do."""
    problems: list[str] = []
    blobs: Weights = {}
    for layer in (layer for layer in params if layer in weights):
        expected = [param.shape for param in params[layer]]
        found = [tuple(array.shape) for array in weights[layer]]
        fits = len(found) == len(expected) and all(
            same_shape(f, e) for f, e in zip(found, expected, strict=True)
        )
        if fits:
            blobs[layer] = tuple(
                np.asarray(array).reshape(shape)
                for array, shape in zip(weights[layer], expected, strict=True)
            )
        else:
            problems.append(
                f"{file}: layer '{layer}': found blobs of shapes {found}, expected {expected}"
                f"{advice and f'; {advice}'}"
            )
    if problems:
        raise NetError(problems)
    missing = tuple(layer for layer in params if layer not in weights)
    extra = tuple(layer for layer in weights if layer not in params)
    if not blobs and params:
        names = f"{', '.join(list(weights)[:8])}"
        near = did_you_mean(missing[0], weights)
        raise NetError(
            f"{file}: no layer of the net is in the file{near}; it has {names}, "
            f"expected {', '.join(missing[:8])}"
        )
    return Matched(blobs, missing, extra)


def load_weights(
    files: Path | Sequence[Path],
    params: Mapping[str, Sequence[ParamSpec]],
    layers: Sequence[LayerSpec] = (),
) -> Matched:
    """Read one file, or the files of one net with these `layers`, and fit them to its `params`.
    Layers that the files do not have are `missing`."""
    files = [files] if isinstance(files, Path) else files
    found = read_each(files, layers)
    return replace(match(found.weights, params, names(files)), told=found.told)
