"""Sums arrays of p members up a tree of the members themselves, and tells the sum down the same tree (FireCaffe 6.2).

    child -> parent   Contribution: the sum of my array and of all below me
    parent -> child   SharedSum: the sum of all

A node adds its own array and those of its children level by level, in the order of ranks, whoever comes first. With
fan_in 2 and one network interface for each member a sum of |W| bytes travels |W| * 2 log2(p) / BW (equation 4): every
level moves |W| once each way, and down the tree those come first who have most to tell. One after the other: told at
once, all would have it as late as the last, since they share the sender's interface.
What never lives here: the shape of the tree (`binomial`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

from numpy.typing import DTypeLike

from ops import Array, Backend
from roles.exchange.binomial import place_of
from roles.exchange.partial_sums import BY, CLOSED, HERE, SUM, SUMMED, Key, Summands, check_count
from roles.messages import Contribution, SharedSum, Taken
from runtime import Actor, Conversation

BELOW, ABOVE = "awaited from below", "awaited from above"
SUMS = Conversation(
    "a neighbour's sum",
    BY,
    BELOW,
    {(BELOW, Contribution): (HERE,), (ABOVE, SharedSum): (HERE,), (HERE, SUM): (SUMMED,)},
    closed=CLOSED,
)


class TreeExchange:
    """For one actor. `members` are all of them by rank, this actor too; see `exchange.Exchange`."""

    conversations: ClassVar[tuple[Conversation, ...]] = (SUMS,)

    def __init__(
        self,
        actor: Actor,
        members: Sequence[str],
        fan_in: int,
        sizes: Mapping[int, int],
        ops: Backend,
        dtype: DTypeLike,
    ) -> None:
        place = place_of(list(members).index(actor.name), len(members), fan_in)
        self._actor, self._ops = actor, ops
        self._parent = None if place.parent is None else members[place.parent]
        self._levels = [[members[child] for child in children] for children in place.levels]
        self._children = {child for children in self._levels for child in children}
        self._summands = Summands(SUMS, self._awaited, sizes, dtype)

    def __repr__(self) -> str:
        return f"<tree exchange, {self._parent or 'the root'} above, {len(self._children)} below>"

    async def sum(self, key: Key, mine: Array) -> Callable[[], Array]:
        """See Exchange."""
        step, bucket = key
        total = mine
        for children in self._levels:
            arrays = [total, *[(await self._summands.of(key, child))[0] for child in children]]
            total = await self._actor.compute("reduce", self._add, arrays)
        if self._parent is not None:
            upward = Contribution(number=step, bucket=bucket, values=total, into=())
            await self._actor.tell(self._parent, upward, step=step)
            (total,) = await self._summands.of(key, self._parent)
        whole = SharedSum(number=step, bucket=bucket, values=(total,))
        *before, last = [child for children in reversed(self._levels) for child in children] or [""]
        for child in before:
            await self._actor.ask(child, whole, Taken, step=step)
        if last:  # nothing waits for it
            await self._actor.tell(last, whole, step=step)
        self._summands.close(key)
        return lambda: total

    def contributed(self, message: Contribution, sender: str) -> None:
        """A child's sum."""
        key = (message.number, message.bucket)
        self._summands.size(message, sender, key)
        check_count(message, sender, "memories for a sum", len(message.into), 0)
        self._summands.arrived(message, sender, key, (message.values,))

    def summed(self, message: SharedSum, sender: str) -> None:
        """The sum of all."""
        key = (message.number, message.bucket)
        self._summands.size(message, sender, key)
        check_count(message, sender, "arrays", len(message.values), 1)
        self._summands.arrived(message, sender, key, message.values)

    def _awaited(self, bucket: int, sender: str) -> str | None:
        if sender in self._children:
            return BELOW
        return ABOVE if sender == self._parent else None

    def _add(self, arrays: list[Array]) -> Array:
        return self._ops.add_all(arrays, self._ops.empty(arrays[0].shape, arrays[0].dtype))
