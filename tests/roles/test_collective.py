"""A collective's division of the work among its members, and the memory that they use. Other tests
of exchanges check the sums."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ops
from ops import Array
from roles.exchange import collective
from roles.exchange.accumulator import HostAccumulator
from roles.exchange.chosen_exchange import Chosen, exchange_called
from roles.exchange.collective import shares
from roles.exchange.exchange import TREE, Between, Home, Members
from roles.exchange.partial_sums import Arrays, Key, Summands
from runtime import ActorSpec, Message
from runtime.actors.metrics import Metrics
from runtime.actors.node import Node
from runtime.compute.compute import InlineCompute
from runtime.memory.arena import Arena
from runtime.memory.held_arrays import writable
from runtime.memory.mapping import available
from runtime.transport import Limits
from runtime.transport.sockets import SocketTransport
from tests.roles.summing import Member, array_of, names_of, options_of

SIZE = 100_000  # this many numbers are large enough to be read in place
RING = ((0, "ring"),)
HALVES = ((0, "halving"),)
WAYS = [
    ("per-host", TREE),
    ("per-host", RING),
    ("per-host", HALVES),
    ("tree", TREE),
    ("host", TREE),
]


def test_shares_cover_everything_once_and_begin_with_cache_lines() -> None:
    for size in (0, 1, 15, 16, 17, 100, 4097):
        for members in (1, 2, 3, 7):
            found = shares(size, members)
            assert [n for low, high in found for n in range(low, high)] == list(range(size))
            assert len(found) == members and all(low % 16 == 0 or low == size for low, _ in found)
            assert max(high - low for low, high in found) - size / members < 2 * 16


class Sharing(Member):
    """A member whose arrays are in its shared memory."""

    async def on_start(self) -> None:
        await super().on_start()
        backend = ops.get_backend("numpy")
        backend.memory = self.memory
        self.exchange._ops = backend
        for road in vars(self.exchange).get("_roads", {}).values():
            road._ops = backend

    async def sum_of(self, step: int, rank: int) -> Array:
        mine = self.exchange._ops.empty((SIZE,), np.float32)
        mine[:] = array_of(rank, step, SIZE)
        total: Array = (await self.exchange.sum((step, 0), mine))()
        return total.copy()

    async def run(self) -> None:
        """The test drives the member instead."""


@asynccontextmanager
async def members_on(
    hosts: str, exchange: Chosen, folder: Path, servers: Sequence[ActorSpec] = ()
) -> AsyncIterator[dict[str, Sharing]]:
    """Members on these hosts, with sockets between all of them, and accumulators. "aab" means two
    members on one host and one on another."""
    names = names_of(len(hosts))
    members = {}
    every = [*names, *(server.name for server in servers)]
    homes = dict(zip(names, hosts, strict=True)) | {
        server.name: server.options.beside for server in servers
    }
    nodes = []
    roads = []
    arenas = [Arena(name) for name in every]
    for rank, (name, arena) in enumerate(zip(every, arenas, strict=True)):
        node = Node(name, 1, InlineCompute(), Metrics())
        node.arena = arena
        bind = lambda lane, name=name: (f"unix://{folder}/{name}.{lane}", "tcp://127.0.0.1:*")  # noqa: E731
        road = SocketTransport(
            name, node.deliver, node.reject, Limits(), incarnation=1, bind=bind, arena=arena
        )
        road._host = homes.get(homes[name], homes[name])
        if name in names:
            members[name] = Sharing(rank=rank, exchange=exchange, sizes=[SIZE], steps=2)
            node.add(name, "member", members[name])
        else:
            node.add(name, "host_accumulator", HostAccumulator(servers[rank - len(names)].options))
        nodes.append(node)
        roads.append(road)
    ends = {name: await road.open() for name, road in zip(every, roads, strict=True)}
    async with asyncio.timeout(30):
        for node, road in zip(nodes, roads, strict=True):
            for name in every:
                if name != node.process:
                    node.connect(name, 1, ends[name], [name], road)
            await node.prepare(node.actors)
            node.begin(node.actors)
        yield members
    for node, road in zip(nodes, roads, strict=True):
        await node.stop()
        await road.close()
    for arena in arenas:
        arena.close()


async def check_sums(members: Mapping[str, Sharing]) -> None:
    """Check two steps, summed in pairs by rank, to the last bit."""
    for step in range(2):
        sums = await asyncio.gather(
            *(each.sum_of(step, rank) for rank, each in enumerate(members.values()))
        )
        arrays = [array_of(rank, step, SIZE) for rank in range(len(members))]
        wanted = ops.get_backend("numpy").add_all(arrays, np.empty(SIZE, np.float32))
        assert [
            number for number, total in enumerate(sums) if total.tobytes() != wanted.tobytes()
        ] == []


@pytest.mark.skipif(not available(), reason="needs memory that processes share: Linux")
@pytest.mark.few("[2-abab]", "[4-aabb]")
@pytest.mark.parametrize("hosts", ["aaaa", "aabb", "abab", "abba", "aaab", "abcd"])
@pytest.mark.parametrize("adders", [2, 4])
async def test_members_of_one_host_or_of_several_get_the_same_sum(
    hosts: str, adders: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collective, "ALONE_BYTES", 0)
    async with members_on(
        hosts, options_of("collective", len(hosts), adders=adders), tmp_path
    ) as members:
        await check_sums(members)


@pytest.mark.skipif(not available(), reason="needs memory that processes share: Linux")
@pytest.mark.few("[aabb-", "[aaaabbbb-per-host-way0]", "[aaaabbbb-per-host-way2]")
@pytest.mark.parametrize(("kind", "way"), WAYS)
@pytest.mark.parametrize("hosts", ["aabb", "aabbcc", "aaaabbbb"])
async def test_members_of_one_host_read_arrays_in_place_and_only_one_of_a_host_receives_from_others(
    hosts: str, kind: str, way: Between, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if len({*hosts}) > 2 and way != TREE:
        pytest.skip("a ring of more than two adds in another order, and three cannot sum by halves")
    monkeypatch.setattr(collective, "ALONE_BYTES", 0)
    homes = dict(zip(names_of(len(hosts)), hosts, strict=True))
    of_hosts = [
        Home(tuple(name for name in homes if homes[name] == host), 2)
        for host in dict.fromkeys(hosts)
    ]
    layout = exchange_called(kind).laid_out(
        Members(tuple(homes), hosts=tuple(of_hosts), between=way)
    )
    homes |= {server.name: homes[server.options.beside] for server in layout.servers}
    # (receiver, sender, whether the array is in shared memory)
    heard: set[tuple[str, str, bool]] = set()
    taken = Summands.arrived

    def arrived(
        self: Summands, message: Message, sender: str, key: Key, arrays: Arrays, *more: Any
    ) -> None:
        heard.update((owners[id(self)], sender, writable(array) is not None) for array in arrays)
        taken(self, message, sender, key, arrays, *more)

    monkeypatch.setattr(Summands, "arrived", arrived)
    async with members_on(hosts, Chosen(kind, layout.options), tmp_path, layout.servers) as members:
        owners = {
            id(part): name
            for name, member in members.items()
            for exchange in (member.exchange, *vars(member.exchange).get("_roads", {}).values())
            for part in vars(exchange).values()
            if isinstance(part, Summands)
        }
        async with asyncio.timeout(30):
            await check_sums(members)
    inside = {each for each in heard if homes[each[0]] == homes[each[1]]}
    assert {each for each in inside if not each[2]} == set()
    assert len({name for name, _, _ in inside}) >= len(homes) - len(layout.servers) - len(
        {*hosts}
    ) * (kind == "tree")
    first = {name for name, _, _ in heard - inside}
    assert (
        len(first)
        == len({homes[name] for name in first})
        == (0 if kind == "host" else len({*hosts}))
    )
