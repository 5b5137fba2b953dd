"""A ring of actors sums up an array of each member: `python ring.py`.

Each of p members sends one p-th of the array to the next member, 2 (p - 1) times: first to add up,
then to hand the sums round.
"""

import asyncio

import numpy as np

import runtime
from runtime import Actor, ActorSpec, Array, Envelope, Message, Peer, Topology, message


@message
class Part(Message):
    values: Array


@message
class Report(Message):
    total: Array


class Member(Actor):
    def __init__(self, *, following: Peer, judge: Peer, rank: int, members: int) -> None:
        self._following, self._judge = following, judge
        self._rank, self._members = rank, members
        self._arrived: asyncio.Queue[Array] = asyncio.Queue()

    async def on_part(self, message: Part, envelope: Envelope) -> None:
        self._arrived.put_nowait(message.values)

    async def run(self) -> None:
        parts = np.array_split(numbers(self._rank), self._members)
        for hop in range(2 * (self._members - 1)):
            sent = (self._rank - hop) % self._members
            await self.tell(self._following, Part(values=parts[sent]))
            values = await self._arrived.get()
            received = (sent - 1) % self._members
            adds = hop < self._members - 1
            parts[received] = parts[received] + values if adds else values
        await self.tell(self._judge, Report(total=np.concatenate(parts)))


class Judge(Actor):
    """Compares the sums of all members with NumPy's."""

    def __init__(self, *, members: int) -> None:
        self._members = members
        self._totals: asyncio.Queue[Array] = asyncio.Queue()

    async def on_report(self, message: Report, envelope: Envelope) -> None:
        self._totals.put_nowait(message.total)

    async def run(self) -> None:
        expected = sum(numbers(rank) for rank in range(self._members))
        totals = [await self._totals.get() for _ in range(self._members)]
        same = all(np.array_equal(total, totals[0]) for total in totals)
        self.emit("summed", same=same, right=bool(np.allclose(totals[0], expected)))


def numbers(rank: int) -> Array:
    return np.random.default_rng(rank).normal(size=100_003)


ROLES = {"member": Member, "judge": Judge}


def topology(members: int = 4) -> Topology:
    names = [f"member-{rank}" for rank in range(members)]
    ring = tuple(zip(names, (*names[1:], names[0]), strict=True))
    specs = [
        ActorSpec(
            name,
            "member",
            {"following": following, "judge": "judge", "rank": rank, "members": members},
        )
        for rank, (name, following) in enumerate(ring)
    ]
    links = (*ring, *((name, "judge") for name in names))
    judge = ActorSpec("judge", "judge", {"members": members})
    return Topology(__name__, (judge, *specs), links, "judge")


if __name__ == "__main__":
    print(runtime.run(topology()))  # {'same': True, 'right': True}
