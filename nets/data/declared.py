"""What a net's own data layers declare: how many images a batch has.

What lives here: reading that off a NetSpec. What never: data.
"""

from __future__ import annotations

from nets.errors import PrototxtError
from nets.layers import KINDS
from nets.spec import NetSpec


def batch_of_net(spec: NetSpec, phase: str) -> int:
    """The batch size that the first data or input layer of `phase` declares; PrototxtError if none does."""
    layers = spec.for_phase(phase).layers
    time_first = any(layer.proto.type in KINDS and KINDS[layer.proto.type].time_first for layer in layers)
    for layer in layers:
        for group in ("data_param", "image_data_param", "hdf5_data_param", "memory_data_param"):
            if layer.proto.HasField(group):
                return int(getattr(layer.proto, group).batch_size)
        if layer.proto.type == "Input" and layer.proto.input_param.shape:
            sizes = layer.proto.input_param.shape[0].dim
            return int(sizes[int(time_first and len(sizes) > 1)])
    raise PrototxtError(f"{spec.path.name}: no data layer in phase {phase} declares a batch size")
