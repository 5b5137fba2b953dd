"""A net that is given the arrays of a pass: its rows, inputs, parameters and the gradients of its
border. Its layers get their places in memory here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nets.errors import NetError, did_you_mean
from nets.graph.gradients import Gradients
from nets.graph.net_part import PartOfNet
from nets.graph.streams import turned
from nets.graph.wiring import Node
from nets.layers import Run, Setup
from nets.layers.base import Shape
from ops import Array, Backend


class Block:
    """The memory of the arrays of a pass. Nets that compute one after the other may share it."""

    def __init__(self, ops: Backend) -> None:
        self.ops = ops
        self.array = ops.empty((0,), np.uint8)

    def grow(self, size: int) -> Array:
        """Return the memory, with at least `size` bytes."""
        if size > self.array.size:
            self.array = self.ops.empty((size,), np.uint8)
        return self.array


class FedNet(PartOfNet):
    """A `PartOfNet` with the arrays of one pass. `graph.Net` computes with them."""

    def _prepare(self) -> None:
        self._arrays: dict[int, Array] = {}
        self._constants: dict[str, Sequence[Array]] = {}  # the parameters of frozen layers
        self._blobs: dict[str, Sequence[Array]] = {}
        self._gradients = Gradients(self.wiring, self._sharing, self.ops, self.dtype)
        self._run = Run(self.phase, self.seed, 0, 0, self.batch, self.batch)
        self._block = Block(self.ops)
        # with `hold_inputs`: arrays from outside the pass, by the index of their value and shape
        self._held: dict[tuple[int, Shape], Array] | None = None
        self._placed: Array | None = None  # the memory in which the layers have their places

    def share_memory(self, other: FedNet) -> None:
        """Compute in the memory of another net with memory "reused" and the same backend. A pass of
        either net ends the validity of the other's arrays."""
        self._block = other._block
        self._placed = None

    def begin(self, step: int, rows: tuple[int, int] | None = None, *more: tuple[int, int]) -> None:
        """Start a pass for step `step` over `rows` = [low, high) of the whole batch (default: all
        rows), and over the ranges in `more`."""
        spans = (rows or (0, self.batch), *more)
        for low, high in spans:
            if not 0 <= low < high <= self.batch:
                raise NetError(f"rows: found [{low}, {high}), expected a part of [0, {self.batch})")
        count = sum(high - low for low, high in spans)
        if count != self._rows:
            self.wiring.reshape(Setup(self.phase, count, self._input_shape, self.streams))
            self._rows = count
            self._placed = None
        if self._reuses and self._placed is not self._block.array:
            self._place()
        steps = 0 if self.streams is None else self.streams.steps
        self._run = Run(
            self.phase, self.seed, step, spans[0][0], spans[-1][1], self.batch, spans, steps
        )
        self._arrays = {}
        self._blobs = dict(self._constants)
        self._gradients.begin()
        if self._held is None:  # else the results of all passes lie in the same arrays
            for node in self._senders:
                node.layer.forget("top")
            for node in self._receivers:
                node.layer.forget("bottom")

    def _place(self) -> None:
        """Give the layers their places in the block. Enlarge the block if it is too small."""
        plan = self.memory_plan
        self._placed = self._block.grow(plan.size)
        self._gradients.sums = {}
        for (owner, key), array in plan.arrays(self.ops, self._placed).items():
            if owner < 0:
                self._gradients.sums[-1 - owner] = array
            else:
                self.wiring.nodes[owner].layer.place(key, array)
        for node in self.nodes:
            node.layer.over_gradient = node.index in plan.over
            node.layer.written = plan.written.get(node.index, frozenset())

    def feed(self, name: str, array: Any) -> None:
        """Give the input blob `name`. It is kept by reference, or converted if it does not have the
        net's dtype."""
        if name not in self._inputs:
            near = did_you_mean(name, self._inputs)
            raise NetError(
                f"input '{name}': the net has no such input{near}, it has {', '.join(self._inputs)}"
            )
        at = self._inputs[name]
        expected = self._value(at).shape
        given = array if self._held is not None else self.ops.fed(array, self.dtype)
        if tuple(given.shape) != expected:
            raise NetError(f"input '{name}': found shape {tuple(given.shape)}, expected {expected}")
        self._arrays[at] = given if self._held is None else self._refilled(self._held, at, given)

    def hold_inputs(self) -> None:
        """From now on no array that a pass reads from outside, or leaves to the outside, moves from
        one pass to the next over as many rows. Inputs and gradients of the border are copied to
        such arrays. A value that leaves is written over by the next pass."""
        self._held = {}

    def _refilled(self, held: dict[tuple[int, Shape], Array], at: int, given: Any) -> Array:
        key = at, tuple(given.shape)
        if key not in held:
            held[key] = self.ops.empty(key[1], self.dtype)
        self.ops.refill(held[key], given)
        return held[key]

    def fix(self, blobs: Mapping[str, Sequence[Array]]) -> None:
        """Give the parameters of the layers in `frozen` for all passes, by reference."""
        self._constants = {
            layer: tuple(self.ops.asarray(blob, self.dtype) for blob in of)
            for layer, of in blobs.items()
        }

    def load(self, layer: str, blobs: Sequence[Array]) -> None:
        """Give a layer's parameters for this pass, by reference. The net never writes to them."""
        if layer not in self.params:
            near = did_you_mean(layer, self.params)
            raise NetError(
                f"layer '{layer}': no layer of this part has this name and parameters{near}"
            )
        found = [tuple(blob.shape) for blob in blobs]
        expected = [param.shape for param in self.params[layer]]
        if found != expected:
            raise NetError(
                f"layer '{layer}': found parameters of shapes {found}, expected {expected}"
            )
        self._blobs[layer] = tuple(blobs)

    def set_grad(self, name: str, array: Any) -> None:
        """Give a conv part the gradient of boundary blob `name` before its backward: by reference,
        unless inputs are held."""
        if name not in self.boundary_grads:
            expected = ", ".join(self.boundary_grads) or "none"
            raise NetError(
                f"gradient of '{name}': no gradient crosses here, expected one of: {expected}"
            )
        given = array if self._held is not None else self.ops.asarray(array, self.dtype)
        index = next(i for i in self._boundary if self._value(i).name == name)
        if tuple(given.shape) != self._value(index).shape:
            expected_shape = self._value(index).shape
            raise NetError(
                f"gradient of '{name}': found shape {tuple(given.shape)}, expected {expected_shape}"
            )
        if self._held is not None:
            given = self._refilled(self._held, index, given)
        elif given.ndim == 4:
            given = self.ops.images(given)
        self._gradients.add(index, given)

    def release(self) -> None:
        """Forget the arrays of the pass. None of its blobs can be read any more."""
        self._arrays = {}

    def feed_rows(self, name: str, array: Any) -> None:
        """Give the input blob `name` with its rows on axis 0."""
        self.feed(name, self.laid_out(array))

    def set_grad_rows(self, name: str, array: Any) -> None:
        """Give the gradient of boundary blob `name` with its rows on axis 0."""
        self.set_grad(name, self.laid_out(array))

    def laid_out(self, array: Any) -> Any:
        """Return an array that has its rows on axis 0 in the order of the net's axes."""
        return array if self.streams is None else turned(array)

    def states(self) -> dict[str, Array]:
        """Return the states after the last pass, each (rows, H), by the layer's name and a number.
        Recurrent layers with `expose_hidden` keep none."""
        return {
            f"{node.layer.name}.{number}": state
            for node in self._recurrent
            for number, state in enumerate(node.layer.state)
        }

    def set_states(self, states: Mapping[str, Array]) -> None:
        """Let the next pass start from these `states`, after `begin`. A layer whose states are
        missing starts from zeros."""
        for node in self._recurrent:
            names = [f"{node.layer.name}.{number}" for number in range(node.layer.states)]
            kept = names if all(name in states for name in names) else []
            node.layer.state = [self.ops.asarray(states[name].copy()) for name in kept]

    def restart(self) -> None:
        """Make the next pass like the first one: no layer keeps its state."""
        self._rows = 0

    def blob(self, name: str) -> Array:
        """Return blob `name` of this pass (its last value) in the net's dtype."""
        i = self._index(name)
        if self._reuses and name not in (*self.outputs, *self.inputs, *self.boundary):
            raise NetError(
                f"blob '{name}': its memory is reused in the pass; build the net with "
                "memory='kept' to read it"
            )
        found = self._given(i)
        return found if self._value(i).dtype is None else found.astype(self.dtype)

    def grad(self, name: str) -> Array:
        """Return the gradient of boundary or input blob `name` after backward has reached it.
        Returns zeros if no gradient reached it."""
        i = self._inputs[name] if name in self._inputs else self._index(name)
        found = self._gradients.of(i)
        if found is None:
            return self.ops.zeros(self._value(i).shape, self.dtype)
        return found if self._value(i).dtype is None else found.astype(self.dtype)

    def blob_rows(self, name: str) -> Array:
        """Return boundary blob `name` of this pass with its rows on axis 0."""
        return self.blob(name) if self.streams is None else turned(self.blob(name))

    def grad_rows(self, name: str) -> Array:
        """Return the gradient of boundary or input blob `name` with its rows on axis 0."""
        return self.grad(name) if self.streams is None else turned(self.grad(name))

    # inside

    @property
    def _recurrent(self) -> list[Any]:
        """The nodes of the layers that keep states from pass to pass."""
        return [node for node in self.nodes if node.layer.time_first]

    def _given(self, i: int) -> Array:
        if i not in self._arrays:
            what = "fed" if i in self._inputs.values() else "computed"
            raise NetError(f"blob '{self._value(i).name}': read before it was {what} in this pass")
        return self._arrays[i]

    def _parameters(self, node: Node) -> Sequence[Array]:
        """Return the layer's own parameters and the borrowed ones, in the layer's order."""
        name = node.layer.name
        owned = self._owned[node.index]
        if owned and name not in self._blobs:
            raise NetError(f"layer '{name}': run before its parameters were loaded in this pass")
        if len(owned) == len(node.layer.params):
            return self._blobs.get(name, ())
        found = []
        for at, param in enumerate(node.layer.params):
            index, place = self._sharing.owner.get((node.index, at), (node.index, at))
            lender = self.wiring.nodes[index].layer.name
            if lender not in self._blobs:
                raise NetError(
                    f"layer '{lender}': its parameters are shared and were not loaded in this pass"
                )
            found.append(self._blobs[lender][self._owned[index].index(place)].reshape(param.shape))
        return found
