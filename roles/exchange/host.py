"""Sums arrays of workers at one accumulator in host memory: a worker sends its own, and gets the sum back.

What never lives here: the adding up (`host_accumulator`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from numpy.typing import DTypeLike

from ops import Array, Backend
from roles.exchange.partial_sums import Key, Summands
from roles.messages import Contribution, SharedSum
from runtime import Actor, MessageError


class HostExchange:
    """For one actor; see `exchange.Exchange`."""

    def __init__(
        self, actor: Actor, accumulator: str, sizes: Mapping[int, int], ops: Backend, dtype: DTypeLike
    ) -> None:
        self._actor, self._accumulator = actor, accumulator
        self._summands = Summands(sizes, dtype)

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
        raise MessageError("unexpected", f"{message!r} of {sender}: sums are made at {self._accumulator}")

    def summed(self, message: SharedSum, sender: str) -> None:
        """The accumulator has the sum of all."""
        if sender != self._accumulator or len(message.values) != 1:
            raise MessageError("unexpected", f"{message!r} of {sender}: sums are made at {self._accumulator}")
        self._summands.arrived((message.number, message.bucket), sender, message.values)
