"""The ring all-reduce: each of p members sends to the next member only, 2 (p - 1) times a p-th of
every array.

First each part travels round the ring, and every member adds its own numbers. At the end one member
has the sum of the part (reduce-scatter). Then every sum travels round once more (all-gather). The
bytes that a member sends do not grow with p.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike

from ops import Array, Backend
from roles.base.role import Sent
from roles.base.shapes import Shapes
from roles.exchange.exchange import Exchange, ExchangeOptions, Layout, Members
from roles.exchange.partial_sums import Key, check_array
from roles.messages import Contribution, SharedSum
from runtime import Actor, MessageError


def parts(size: int, members: int) -> list[slice]:
    """Each member's part of `size` numbers."""
    return [
        slice(low, high)
        for low, high in itertools.pairwise(size * n // members for n in range(members + 1))
    ]


@dataclass(frozen=True, kw_only=True)
class RingOptions(ExchangeOptions):
    """All members, in the order of the ring."""

    members: tuple[str, ...]

    def sends(self, name: str, size: int, shapes: Shapes) -> Sent:
        rank = self.members.index(name)
        count = len(self.members)
        of = [part.stop - part.start for part in parts(size, count)]
        to = self.members[(rank + 1) % count]
        for turn in range(count - 1):
            yield to, Contribution, shapes.number * of[(rank - turn) % count]
            yield to, SharedSum, shapes.number * of[(rank + 1 - turn) % count]


class Arrivals:
    """The messages of the member before about one sum, in its order: no message overtakes another
    on one lane."""

    def __init__(self) -> None:
        self.adding: asyncio.Queue[Array] = asyncio.Queue()
        self.added: asyncio.Queue[Array] = asyncio.Queue()
        self.counts = {"adding": 0, "added": 0}


class Ring(Exchange):
    Options = RingOptions

    def __init__(
        self,
        actor: Actor,
        options: RingOptions,
        sizes: Mapping[int, int],
        ops: Backend,
        dtype: DTypeLike,
    ) -> None:
        self._actor = actor
        self._ops = ops
        self._sizes = sizes
        self._dtype = dtype
        self._count = len(options.members)
        self._rank = options.members.index(actor.name)
        self._before = options.members[self._rank - 1]
        self._after = options.members[(self._rank + 1) % self._count]
        self._arrivals: defaultdict[Key, Arrivals] = defaultdict(Arrivals)
        self._done = dict.fromkeys(sizes, -1)

    def __repr__(self) -> str:
        return (
            f"<ring {self._before} -> {self._actor.name} -> {self._after}, "
            f"{len(self._arrivals)} sums>"
        )

    @classmethod
    def laid_out(cls, members: Members) -> Layout:
        names = members.names
        links = zip(names, (*names[1:], *names[:1]), strict=True) if len(names) > 1 else ()
        return Layout(RingOptions(members=names), tuple(links))

    async def sum(self, key: Key, mine: Array) -> Callable[[], Array]:
        step, bucket = key
        cut = parts(mine.size, self._count)
        come = self._arrivals[key]
        tell = self._actor.tell
        whole = [mine[part] for part in cut]
        for turn in range(self._count - 1):
            sent = (self._rank - turn) % self._count
            got = (self._rank - turn - 1) % self._count
            await tell(
                self._after,
                Contribution(number=step, bucket=bucket, values=whole[sent], into=()),
                step=step,
            )
            whole[got] = await self._actor.compute(
                "reduce", self._added, await come.adding.get(), whole[got]
            )
        for turn in range(self._count - 1):
            sent = (self._rank + 1 - turn) % self._count
            got = (self._rank - turn) % self._count
            await tell(
                self._after, SharedSum(number=step, bucket=bucket, values=(whole[sent],)), step=step
            )
            whole[got] = await come.added.get()
        del self._arrivals[key]
        self._done[bucket] = step
        return lambda: np.concatenate(whole)

    def contributed(self, message: Contribution, sender: str) -> None:
        if message.into:
            raise MessageError(
                "unexpected", (f"{message!r} of {sender}: a ring adds up nowhere else")
            )
        self._arrived(message, sender, message.values, "adding", 1)

    def summed(self, message: SharedSum, sender: str) -> None:
        if len(message.values) != 1:
            raise MessageError("unexpected", f"{message!r} of {sender}: expected one part of a sum")
        self._arrived(message, sender, message.values[0], "added", 0)

    def _arrived(
        self, message: Contribution | SharedSum, sender: str, values: Array, kind: str, ahead: int
    ) -> None:
        """Take the n-th part of its kind. The count says where in the array the part belongs."""
        step, bucket = key = (message.number, message.bucket)
        if sender != self._before or step <= self._done.get(bucket, step):
            raise MessageError(
                "unexpected",
                (f"{message!r} of {sender}: not before {self._actor.name}, or summed before"),
            )
        come = self._arrivals[key]
        if come.counts[kind] == self._count - 1:
            raise MessageError(
                "unexpected", (f"{message!r} of {sender}: one part more than there are")
            )
        part = parts(self._sizes[bucket], self._count)[
            (self._rank - come.counts[kind] - ahead) % self._count
        ]
        check_array(values, part.stop - part.start, self._dtype, sender)
        come.counts[kind] += 1
        getattr(come, kind).put_nowait(values)

    def _added(self, theirs: Array, mine: Array) -> Array:
        return self._ops.add_all([theirs, mine], self._ops.empty(mine.shape, mine.dtype))
