"""An FC shard's array work, from one exchange of columns to the next, and its parameters.

An FC batch is a part of an iteration's batch: the gradients of all parts add up to those of the
whole, and are applied once. With a variable batch they are applied after each part, as the part's
mean (One weird trick, section 4.2); what goes back to the conv phase is the gradient of the whole
batch's mean either way. Everything here runs in the compute thread.
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
    """`nets` by phase are one shard, `store` its parameters. One FC batch at a time."""

    def __init__(self, nets: Mapping[str, ShardedNet], store: ParameterStore) -> None:
        self._nets = nets
        self._store = store
        self._net = nets[TRAIN]
        self._sums = gradient_buffers(self._net)  # of the FC batches since the last update
        self._one: dict[str, Blobs] | None = None  # of one that is added to them
        self._fresh = True  # nothing is in the sums yet

    def begin(
        self, phase: str, counted: int, rows: int, spans: Sequence[Span], members: Sequence[Blobs]
    ) -> Array:
        """Give an FC batch of a pass over so many rows, each member's of it; returns this shard's
        columns of the first InnerProduct. `counted` is the ticket's."""
        net = self._net = self._nets[phase]
        if phase == TRAIN:
            net.batch = rows
        net.begin(counted, *spans)
        for name, parts in zip(net.inputs, zip(*members, strict=True), strict=True):
            net.feed(name, joined_rows(net.ops, parts))
        for layer in net.params:
            net.load(layer, self._store.read(layer))
        return self._columns(0)

    def forward(self, link: int, columns: Sequence[Array]) -> Array:
        """Give what comes before a link, the columns of all shards; returns this one's columns of
        what it ends with."""
        self._net.gather(link - 1, columns)
        return self._columns(link)

    def turn(self, columns: Sequence[Array]) -> list[Blobs]:
        """Give the last columns: scores, and in training backward as far as the next exchange
        (`backward`)."""
        net = self._net
        net.gather(net.last - 1, columns)
        net.forward(net.last)
        if net.phase != TRAIN:
            return []
        self._back(net.last)
        return self.backward(net.last - 1, net.parts(net.last))

    def backward(self, link: int, parts: Sequence[Blobs]) -> list[Blobs]:
        """Run a link backward, given all shards' parts of the gradient of its columns; returns what
        this shard has for each of them of what the link read."""
        net = self._net
        for (layer, at), gradient in net.give(link, parts).items():
            self._add(self._sums[layer][at], gradient)
        self._back(link)
        return [tuple(map(net.ops.to_host, part)) for part in net.parts(link)] if link else []

    def answers(self, counts: Sequence[int]) -> tuple[dict[str, float], list[Blobs]]:
        """The FC batch's scores, and this shard's part of the gradients of what crossed the cut,
        for each member's number of rows."""
        net = self._net
        found = []
        low = 0
        whole = (
            [net.ops.to_host(net.grad(name)) for name in net.boundary_grads]
            if net.phase == TRAIN
            else []
        )
        for count in counts:
            found.append(tuple(gradient[low : low + count] for gradient in whole))
            low += count
        return net.scalars(), found

    def update(self, factor: float, last: bool) -> None:
        """Apply the sum of the gradients since the last update, times `factor`; `last`: of the
        iteration."""
        for layer, gradients in self._sums.items():
            for gradient in gradients if factor != 1.0 else ():
                gradient *= factor
            self._store.apply(layer, gradients, counts=last)
        self._fresh = True

    def _columns(self, link: int) -> Array:
        columns = self._net.forward(link)
        assert columns is not None  # only the last link ends with no InnerProduct
        return self._net.ops.to_host(columns)

    def _back(self, link: int) -> None:
        """The gradients of a link's parameters, into the sums, but for those of which all shards
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
