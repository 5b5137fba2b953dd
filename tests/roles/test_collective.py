"""How a collective's members share the work out, and whose memory they do it in. What they sum is tested with the other
exchanges."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest

import ops
from ops import Array
from roles.exchange import collective
from roles.exchange.collective import shares
from runtime.actors.metrics import Metrics
from runtime.actors.node import Node
from runtime.compute.compute import InlineCompute
from runtime.memory.arena import Arena, available
from runtime.transport import Limits
from runtime.transport.sockets import SocketTransport
from tests.roles.summing import Member, array_of, names_of, options_of

SIZE = 100_000  # numbers: large enough to be read in place


def test_shares_cover_everything_once_and_begin_with_cache_lines() -> None:
    for size in (0, 1, 15, 16, 17, 100, 4097):
        for members in (1, 2, 3, 7):
            found = shares(size, members)
            assert [n for low, high in found for n in range(low, high)] == list(range(size))
            assert len(found) == members and all(low % 16 == 0 or low == size for low, _ in found)
            assert max(high - low for low, high in found) - size / members < 2 * 16


class Sharing(Member):
    """A member whose arrays lie in its shared memory."""

    async def on_start(self) -> None:
        await super().on_start()
        self.exchange._ops = ops.get_backend("numpy")
        self.exchange._ops.memory = self.memory

    async def sum_of(self, step: int, rank: int) -> Array:
        mine = self.exchange._ops.empty((SIZE,), np.float32)
        mine[:] = array_of(rank, step, SIZE)
        total: Array = (await self.exchange.sum((step, 0), mine))()
        return total.copy()

    async def run(self) -> None:
        """Driven from outside."""


@pytest.mark.skipif(not available(), reason="needs memory that processes share: Linux")
@pytest.mark.few("[2-abab]", "[4-aabb]")
@pytest.mark.parametrize("hosts", ["aaaa", "aabb", "abab", "abba", "aaab", "abcd"])
@pytest.mark.parametrize("adders", [2, 4])
async def test_members_of_one_host_or_of_several_get_the_same_sum(
    hosts: str, adders: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collective, "ALONE_BYTES", 0)
    names, members = names_of(len(hosts)), {}
    nodes, roads, arenas = [], [], [Arena(name) for name in names]
    for rank, (name, arena) in enumerate(zip(names, arenas, strict=True)):
        node = Node(name, 1, InlineCompute(), Metrics())
        node.arena = arena
        bind = lambda lane, name=name: (f"unix://{tmp_path}/{name}.{lane}", "tcp://127.0.0.1:*")  # noqa: E731
        road = SocketTransport(name, node.deliver, node.reject, Limits(), incarnation=1, bind=bind, arena=arena)
        road._host = hosts[rank]
        exchange = options_of("collective", len(hosts), adders=adders)
        members[name] = Sharing(rank=rank, exchange=exchange, sizes=[SIZE], steps=2)
        node.add(name, "member", members[name])
        nodes.append(node)
        roads.append(road)
    ends = {name: await road.open() for name, road in zip(names, roads, strict=True)}
    async with asyncio.timeout(30):
        for node, road in zip(nodes, roads, strict=True):
            for name in names:
                if name != node.process:
                    node.connect(name, 1, ends[name], [name], road)
            await node.prepare(node.actors)
            node.begin(node.actors)
        for step in range(2):
            sums = await asyncio.gather(*(each.sum_of(step, rank) for rank, each in enumerate(members.values())))
            wanted = ops.get_backend("numpy").add_all(
                [array_of(rank, step, SIZE) for rank in range(len(hosts))], np.empty(SIZE, np.float32)
            )
            assert [number for number, total in enumerate(sums) if total.tobytes() != wanted.tobytes()] == []
    for node, road in zip(nodes, roads, strict=True):
        await node.stop()
        await road.close()
    for arena in arenas:
        arena.close()
