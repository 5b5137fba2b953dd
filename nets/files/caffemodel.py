"""Caffe's `.caffemodel`: the weights of a net, by layer, in a binary NetParameter with `layer` or
the older `layers`.

`weights` decides which weights a net takes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from nets.definition.spec import NetSpec
from nets.errors import NetError
from nets.files.binary import read_message, write_message
from nets.files.blobs import from_array, to_array
from nets.files.shared import Weights
from nets.schema import caffe_pb2 as caffe


def read_caffemodel(path: Path) -> Weights:
    """Return the blobs of every layer that has some, in the order and shapes of the file. Raises
    NetError with every fault."""
    net = read_message(path, caffe.NetParameter, "a .caffemodel")
    layers: list[tuple[str, Sequence[caffe.BlobProto]]] = [
        (layer.name, layer.blobs) for layer in net.layer
    ]
    # V1 has the blobs in the layer, V0 in the layer inside it
    layers += [
        (old.name, old.blobs) if old.blobs else (old.layer.name, old.layer.blobs)
        for old in net.layers
    ]
    if not layers:
        raise NetError(f"{path}: found no layer, expected a .caffemodel")
    found: Weights = {}
    problems = []
    for name, blobs in layers:
        if not blobs:
            continue
        if name in found:
            problems.append(f"{path}: layer '{name}': found twice, expected once")
        try:
            found[name] = tuple(
                to_array(blob, (f"{path}: layer '{name}': blob {at}"))
                for at, blob in enumerate(blobs)
            )
        except NetError as error:
            problems += error.problems
    if problems:
        raise NetError(problems)
    return found


def write_caffemodel(
    path: Path, weights: Mapping[str, Sequence[NDArray[Any]]], net: NetSpec | None = None
) -> None:
    """Write `weights` as Caffe's snapshot does. `net` adds its name and the type, bottoms and tops
    of its layers.

    Layers of `net` without weights are also written. Raises NetError with the weights that belong
    to no layer of `net`.
    """
    message = caffe.NetParameter(name=net.name if net else path.stem)
    described = {layer.proto.name: layer.proto for layer in net.layers} if net else {}
    strange = sorted(set(weights) - set(described)) if net else []
    if strange:
        raise NetError(
            [
                (f"{path}: layer '{name}': net '{message.name}' has no such layer")
                for name in strange
            ]
        )
    for name in described or weights:
        layer = message.layer.add(name=name)
        if name in described:
            proto = described[name]
            layer.type = proto.type
            layer.bottom.extend(proto.bottom)
            layer.top.extend(proto.top)
        layer.blobs.extend(from_array(array) for array in weights.get(name, ()))
    write_message(path, message)
