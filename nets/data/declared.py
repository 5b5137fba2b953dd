"""What a net's own data layers declare: how many images a batch has."""

from __future__ import annotations

from nets.definition.spec import NetSpec
from nets.errors import PrototxtError


def batch_of_net(spec: NetSpec, phase: str) -> int:
    """The batch size that the first data or input layer of `phase` declares; PrototxtError if none does."""
    for layer in spec.for_phase(phase).layers:
        for group in ("data_param", "image_data_param", "hdf5_data_param", "memory_data_param"):
            if layer.proto.HasField(group):
                return int(getattr(layer.proto, group).batch_size)
        if layer.proto.type == "Input" and layer.proto.input_param.shape:
            return int(layer.proto.input_param.shape[0].dim[0])
    raise PrototxtError(f"{spec.path.name}: no data layer in phase {phase} declares a batch size")
