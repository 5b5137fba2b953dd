"""Helpers for tests of sums: members that sum arrays by an exchange, each on a device that takes a
random time."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np

import ops
from ops import Array
from roles.exchange.accumulator import HostAccumulator
from roles.exchange.chosen_exchange import Chosen
from roles.exchange.exchange import Layout
from roles.messages import Contribution, SharedSum, Taken
from runtime import Actor, ActorSpec, Envelope, Topology
from runtime.plan.topology import Placement, ProcessSpec
from runtime.simulation.clock import run_virtual
from runtime.simulation.cluster import simulate
from runtime.transport.inproc import InprocNetwork

SIZES = (0, 1, 16, 17, 1000)  # numbers in buckets 0, 1, ...
OPS = ops.get_backend("numpy")


def array_of(rank: int, step: int, size: int) -> Array:
    """Numbers of very different sizes, so that the order of addition shows in the last bits."""
    rng = np.random.default_rng((rank, step, size))
    return (rng.standard_normal(size) * 10.0 ** rng.integers(-4, 5, size)).astype(np.float32)


class Member(Actor):
    """A member that sums every bucket of some steps, all buckets of a step at once. It keeps the
    sums and the time at which each step ended."""

    def __init__(self, *, rank: int, exchange: Chosen, sizes: list[int], steps: int) -> None:
        self._rank = rank
        self._chosen = exchange
        self._sizes = sizes
        self._steps = steps
        self.found: dict[tuple[int, int], Array] = {}
        self.ended: list[float] = []

    async def on_start(self) -> None:
        self.exchange = self._chosen.of(self, dict(enumerate(self._sizes)), OPS, np.float32)

    async def run(self) -> None:
        for step in range(self._steps):
            await asyncio.gather(*(self._sum((step, bucket)) for bucket in range(len(self._sizes))))
            self.ended.append(self.now())
        await asyncio.sleep(1000)  # longer on the virtual clock than the other members need

    async def _sum(self, key: tuple[int, int]) -> None:
        await self.compute("work", lambda: None)
        total = await self.exchange.sum(key, array_of(self._rank, key[0], self._sizes[key[1]]))
        self.found[key] = await self.compute("total", total)

    async def on_contribution(self, message: Contribution, envelope: Envelope) -> None:
        self.exchange.contributed(message, envelope.sender)

    async def on_shared_sum(self, message: SharedSum, envelope: Envelope) -> None:
        self.exchange.summed(message, envelope.sender)
        await self.reply(envelope, Taken())


def names_of(members: int) -> list[str]:
    return [f"member-{rank}" for rank in range(members)]


def options_of(kind: str, members: int, **more: int) -> Chosen:
    """The options of an exchange among this number of members."""
    options: dict[str, Any] = (
        {"accumulator": "sums"} if kind == "host" else {"members": names_of(members)}
    )
    return Chosen(kind, {**options, **more})


def summed(
    exchange: Chosen,
    members: int,
    *,
    steps: int = 3,
    seed: int | None = 1,
    sizes: tuple[int, ...] = SIZES,
    network: InprocNetwork | None = None,
    layout: Layout | None = None,
) -> dict[str, Member]:
    """Run the members. Returns them after the last step. Their work takes times drawn with `seed`,
    or no time. `layout` is the layout of the exchange, if it has its own links and servers."""
    names = names_of(members)
    options = {"exchange": exchange, "sizes": list(sizes), "steps": steps}
    specs = [
        ActorSpec(name, "member", {"rank": rank, **options}) for rank, name in enumerate(names)
    ]
    links = [(a, b) for a in names for b in names if a < b]
    if exchange.kind == "host":
        specs.append(ActorSpec("sums", "host_accumulator", {"members": names, "kernels": "numpy"}))
        links = [("sums", name) for name in names]
    if layout is not None:
        specs = [*specs[:members], *layout.servers]
        links = list(layout.links)
    placement = Placement(
        Topology("tests", tuple(specs), tuple(links), names[0]),
        tuple(ProcessSpec(spec.name, "here", (spec.name,)) for spec in specs),
    )
    found: dict[str, Any] = {}
    delays = np.random.default_rng(seed)
    run_virtual(
        simulate(
            placement,
            {"member": Member, "host_accumulator": HostAccumulator},
            service_time=None
            if seed is None
            else lambda actor, label: float(delays.exponential(0.1)),
            network=network,
            prepared=found.update,
        )
    )
    return {name: found[name] for name in names}
