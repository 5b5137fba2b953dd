"""The array work of an FC shard, from one exchange of columns to the next, and its parameters.

An FC batch is a part of an iteration's batch. The gradients of all parts add up to those of the
whole, and are applied once. With a variable batch they are applied after each part, as the part's
mean (One weird trick, section 4.2). The gradient that goes back to the conv phase belongs to the
whole batch's mean either way. Everything here runs in the compute thread.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nets.sharding.division import ShardedNet
from ops import Array
from roles.fc.fc_batches import Span
from roles.learning.buffers import gradient_buffers, joined_rows
from roles.learning.parameter_store import ParameterStore
from roles.messages import TRAIN, Blobs


class FcWork:
    """The work on one FC batch at a time. `nets`, by phase, are one shard, and `store` has its
    parameters."""

    def __init__(self, nets: Mapping[str, ShardedNet], store: ParameterStore) -> None:
        self._nets = nets
        self._store = store
        self._net = nets[TRAIN]
        self._sums = gradient_buffers(self._net)  # gradients of the FC batches since the update
        self._one: dict[str, Blobs] | None = None  # gradients of one FC batch, to be added to them
        self._fresh = True  # the sums are still empty

    def begin(
        self, phase: str, counted: int, rows: int, spans: Sequence[Span], members: Sequence[Blobs]
    ) -> Array:
        """Begin an FC batch of a pass over so many rows, with the blobs of each of its `members`.
        Returns this shard's columns of the first InnerProduct. `counted` is the ticket's."""
        net = self._net = self._nets[phase]
        if phase == TRAIN:
            net.batch = rows
        net.begin(counted, *spans)
        for name, parts in zip(net.inputs, zip(*members, strict=True), strict=True):
            net.feed_rows(name, joined_rows(net.ops, parts))
        for layer in net.params:
            net.load(layer, self._store.read(layer, phase))
        return self._columns(0)

    def forward(self, link: int, columns: Sequence[Array]) -> Array:
        """Run a link forward on the columns of all shards before it. Returns this shard's columns
        at its end."""
        self._net.gather(link - 1, columns)
        return self._columns(link)

    def turn(self, columns: Sequence[Array]) -> list[Blobs]:
        """Run the last link on the columns of all shards, which gives the scores. In training, go
        backward as far as the next exchange, and return the parts for each shard (`backward`)."""
        net = self._net
        net.gather(net.last - 1, columns)
        net.forward(net.last)
        if net.phase != TRAIN:
            return []
        self._back(net.last)
        return self.backward(net.last - 1, net.parts(net.last))

    def backward(self, link: int, parts: Sequence[Blobs]) -> list[Blobs]:
        """Run a link backward from all shards' parts of the gradient of its columns. Returns, for
        each shard, this shard's part of the gradient of the columns that the link read."""
        net = self._net
        for (layer, at), gradient in net.give(link, parts).items():
            self._add(self._sums[layer][at], gradient)
        self._back(link)
        return [tuple(map(net.ops.to_host, part)) for part in net.parts(link)] if link else []

    def answers(self, counts: Sequence[int]) -> tuple[dict[str, float], list[Blobs]]:
        """The FC batch's scores and, for each member's number of rows, this shard's part of the
        gradients of the blobs that crossed the cut."""
        net = self._net
        found = []
        low = 0
        whole = (
            [net.ops.to_host(net.grad_rows(name)) for name in net.boundary_grads]
            if net.phase == TRAIN
            else []
        )
        for count in counts:
            found.append(tuple(gradient[low : low + count] for gradient in whole))
            low += count
        return net.scalars(), found

    def squares(self) -> list[float]:
        """The sum of squares of each gradient since the last update."""
        return self._store.squares(self._sums)

    def update(self, factor: float, last: bool, squares: Sequence[float] = ()) -> None:
        """Apply the sum of the gradients since the last update, times `factor`. `last`: it is the
        iteration's last update. `squares`: those of all gradients, if they are clipped."""
        for layer, gradients in self._sums.items():
            for gradient in gradients if factor != 1.0 else ():
                gradient *= factor
            clipped = self._store.clipped(layer, gradients, squares) if squares else gradients
            self._store.apply(layer, clipped, counts=last)
        self._fresh = True

    def _columns(self, link: int) -> Array:
        columns = self._net.forward(link)
        assert columns is not None  # only the last link does not end with an InnerProduct
        return self._net.ops.to_host(columns)

    def _back(self, link: int) -> None:
        """Add the gradients of a link's parameters to the sums, except those of which all shards
        have parts."""
        net = self._net
        if self._fresh:
            net.backward(link, self._sums)
        else:
            self._one = self._one or gradient_buffers(net)
            partial = net.partial(link)
            for layer, gradients in net.backward(link, self._one).items():
                for at, gradient in enumerate(gradients):
                    if (layer, at) not in partial:
                        self._add(self._sums[layer][at], gradient)
        if not link:
            self._fresh = False

    def _add(self, total: Array, gradient: Array) -> None:
        if self._fresh:
            total[...] = gradient
        else:
            self._net.ops.add(total, gradient, out=total)
