"""The encoding of gradients that travel, and the errors that a sender keeps for its next gradients.

Each blob is in one of the formats. Running statistics are not gradients: they always travel as they
are, and so do sums. The formats are in `roles.formats`; `gradient_links` assigns them to links.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ops import Array, Backend, OpsError, Shape
from roles.formats.float32 import Float32, Float64
from roles.formats.format import FORMATS, Format, Number
from roles.learning.buffers import NO_ERROR, KeptErrors
from roles.learning.micro_batches import WorkerNet
from roles.messages import Blobs
from runtime.errors import MessageError

Formats = tuple[str, ...]
# layer -> each blob's shape, and whether it is learned
Layers = Mapping[str, Sequence[tuple[Sequence[int], bool]]]


@dataclass(frozen=True)
class WireFormat:
    """The format of an actor's gradients, and the options of formats."""

    format: str = "float32"
    options: Mapping[str, Number] = field(default_factory=dict)


PLAIN = WireFormat()


def format_of(said: WireFormat, ops: Backend) -> Format:
    """The format object for `said`."""
    kind = Float64 if said.format == Float64.name else FORMATS[said.format]
    return kind(ops, said.options)


def plain_beside(said: WireFormat, ops: Backend) -> Format:
    """The format of numbers as they are, next to gradients in the format of `said`."""
    return Float64(ops, {}) if said.format == Float64.name else Float32(ops, {})


def layers_of(net: WorkerNet) -> Layers:
    """The gradients of a net, as plain data."""
    return {
        layer: [(list(param.shape), param.keep is None) for param in params]
        for layer, params in net.params.items()
    }


class Wire:
    """One actor's gradients: encoded on the way to its parent, decoded on arrival.

    `said` is the format of the gradients that it sends. With float64, it accepts no other format.
    It keeps errors of its own: one float32 array for each blob of each layer. All methods run in
    the compute thread.
    """

    def __init__(self, layers: Layers, ops: Backend, said: WireFormat = PLAIN) -> None:
        self._layers: dict[str, list[tuple[Shape, bool]]] = {
            layer: [(tuple(shape), learned) for shape, learned in blobs]
            for layer, blobs in layers.items()
        }
        self._sends = format_of(said, ops)
        self._plain = plain_beside(said, ops)
        taken = {} if self._plain.name == Float64.name else FORMATS
        self._takes = {name: kind(ops, said.options) for name, kind in taken.items()} | {
            self._plain.name: self._plain
        }
        self.errors = KeptErrors()

    def __repr__(self) -> str:
        return (
            f"<gradients of {len(self._layers)} layers, sent as {self._sends.name}, "
            f"{self.errors!r}>"
        )

    def encode(self, layer: str, blobs: Blobs, ops: Backend | None = None) -> tuple[Formats, Blobs]:
        """The format of each blob, and the arrays of all blobs one after the other, for a message.
        `ops`: the backend of the blobs, if that is not the host's. Numbers that travel as they are
        may stay on its device."""
        kinds = [self._sends if learned else self._plain for _, learned in self._layers[layer]]
        formats = tuple(kind.name for kind in kinds)
        if self._sends.name == self._plain.name:
            return formats, blobs if ops is None else tuple(map(ops.to_share, blobs))
        blobs = blobs if ops is None else tuple(map(ops.to_host, blobs))
        arrays: list[Array] = []
        for index, (kind, blob) in enumerate(zip(kinds, blobs, strict=True)):
            arrays += kind.encode(
                blob, self.errors.of(layer, index, blob.shape) if kind.keeps else NO_ERROR
            )
        return formats, tuple(arrays)

    def decode(self, layer: str, formats: Formats, arrays: Blobs) -> Blobs:
        """The blobs of a gradient, with all numbers as they are. Raises MessageError if the
        gradient does not fit the layer."""
        blobs = self._layers.get(layer)
        if blobs is None:
            raise MessageError(
                "bad_value", (f"a gradient of layer '{layer}', expected {', '.join(self._layers)}")
            )
        counts = [self._takes[name].arrays if name in self._takes else 0 for name in formats]
        if len(formats) != len(blobs) or 0 in counts or sum(counts) != len(arrays):
            text = (
                f"{len(arrays)} arrays for {len(blobs)} blobs in the formats {', '.join(formats)}"
            )
            raise MessageError("bad_shape", f"a gradient of layer '{layer}': {text}")
        left = iter(arrays)
        found = []
        for name, count, (shape, learned) in zip(formats, counts, blobs, strict=True):
            parts = [next(left) for _ in range(count)]
            try:
                found.append((self._takes[name] if learned else self._plain).decode(parts, shape))
            except OpsError as error:
                raise MessageError(
                    "bad_shape", (f"a gradient of layer '{layer}' in format {name}: {error}")
                ) from None
        return tuple(found)
