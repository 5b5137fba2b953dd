"""Bytes over time on simulated networks compared with FireCaffe's formulas. The actors do nothing
but exchange.

Equation 3: p workers send |W| bytes to one server in |W| p / BW seconds. Equation 4: a binomial
tree among the workers, up and down, takes |W| 2 log2(p) / BW. BW is the rate of a machine's
interface, not of each of its links.
"""

from __future__ import annotations

import asyncio
import math
from typing import Any

import numpy as np
import pytest

from runtime.actors.actor import Actor
from runtime.messages.message import Array, Envelope, Message, message
from runtime.plan.topology import ActorSpec, Placement, ProcessSpec, Topology
from runtime.simulation.clock import run_virtual
from runtime.simulation.cluster import simulate
from runtime.transport.inproc import InprocNetwork

RATE = 125e6  # 1 Gbit/s
SIZE = 30_000_000


@message
class Gradients(Message):
    values: Array


@message
class Model(Message):
    values: Array


@message
class Taken(Message):
    pass


ZEROS = np.zeros(SIZE, np.uint8)


class Peer(Actor):
    """An actor of the exchange. By its end, it has received `needed` gradients and, if it has a
    parent, one model."""

    def __init__(self, parent: str, children: list[str], lead: bool, in_turn: bool) -> None:
        self.parent = parent
        self.children = children
        self.lead = lead
        self.in_turn = in_turn
        self.heard: dict[str, asyncio.Event] = {}

    async def on_start(self) -> None:
        self.heard = {child: asyncio.Event() for child in self.children}
        self.model = asyncio.Event()

    async def on_gradients(self, said: Gradients, envelope: Envelope) -> None:
        self.heard[envelope.sender].set()

    async def on_model(self, said: Model, envelope: Envelope) -> None:
        self.model.set()
        await self.reply(envelope, Taken())

    async def run(self) -> None:
        for child in self.children:
            await self.heard[child].wait()
        self.emit("summed")
        if self.parent:
            await self.tell(self.parent, Gradients(values=ZEROS))
            await self.model.wait()
        for child in reversed(self.children):
            if self.in_turn:
                await self.ask(child, Model(values=ZEROS), Taken)
            else:
                await self.tell(child, Model(values=ZEROS))
        self.emit("done")
        # the run ends with the lead, although another actor is the last to receive the model
        if self.lead:
            await asyncio.sleep(100.0)


def exchange(
    children: dict[str, list[str]], network: InprocNetwork, *, in_turn: bool = False
) -> tuple[float, float]:
    """The seconds until the root has the sum, and until every worker has the model."""
    parents = {child: name for name, below in children.items() for child in below}
    root = next(name for name in children if name not in parents)
    actors = tuple(
        ActorSpec(
            name,
            "peer",
            {
                "parent": parents.get(name, ""),
                "children": below,
                "lead": name == root,
                "in_turn": in_turn,
            },
        )
        for name, below in children.items()
    )
    topology = Topology("none", actors, tuple(parents.items()), root)
    placement = Placement(topology, tuple(ProcessSpec(name, name, (name,)) for name in children))
    journal = run_virtual(simulate(placement, {"peer": Peer}, network=network))
    summed = next(
        at for at, actor, event, _ in journal.entries if (actor, event) == (root, "summed")
    )
    return summed, max(at for at, _, event, _ in journal.entries if event == "done")


def star(p: int) -> dict[str, list[str]]:
    names = [f"w{rank}" for rank in range(p)]
    return {"server": names, **{name: [] for name in names}}


def binomial(p: int) -> dict[str, list[str]]:
    """A binomial tree. Rank r receives from r + 1, r + 2, r + 4, ... below its own lowest bit."""
    steps = [1 << step for step in range(int(math.log2(p)))]
    return {
        f"w{rank}": [f"w{rank + step}" for step in steps if rank % (2 * step) == 0]
        for rank in range(p)
    }


def interfaces(names: Any) -> InprocNetwork:
    return InprocNetwork(1e-4, RATE, {name: name for name in names})


@pytest.mark.parametrize("p", [2, 4, 8, 16, 32])
def test_a_server_takes_as_long_as_equation_3_for_either_direction(p: int) -> None:
    inward, both = exchange(star(p), interfaces(star(p)))
    assert inward == pytest.approx(p * SIZE / RATE, rel=0.01)
    assert both - inward == pytest.approx(p * SIZE / RATE, rel=0.01)


@pytest.mark.parametrize("p", [2, 4, 8, 16, 32])
def test_a_binomial_tree_takes_as_long_as_equation_4_up_and_down(p: int) -> None:
    up, both = exchange(binomial(p), interfaces(binomial(p)), in_turn=True)
    assert up == pytest.approx(math.log2(p) * SIZE / RATE, rel=0.01)
    assert both == pytest.approx(2 * math.log2(p) * SIZE / RATE, rel=0.01)


def test_a_tree_that_sends_to_all_children_at_once_is_later_down_than_the_formula() -> None:
    up, both = exchange(binomial(8), interfaces(binomial(8)))
    # the formula has 3 here; with a shared rate the levels take 3, 2 and 1
    assert both - up == pytest.approx((3 + 2 + 1) * SIZE / RATE, rel=0.01)


def test_with_a_rate_for_each_link_a_server_of_32_would_seem_as_fast_as_one_of_2() -> None:
    inward, _ = exchange(star(32), InprocNetwork(1e-4, RATE))
    assert inward == pytest.approx(SIZE / RATE, rel=0.01)
