"""Sums arrays of workers at one accumulator in host memory: a worker sends its own, and gets the sum back.

What never lives here: the adding up (`host_accumulator`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

from numpy.typing import DTypeLike

from ops import Array, Backend
from roles.exchange.partial_sums import BY, CLOSED, HERE, SUM, SUMMED, Key, Summands, check_count
from roles.messages import Contribution, SharedSum
from runtime import Actor, Conversation

AWAITED = "awaited from the accumulator"
TOTAL = Conversation(
    "the sum of all",
    BY,
    AWAITED,
    {(AWAITED, SharedSum): (HERE,), (HERE, SUM): (SUMMED,)},
    closed=CLOSED,
    never=(Contribution,),
)


class HostExchange:
    """For one actor; see `exchange.Exchange`."""

    conversations: ClassVar[tuple[Conversation, ...]] = (TOTAL,)

    def __init__(
        self, actor: Actor, accumulator: str, sizes: Mapping[int, int], ops: Backend, dtype: DTypeLike
    ) -> None:
        self._actor, self._accumulator = actor, accumulator
        self._summands = Summands(
            TOTAL, lambda bucket, sender: AWAITED if sender == accumulator else None, sizes, dtype
        )

    def __repr__(self) -> str:
        return f"<exchange at {self._accumulator}>"

    async def sum(self, key: Key, mine: Array) -> Callable[[], Array]:
        """See Exchange."""
        step, bucket = key
        contribution = Contribution(number=step, bucket=bucket, values=mine, into=())
        await self._actor.tell(self._accumulator, contribution, step=step)
        (total,) = await self._summands.of(key, self._accumulator)
        self._summands.close(key)
        return lambda: total

    def contributed(self, message: Contribution, sender: str) -> None:
        """Nobody sends its gradients to a worker here."""
        self._summands.size(message, sender, (message.number, message.bucket))

    def summed(self, message: SharedSum, sender: str) -> None:
        """The accumulator has the sum of all."""
        key = (message.number, message.bucket)
        self._summands.size(message, sender, key)
        check_count(message, sender, "arrays", len(message.values), 1)
        self._summands.arrived(message, sender, key, message.values)
