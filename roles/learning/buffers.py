"""The allocation of parameters, of their gradients, and of the joined rows of several senders.

Parameters and gradients are in Caffe's order, in memory that peers can read.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from nets import ParamSpec
from ops import Array, Backend, Shape
from roles.messages import Blobs
from runtime import Actor


class Learner(Protocol):
    """An object with gradients: a net, a shard, or micro-batches of one."""

    ops: Backend
    dtype: np.dtype[Any]

    @property
    def params(self) -> Mapping[str, tuple[ParamSpec, ...]]:
        """The parameters of every layer that has some."""


NO_ERROR = np.empty(0, np.float32)  # for formats that keep no errors


class KeptErrors:
    """The parts of earlier gradients that a sender's format left out: one float32 array for each
    blob of a layer."""

    def __init__(self) -> None:
        self._arrays: dict[str, Array] = {}  # "layer.i", as a checkpoint calls the blob

    def __repr__(self) -> str:
        return f"<{len(self._arrays)} errors kept>"

    def of(self, layer: str, index: int, shape: Shape) -> Array:
        """The error of one blob, to write to; zeros at first."""
        key = f"{layer}.{index}"
        if key not in self._arrays or self._arrays[key].shape != shape:
            self._arrays[key] = np.zeros(shape, np.float32)
        return self._arrays[key]

    def set_aside(self) -> dict[str, Array]:
        """Copy all errors."""
        return {key: error.copy() for key, error in self._arrays.items()}

    def take_back(self, kept: Mapping[str, Array]) -> None:
        """Replace all errors by a copy. Errors that are not in it become zero."""
        self._arrays = {key: np.array(error) for key, error in kept.items()}


def in_memory_of(actor: Actor, *backends: Backend) -> None:
    """Let large arrays of these backends on the host lie in memory that the actor's peers read, and
    those that are shared on a device in memory that peers on the device read. Call it in the
    compute thread."""
    for ops in backends:
        ops.memory = actor.memory
        ops.memory_range = actor.memory_range
        if (memory := ops.peer_memory()) is not None:
            ops.device_memory = actor.device_memory(memory)


def new_parameter(ops: Backend, shape: Shape, dtype: Any = np.float32) -> Array:
    """A new array of a parameter's shape, in C order, from the backend's memory. Its contents are
    undefined."""
    return ops.empty((math.prod(shape),), dtype).reshape(shape)


def layer_gradients(net: Learner, layer: str) -> Blobs:
    """New arrays for the gradients of a layer's parameters."""
    return tuple(new_parameter(net.ops, param.shape, net.dtype) for param in net.params[layer])


def gradient_buffers(net: Learner) -> dict[str, Blobs]:
    """New arrays for the gradients of all parameters of a net."""
    return {layer: layer_gradients(net, layer) for layer in net.params}


def joined_rows(ops: Backend, parts: Sequence[Array]) -> Array:
    """The rows of all members in one array, in the order of their ranks, in the backend's layout. A
    single part is not copied."""
    if len(parts) == 1:
        return parts[0]
    if not ops.on_host and all(isinstance(part, np.ndarray) for part in parts):
        return np.concatenate(parts)
    whole = ops.empty((sum(map(len, parts)), *parts[0].shape[1:]), parts[0].dtype)
    low = 0
    for part in parts:
        ops.copy(ops.asarray(part), whole[low : low + len(part)])
        low += len(part)
    return whole
