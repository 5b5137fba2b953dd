"""How gradients travel: every blob in one of the formats, and the errors that a sender keeps for its next gradients.

    float32                as they are: nothing is copied. In a run in double precision that is float64, the only format
    float16, bfloat16      two bytes a number
    one-bit                a bit a number and two means a block; what it misses is added to the next gradient
    threshold              an index and a sign for each number beyond +-tau; the rest is added to the next gradient

Running statistics are no gradients and always travel as they are, and so do sums. What never lives here: which link
has which format (`gradient_links`), arithmetic (`ops.reference.compression`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ops import Array, Backend, OpsError, Shape
from ops.reference.compression import HALVES
from roles.learning.micro_batches import WorkerNet
from roles.messages import Blobs
from runtime.errors import MessageError

Formats = tuple[str, ...]
Layers = Mapping[str, Sequence[tuple[Sequence[int], bool]]]  # layer -> each blob's shape, and whether it is learned

FLOAT64 = "float64"
FORMATS = {"float32": 1, "float16": 1, "bfloat16": 1, "one-bit": 2, "threshold": 2}  # name -> arrays of a blob


@dataclass(frozen=True)
class WireFormat:
    """The format of what an actor sends, the `block` of one-bit and what threshold sends: `tau`."""

    format: str = "float32"
    block: int = 256
    tau: float = 0.01


PLAIN = WireFormat()


def plain_of(name: str) -> str:
    """The format of numbers as they are, beside gradients in the format `name`."""
    return FLOAT64 if name == FLOAT64 else "float32"


def layers_of(net: WorkerNet) -> Layers:
    """The gradients of a net, as plain data."""
    return {
        layer: [(list(param.shape), param.keep is None) for param in params] for layer, params in net.params.items()
    }


class Wire:
    """One actor's gradients: encoded on the way to its parent, decoded on arrival.

    `said` is the format of what it sends; with float64 it takes nothing else. The errors it keeps are its own: of each
    layer and blob one array of float32. All methods run in the compute thread.
    """

    def __init__(self, layers: Layers, ops: Backend, said: WireFormat = PLAIN) -> None:
        self._layers: dict[str, list[tuple[Shape, bool]]] = {
            layer: [(tuple(shape), learned) for shape, learned in blobs] for layer, blobs in layers.items()
        }
        self._ops = ops
        self._format, self._block, self._tau = said.format, said.block, said.tau
        self._plain = plain_of(self._format)
        self._counts = {FLOAT64: 1} if self._plain == FLOAT64 else FORMATS
        self._errors: dict[tuple[str, int], Array] = {}

    def __repr__(self) -> str:
        return f"<gradients of {len(self._layers)} layers, sent as {self._format}, {len(self._errors)} errors kept>"

    def encode(self, layer: str, blobs: Blobs) -> tuple[Formats, Blobs]:
        """Each blob's format, and the arrays of all blobs one after the other."""
        formats = tuple(self._format if learned else self._plain for _, learned in self._layers[layer])
        if self._format == self._plain:
            return formats, blobs
        arrays: list[Array] = []
        for index, (name, blob) in enumerate(zip(formats, blobs, strict=True)):
            arrays += self._encoded(name, (layer, index), blob)
        return formats, tuple(arrays)

    def decode(self, layer: str, formats: Formats, arrays: Blobs) -> Blobs:
        """The blobs of a gradient, all numbers as they are. MessageError if it is not one of this layer's."""
        blobs = self._layers.get(layer)
        if blobs is None:
            raise MessageError("bad_value", f"a gradient of layer '{layer}', expected {', '.join(self._layers)}")
        counts = [self._counts.get(name, 0) for name in formats]
        if len(formats) != len(blobs) or 0 in counts or sum(counts) != len(arrays):
            text = f"{len(arrays)} arrays for {len(blobs)} blobs in the formats {', '.join(formats)}"
            raise MessageError("bad_shape", f"a gradient of layer '{layer}': {text}")
        left = iter(arrays)
        found = []
        for name, count, (shape, learned) in zip(formats, counts, blobs, strict=True):
            parts = [next(left) for _ in range(count)]
            try:
                found.append(self._decoded(name if learned else self._plain, parts, shape))
            except OpsError as error:
                raise MessageError("bad_shape", f"a gradient of layer '{layer}' in format {name}: {error}") from None
        return tuple(found)

    def _encoded(self, name: str, key: tuple[str, int], blob: Array) -> Sequence[Array]:
        if name == self._plain:
            return (blob,)
        if name in HALVES:
            return (self._ops.half_encode(blob, name),)
        error = self._errors.get(key)
        if error is None:
            error = self._errors[key] = np.zeros(blob.shape, np.float32)
        if name == "one-bit":
            return self._ops.one_bit_encode(blob, error, self._block)
        return self._ops.threshold_encode(blob, error, self._tau)

    def _decoded(self, name: str, parts: Sequence[Array], shape: Shape) -> Array:
        if name == "one-bit":
            return self._ops.one_bit_decode(parts[0], parts[1], shape)
        if name == "threshold":
            return self._ops.threshold_decode(parts[0], parts[1], shape)
        (array,), dtype = parts, HALVES.get(name, np.dtype(self._plain))
        if array.shape != shape or array.dtype != dtype:
            raise OpsError(f"found {array.dtype} of shape {array.shape}, expected {dtype} of shape {shape}")
        return array if name == self._plain else self._ops.half_decode(array)
