"""Processes that may stay away, and machines that are tried again until they are back."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from runtime.cluster.supervising.rejoining import FIRST_SECONDS, MOST_SECONDS, Rejoining
from runtime.cluster.supervising.revival import Revival
from runtime.errors import Absent
from runtime.plan.topology import ActorSpec, Placement, ProcessSpec, Topology
from runtime.simulation.clock import run_virtual


@dataclass(frozen=True)
class Options:
    restarts: int = 0
    optional: bool = False


def placed(**processes: list[tuple[str, Options]]) -> Placement:
    """A placement of these actors, by process. The first actor leads."""
    actors = [pair for pairs in processes.values() for pair in pairs]
    specs = tuple(ActorSpec(name, "worker", options) for name, options in actors)
    topology = Topology(__name__, specs, (), actors[0][0])
    made = tuple(
        ProcessSpec(name, "local", tuple(actor for actor, _ in pairs))
        for name, pairs in processes.items()
    )
    return Placement(topology, made)


MAY = Options(optional=True)


def test_optional_processes_may_stay_away_until_one_is_left() -> None:
    revival = Revival(
        placed(lead=[("lead", Options())], a=[("a", MAY)], b=[("b", MAY)], c=[("c", MAY)])
    )
    assert revival.may_stay_away("a", "b")
    assert not revival.may_stay_away("a", "b", "c")
    assert not revival.may_stay_away("lead")
    revival.stays_away("a")
    revival.stays_away("b")
    assert not revival.may_stay_away("c")
    assert revival.is_last("c")
    revival.comes_back("a")
    assert revival.may_stay_away("c")


def test_a_process_with_an_actor_that_is_not_optional_may_not_stay_away() -> None:
    mixed = [("a", MAY), ("server", Options())]
    revival = Revival(placed(lead=[("lead", Options())], mixed=mixed, b=[("b", MAY)]))
    assert not revival.may_stay_away("mixed")


class Machine:
    """A machine that is back after some seconds."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.tried: list[float] = []

    async def take_back(self, name: str) -> None:
        now = asyncio.get_running_loop().time()
        self.tried.append(now)
        if now < self.seconds:
            raise Absent(name, " is away")


def test_a_lost_machine_is_tried_with_longer_and_longer_pauses_until_it_is_back() -> None:
    machine = Machine(300)

    async def main() -> str:
        rejoining = Rejoining(machine.take_back)
        rejoining.lost("laptop")
        rejoining.lost("laptop")
        await asyncio.sleep(1000)
        await rejoining.close()
        return repr(rejoining)

    assert run_virtual(main()) == "<lost machines: none>"
    first, *_ = machine.tried
    pauses: list[Any] = [b - a for a, b in zip(machine.tried, machine.tried[1:], strict=False)]
    assert first == FIRST_SECONDS
    assert pauses == sorted(pauses)
    assert max(pauses) == MOST_SECONDS
    assert 300 <= machine.tried[-1] <= 300 + MOST_SECONDS


def test_a_machine_that_leaves_is_tried_no_longer() -> None:
    machine = Machine(300)

    async def main() -> None:
        rejoining = Rejoining(machine.take_back)
        rejoining.lost("laptop")
        await asyncio.sleep(FIRST_SECONDS + 1)
        rejoining.let_go("laptop")
        await asyncio.sleep(1000)
        await rejoining.close()

    run_virtual(main())
    assert len(machine.tried) == 1
