"""What a net's own data layers say about reading: how many images a batch has, in which order, from
where on."""

from __future__ import annotations

from dataclasses import dataclass

from nets.definition.spec import NetSpec
from nets.errors import PrototxtError

_GROUPS = ("data_param", "image_data_param", "hdf5_data_param", "memory_data_param")


@dataclass(frozen=True)
class Declared:
    """Of the first data or input layer of a phase. `shuffle`: a new order in every epoch;
    `rand_skip`: the first sample is drawn from so many."""

    batch: int
    shuffle: bool = False
    rand_skip: int = 0


def declared(spec: NetSpec, phase: str) -> Declared | None:
    """What the first data or input layer of `phase` says; None if there is none."""
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
    """The batch size that the first data or input layer of `phase` declares; PrototxtError if none
    does."""
    found = declared(spec, phase)
    if found is None:
        raise PrototxtError(
            f"{spec.path.name}: no data layer in phase {phase} declares a batch size"
        )
    return found.batch
