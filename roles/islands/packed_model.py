"""All layers of a model as one message carries them, in wire formats."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ops import Array, Backend
from roles.islands.island_messages import Gain, OuterModel
from roles.learning.buffers import new_parameter
from roles.learning.wire_formats import Layers, Wire
from roles.messages import Blobs
from runtime import MessageError

Model = Mapping[str, Blobs]


class Packed(NamedTuple):
    """The fields of a message that carry a model: the names of its layers, the number of encoded
    arrays of each layer, the wire format of each parameter, and all encoded arrays in order."""

    layers: tuple[str, ...]
    arrays: tuple[int, ...]
    formats: tuple[str, ...]
    blobs: Blobs


def pack(wire: Wire, model: Model) -> Packed:
    """Encode every layer. Learned parameters are encoded in the wire's format, statistics stay as
    they are."""
    coded = [wire.encode(layer, blobs) for layer, blobs in model.items()]
    return Packed(
        tuple(model),
        tuple(len(blobs) for _, blobs in coded),
        tuple(name for formats, _ in coded for name in formats),
        tuple(blob for _, blobs in coded for blob in blobs),
    )


def unpack(wire: Wire, layers: Layers, message: Gain | OuterModel) -> dict[str, Blobs]:
    """Decode every layer. Raises MessageError if the message does not carry exactly these layers,
    or an array does not fit."""
    counts = [len(blobs) for blobs in layers.values()]
    if message.layers != tuple(layers) or len(message.arrays) != len(counts):
        text = f"layers {', '.join(message.layers)}, expected {', '.join(layers)}"
        raise MessageError("bad_shape", f"{type(message).__name__}: {text}")
    if sum(counts) != len(message.formats) or sum(message.arrays) != len(message.blobs):
        text = (
            f"{len(message.formats)} formats and {len(message.blobs)} arrays, expected "
            f"{sum(counts)} formats and {sum(message.arrays)} arrays"
        )
        raise MessageError("bad_shape", f"{type(message).__name__}: {text}")
    found = {}
    at = low = 0
    for layer, count, arrays in zip(layers, counts, message.arrays, strict=True):
        formats = message.formats[at : at + count]
        found[layer] = wire.decode(layer, formats, message.blobs[low : low + arrays])
        at += count
        low += arrays
    return found


def add_answer(wire: Wire, layers: Layers, held: Model, answer: OuterModel) -> None:
    """Change a copy of the outer model by an answer. The server and the island both call this, so
    their copies stay equal to the last bit. Raises MessageError as `unpack` does."""
    for layer, blobs in unpack(wire, layers, answer).items():
        for mine, array, (_, is_learned) in zip(held[layer], blobs, layers[layer], strict=True):
            if is_learned and not answer.whole:
                mine += array
            else:
                mine[...] = array


def copied(ops: Backend, model: Model) -> dict[str, Blobs]:
    """A copy of a model in memory that peers can read."""
    return {layer: tuple(copy_of(ops, blob) for blob in blobs) for layer, blobs in model.items()}


def copy_of(ops: Backend, array: Array) -> Array:
    """A copy of an array in memory that peers can read."""
    copy = new_parameter(ops, array.shape, array.dtype)
    copy[...] = array
    return copy
