"""Processes that may stay away, and machines that are tried again until they are back."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

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
    """A machine that is back after some seconds. Its processes take a second to start."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds
        self.tried: list[float] = []
        self.started: list[float] = []
        self.rejoining = Rejoining(self.ready, self.start)

    async def ready(self, name: str) -> None:
        now = asyncio.get_running_loop().time()
        self.tried.append(now)
        if now < self.seconds:
            raise Absent(name, " is away")
        await asyncio.sleep(1)

    async def start(self, name: str) -> None:
        await asyncio.sleep(1)
        self.started.append(asyncio.get_running_loop().time())


def test_a_lost_machine_is_tried_with_longer_and_longer_pauses_until_it_is_back() -> None:
    async def main() -> tuple[Machine, str]:
        machine = Machine(300)
        machine.rejoining.lost("laptop")
        machine.rejoining.lost("laptop")
        await asyncio.sleep(1000)
        await machine.rejoining.close()
        return machine, repr(machine.rejoining)

    machine, shown = run_virtual(main())
    assert shown == "<lost machines: none>"
    first, *_ = machine.tried
    pauses: list[Any] = [b - a for a, b in zip(machine.tried, machine.tried[1:], strict=False)]
    assert first == FIRST_SECONDS
    assert pauses == sorted(pauses)
    assert max(pauses) == MOST_SECONDS
    assert 300 <= machine.tried[-1] <= 300 + MOST_SECONDS
    assert len(machine.started) == 1


def test_a_machine_that_leaves_is_tried_no_longer() -> None:
    async def main() -> Machine:
        machine = Machine(300)
        machine.rejoining.lost("laptop")
        await asyncio.sleep(FIRST_SECONDS + 1)
        await machine.rejoining.let_go("laptop")
        await asyncio.sleep(1000)
        await machine.rejoining.close()
        return machine

    assert len(run_virtual(main()).tried) == 1


def test_two_people_who_bring_a_machine_back_at_once_wait_for_one_attempt() -> None:
    async def main() -> Machine:
        machine = Machine()
        await asyncio.gather(*(machine.rejoining.at_once("laptop") for _ in range(2)))
        return machine

    machine = run_virtual(main())
    assert machine.tried == [0.0]
    assert machine.started == [2.0]


@pytest.mark.parametrize(("after", "started"), [(0.5, []), (1.5, [2.0])])
def test_a_machine_that_leaves_while_it_comes_back_has_no_process_that_is_half_started(
    after: float, started: list[float]
) -> None:
    async def main() -> tuple[Machine, BaseException | None]:
        machine = Machine()
        asked = asyncio.create_task(machine.rejoining.at_once("laptop"))
        await asyncio.sleep(after)
        await machine.rejoining.let_go("laptop")
        assert machine.started == started
        await asyncio.wait([asked])
        await asyncio.sleep(100)
        return machine, asked.exception()

    machine, error = run_virtual(main())
    assert machine.started == started
    assert str(error) == "machine 'laptop' was let go before it was back"


def test_a_lost_machine_that_a_person_tries_in_vain_is_tried_on() -> None:
    async def main() -> Machine:
        machine = Machine(20)
        machine.rejoining.lost("laptop")
        with pytest.raises(Absent, match="machine 'laptop' is away"):
            await machine.rejoining.at_once("laptop")
        await asyncio.sleep(1000)
        await machine.rejoining.close()
        return machine

    assert len(run_virtual(main()).started) == 1
