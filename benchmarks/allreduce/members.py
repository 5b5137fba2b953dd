"""The program that `benchmarks.allreduce` runs on Convoy: p members that sum an array again and
again.

The other systems are in `peers`.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from typing import Any

import numpy as np

import ops
from ops import Array
from roles.exchange.collective import Collective, CollectiveOptions, adders_of
from roles.messages import Contribution, SharedSum
from runtime import Actor, ActorSpec, Envelope, Topology
from runtime.config.file import ClusterConfig, Section
from runtime.config.sections import Count
from runtime.messages.message import Message, message


class Options(Section):
    """The number of members, the number of them that add up (None: as many as a run has), the
    float32 numbers of an array, and the rounds."""

    members: Count = 2
    adders: Count | None = None
    numbers: Count = 1 << 20
    rounds: Count = 20


@message
class Summed(Message):
    """A member tells the first one that all its rounds are done, and the digest of the last sum."""

    digest: str


def input_of(rank: int, numbers: int) -> Array:
    """The array of a member: numbers whose sum depends on the order of summation."""
    return np.random.default_rng(rank).standard_normal(numbers, dtype=np.float32)


class Member(Actor):
    """Sums with the others. The first member reports the seconds of each of its rounds."""

    def __init__(
        self, *, rank: int, members: list[str], adders: int, numbers: int, rounds: int
    ) -> None:
        self._rank = rank
        self._members = members
        self._adders = adders
        self._numbers = numbers
        self._rounds = rounds
        self._digests: dict[str, str] = {}
        self._all_told = asyncio.Event()

    async def on_start(self) -> None:
        """Make this member's array where the others can read it."""
        await self.compute("make", self._make)
        options = CollectiveOptions(members=tuple(self._members), adders=self._adders)
        self._collective = Collective(self, options, {0: self._numbers}, self._ops, np.float32)

    async def run(self) -> None:
        """Make all sums, one after the other."""
        seconds = []
        for number in range(self._rounds):
            started = self.now()
            total = await self.compute("total", await self._collective.sum((number, 0), self._mine))
            seconds.append(self.now() - started)
        digest = hashlib.blake2b(total, digest_size=8).hexdigest()
        if self._rank:
            await self.tell(self._members[0], Summed(digest=digest))
            await asyncio.Event().wait()  # the others may still read this member's memory
        if len(self._members) > 1:
            await self._all_told.wait()
        self.emit("summed", seconds=seconds, digests=sorted({digest, *self._digests.values()}))

    async def on_summed(self, message: Summed, envelope: Envelope) -> None:
        """Note that another member is done."""
        self._digests[envelope.sender] = message.digest
        if len(self._digests) == len(self._members) - 1:
            self._all_told.set()

    async def on_contribution(self, message: Contribution, envelope: Envelope) -> None:
        """Pass the message to the collective."""
        self._collective.contributed(message, envelope.sender)

    async def on_shared_sum(self, message: SharedSum, envelope: Envelope) -> None:
        """Pass the message to the collective."""
        self._collective.summed(message, envelope.sender)

    def _make(self) -> None:
        self._ops = ops.get_backend("cpu", threads=1)
        self._ops.memory = self.memory
        self._mine = self._ops.empty((self._numbers,))
        self._mine[...] = input_of(self._rank, self._numbers)


ROLES = {"member": Member}


def plan(config: ClusterConfig, options: Options) -> Topology:
    """The topology of the members, each of which is linked to all others."""
    names = [f"member-{rank}" for rank in range(options.members)]
    shared: dict[str, Any] = {
        "members": names,
        "numbers": options.numbers,
        "rounds": options.rounds,
    }
    shared["adders"] = options.adders or adders_of(names, os.cpu_count())
    actors = tuple(
        ActorSpec(name, "member", {"rank": rank, **shared}) for rank, name in enumerate(names)
    )
    links = tuple((a, b) for a in names for b in names if a < b)
    return Topology(__name__, actors, links, names[0])
