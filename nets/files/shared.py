"""Parameters that layers share by name, in Caffe's files and in ours.

Our nets and checkpoints have a shared parameter once, at its owner, and number only the parameters
that a layer owns. A .caffemodel has every blob of every layer, including shared ones (Caffe's
Net::ToProto). Caffe's HDF5 files omit the blobs that a layer borrows but keep their numbers
(Net::ToHDF5). The reader accepts both. If a file has a shared parameter several times, the last one
counts, as in Caffe.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from nets.definition.spec import LayerSpec
from nets.errors import NetError
from nets.schema import caffe_pb2 as caffe

Slot = tuple[str, int]  # layer, index among all its blobs
Lent = Mapping[Slot, Slot]  # borrowed blob -> its owner's blob
Weights = dict[str, tuple[NDArray[Any], ...]]  # layer -> its blobs
Numbered = dict[str, dict[int, NDArray[Any]]]  # layer -> blobs by index, not all of them
Shapes = Mapping[Slot, tuple[int, ...]]  # shapes of blobs that differ from their owner's


def lent(layers: Sequence[LayerSpec]) -> dict[Slot, Slot]:
    """Return the owner of each borrowed parameter of a net in one state. The first layer that names
    a parameter owns it."""
    first: dict[str, Slot] = {}
    found: dict[Slot, Slot] = {}
    for layer in layers:
        for at, given in enumerate(layer.proto.param):
            slot = (layer.proto.name, at)
            if given.name and first.setdefault(given.name, slot) != slot:
                found[slot] = first[given.name]
    return found


def numbered(weights: Mapping[str, Sequence[NDArray[Any]]]) -> Numbered:
    """Return weights by number. The file must have all blobs."""
    return {layer: dict(enumerate(blobs)) for layer, blobs in weights.items()}


def owned(blobs: Numbered, shared: Lent, file: str) -> Weights:
    """Convert the blobs of a file of Caffe's to our form. Raises NetError with the layers that lack
    a blob, and with blobs whose size differs from their owner's."""
    found: Numbered = {}
    problems = []
    for layer, mine in blobs.items():
        for at, array in mine.items():
            owner, place = shared.get((layer, at), (layer, at))
            known = blobs.get(owner, {}).get(place, array)
            if known.size == array.size:
                found.setdefault(owner, {})[place] = array.reshape(known.shape)
            else:
                text = (
                    f"blob {at} has shape {array.shape}, but {known.shape} at its owner '{owner}'"
                )
                problems.append(f"{file}: layer '{layer}': {text}")
        wanted = [at for at in range(max(mine, default=-1) + 1) if (layer, at) not in shared]
        if missing := [at for at in wanted if at not in mine]:
            problems.append(
                f"{file}: layer '{layer}': found blobs {sorted(mine)}, but not {missing}"
            )
    if problems:
        raise NetError(problems)
    return {layer: tuple(of[at] for at in sorted(of)) for layer, of in found.items()}


def as_caffe(
    weights: Mapping[str, Sequence[NDArray[Any]]],
    layers: Sequence[LayerSpec],
    shapes: Shapes,
    file: str,
    *,
    whole: bool,
) -> Numbered:
    """Convert our weights to the form of a file of Caffe's: by number, with borrowed blobs if
    `whole`.

    Raises NetError for a blob that is borrowed in another shape (PERMISSIVE) if `shapes` does not
    have it.
    """
    shared = lent(layers)
    found: Numbered = {}
    for layer, blobs in weights.items():
        free = (at for at in range(len(blobs) + len(shared)) if (layer, at) not in shared)
        found[layer] = dict(zip(free, blobs, strict=False))
    for (layer, at), (owner, place) in shared.items() if whole else ():
        if place not in found.get(owner, {}):
            continue  # `weights` does not have the owner's blob
        array = found[owner][place]
        shape = shapes.get((layer, at))
        if shape is None:
            if (layer, at) in _loose(layers):
                text = f"blob {at} is shared in another shape, which only the whole net knows"
                raise NetError(
                    f"{file}: layer '{layer}': {text}: convert a checkpoint with --state"
                )
            shape = array.shape
        found.setdefault(layer, {})[at] = array.reshape(shape)
    return {layer: dict(sorted(of.items())) for layer, of in found.items()}


def _loose(layers: Sequence[LayerSpec]) -> set[Slot]:
    """Return the blobs that may have another shape than their owner's."""
    return {
        (layer.proto.name, at)
        for layer in layers
        for at, given in enumerate(layer.proto.param)
        if given.share_mode == caffe.ParamSpec.PERMISSIVE
    }
