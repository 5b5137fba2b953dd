"""Where the roles' new arrays lie: parameters and their gradients in Caffe's order, in memory that peers can read.

What never lives here: activations, which the net lays out for its layers.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nets import Net
from ops import Array, Backend, Shape
from roles.micro_batches import WorkerNet

Blobs = tuple[Array, ...]


def new_parameter(ops: Backend, shape: Shape, dtype: Any = np.float32) -> Array:
    """A new array of a parameter's shape, in C order, contents undefined, from the backend's memory."""
    return ops.empty((math.prod(shape),), dtype).reshape(shape)


def layer_gradients(net: WorkerNet, layer: str) -> Blobs:
    """New arrays for the gradients of a layer's parameters."""
    return tuple(new_parameter(net.ops, param.shape, net.dtype) for param in net.params[layer])


def gradient_buffers(net: Net) -> dict[str, Blobs]:
    """Arrays for the gradients of all parameters of a net."""
    return {layer: layer_gradients(net, layer) for layer in net.params}
