"""Sums arrays of workers at one accumulator in host memory: a worker sends its own, and gets the sum back.

What adds up is `accumulator`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from numpy.typing import DTypeLike

from ops import Array, Backend
from roles.base.role import Sent
from roles.base.shapes import Shapes
from roles.exchange.accumulator import AccumulatorOptions
from roles.exchange.exchange import Exchange, ExchangeOptions, Layout, Members
from roles.exchange.partial_sums import Key, Summands
from roles.messages import Contribution, SharedSum
from runtime import Actor, ActorSpec, MessageError


@dataclass(frozen=True, kw_only=True)
class HostOptions(ExchangeOptions):
    """The name of the accumulator."""

    accumulator: str

    def sends(self, name: str, size: int, shapes: Shapes) -> Sent:
        """Its array."""
        yield self.accumulator, Contribution, shapes.number * size


class HostExchange(Exchange):
    """For one actor; see `exchange.Exchange`."""

    Options = HostOptions
    repeats = True

    def __init__(
        self, actor: Actor, options: HostOptions, sizes: Mapping[int, int], ops: Backend, dtype: DTypeLike
    ) -> None:
        self._actor, self._accumulator = actor, options.accumulator
        self._summands = Summands(sizes, dtype)

    @classmethod
    def laid_out(cls, members: Members) -> Layout:
        """Everybody talks to the accumulator."""
        summing = AccumulatorOptions(members=members.names, kernels=members.kernels, dtype=members.dtype)
        server = ActorSpec(members.server, "host_accumulator", summing)
        links = tuple((members.server, name) for name in members.names)
        return Layout(HostOptions(accumulator=members.server), links, (server,))

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
