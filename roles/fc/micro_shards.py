"""A shard of the FC phase in micro-batches, and its work. The bits depend neither on the number of
shards, nor on how rows make FC batches.

A shard computes its units in the parts that eight shards would have (`Net.cut_units`), micro-batch
by micro-batch. Every sum over units or micro-batches is made in pairs, and these in pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import cast

from nets.sharding.division import ShardedNet
from ops import Array
from roles.fc.work import FcWork
from roles.learning.gradient_sum import GradientSum
from roles.learning.micro_batches import Micro
from roles.learning.parameter_store import ParameterStore
from roles.messages import TRAIN, Blobs


class MicroShards(Micro[ShardedNet]):
    """Takes the place of a shard in `FcWork`, for a net that has no parameters between two
    InnerProducts. Sums over shards keep the order of the shards, and come before sums over
    micro-batches."""

    def __init__(self, build: Callable[[], ShardedNet], count: int) -> None:
        super().__init__(build, count)
        self.last = self._made[0].last

    def forward(self, link: int) -> Array | None:
        """Run a link forward on all micro-batches, as `ShardedNet.forward` does."""
        found = [net.forward(link) for net in self._nets]
        return (
            self._rows([columns for columns in found if columns is not None])
            if link < self.last
            else None
        )

    def gather(self, link: int, columns: Sequence[Array]) -> None:
        """Take the columns of all shards, as `ShardedNet.gather` does."""
        for net, (low, high) in zip(self._nets, self._cuts, strict=True):
            net.gather(link, [whole[low:high] for whole in columns])

    def backward(self, link: int) -> list[tuple[int, dict[str, Blobs]]]:
        """Run a link backward. Returns each micro-batch, with the gradients of the link's
        parameters on it."""
        return [
            (place, net.backward(link)) for place, net in zip(self.places, self._nets, strict=True)
        ]

    def parts(self, link: int) -> list[Blobs]:
        """The parts for each shard, as `ShardedNet.parts` returns them."""
        found = [net.parts(link) for net in self._nets]
        return [
            tuple(self._rows(rows) for rows in zip(*of_a_shard, strict=True))
            for of_a_shard in zip(*found, strict=True)
        ]  # fmt: skip

    def give(self, link: int, parts: Sequence[Sequence[Array]]) -> dict[tuple[str, int], Array]:
        """Take the parts of all shards, as `ShardedNet.give` does. No gradient is left to be added
        up."""
        for net, (low, high) in zip(self._nets, self._cuts, strict=True):
            net.give(link, [[columns[low:high] for columns in of_a_shard] for of_a_shard in parts])
        return {}


class MicroFcWork(FcWork):
    """The work of a shard in micro-batches. FC batches may come in any order: a gradient is
    complete with the iteration's last micro-batch."""

    def __init__(
        self, nets: Mapping[str, ShardedNet], micro: MicroShards, store: ParameterStore
    ) -> None:
        super().__init__(cast(Mapping[str, ShardedNet], {**nets, TRAIN: micro}), store)
        self._micro = micro
        self._totals = GradientSum(micro.ops)

    def _back(self, link: int) -> None:
        for place, found in self._micro.backward(link):
            for layer, gradients in found.items():
                total = self._totals.add(layer, place, self._micro.count, gradients)
                for into, gradient in zip(self._sums[layer], total or (), strict=total is not None):
                    into[...] = gradient
