"""The settings of a net's own data layers for reading: the size of a batch, the order of the
images, the first image."""

from __future__ import annotations

from dataclasses import dataclass

from nets.definition.spec import NetSpec
from nets.errors import PrototxtError

_GROUPS = ("data_param", "image_data_param", "hdf5_data_param", "memory_data_param")


@dataclass(frozen=True)
class Declared:
    """The settings of the first data or input layer of a phase.

    With `shuffle`, every epoch has a new order. The first sample is drawn from the first
    `rand_skip` ones.
    """

    batch: int
    shuffle: bool = False
    rand_skip: int = 0


def declared(spec: NetSpec, phase: str) -> Declared | None:
    """Return the settings of the first data or input layer of `phase`, None if there is no such
    layer."""
    for layer in spec.for_phase(phase).layers:
        for group in _GROUPS:
            if layer.proto.HasField(group):
                said = getattr(layer.proto, group)
                shuffle = getattr(said, "shuffle", False)
                skip = getattr(said, "rand_skip", 0)
                return Declared(int(said.batch_size), bool(shuffle), int(skip))
        if layer.proto.type == "Input" and layer.proto.input_param.shape:
            return Declared(int(layer.proto.input_param.shape[0].dim[0]))
    return None


def batch_of_net(spec: NetSpec, phase: str) -> int:
    """Return the batch size that the first data or input layer of `phase` declares. Raises
    PrototxtError if the phase has no such layer."""
    found = declared(spec, phase)
    if found is None:
        raise PrototxtError(
            f"{spec.path.name}: no data layer in phase {phase} declares a batch size"
        )
    return found.batch
