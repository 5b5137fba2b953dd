"""The machines of a placed topology with islands, as the prediction of their worth takes them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from roles.base.shapes import Shapes
from roles.base.steps import Sending, Step, Turn, Work
from roles.forecasting.island_periods import VARIATION, IslandMachine, IslandRun
from roles.forecasting.plan_forecast import plainly
from roles.forecasting.prediction import Network
from roles.forecasting.prediction_basis import PredictionInputs
from roles.forecasting.work_times import Times
from roles.learning.local_steps import LEAST_SECONDS
from runtime.plan.topology import Placement, Topology

MOST_SECONDS = 1e12  # of an iteration


class Home(NamedTuple):
    """The machines with islands, the facts that they share, and machine -> the ranks of its
    islands. `linked`: the times of exchanges are counted."""

    machines: list[IslandMachine]
    run: IslandRun
    ranks: dict[str, list[int]]
    linked: bool = True

    @property
    def known(self) -> bool:
        """Whether the seconds of all islands are known, and are such that a speed follows."""
        every = (each for machine in self.machines for each in machine.seconds)
        return all(LEAST_SECONDS <= each <= MOST_SECONDS for each in every)

    @property
    def compares(self) -> bool:
        """Whether there are several machines whose worth can be predicted."""
        return len(self.machines) > 1 and self.known


def outer_server_of(topology: Topology) -> str:
    """The name of the outer server. "" for a topology without islands."""
    return next((one.name for one in topology.actors if hasattr(one.options, "islands")), "")


def home_of(placement: Placement, basis: PredictionInputs | None) -> Home:
    """The home of a topology that has an outer server.

    Without a `basis`, the speeds are those that cluster.toml gives the islands, equal ones without
    them, and the links are not counted.
    """
    topology = placement.topology
    shapes = Shapes(plainly(topology))
    outer = outer_server_of(topology)
    islands: tuple[str, ...] = shapes.options[outer].islands
    network = Network() if basis is None else basis.network(placement)
    on = _machines_of(islands, placement, network)
    ranks = {name: [islands.index(island) for island in mine] for name, mine in on.items()}
    (server,) = _machines_of((outer,), placement, network)
    (lead,) = _machines_of((topology.lead,), placement, network)
    run = replace(_run(topology, outer, server), led_apart=lead != server)
    if basis is None:
        speeds = run.local.speeds or (1.0,) * len(islands)
        bare = [
            IslandMachine(name, tuple(1 / speeds[rank] for rank in mine))
            for name, mine in ranks.items()
        ]
        # the unit of speeds is not known, so neither is a part of a period
        grace = None if run.grace is None else 0.0
        return Home(bare, replace(run, grace=grace), ranks, linked=False)
    asked = _Asked(shapes, basis.times(placement))
    process = placement.process_of()
    devices = {name: network.devices.get(process[name], process[name]) for name in islands}
    crowds = Counter(devices.values())

    def linked(name: str, actor: str, mine: Sequence[str]) -> IslandMachine:
        interface = network.interfaces.get(process[actor], process[actor])
        return IslandMachine(
            name,
            tuple(asked.iteration(island) * crowds[devices[island]] for island in mine),
            asked.bytes(actor, actor) if mine else 0.0,
            asked.bytes(outer, actor) if mine else 0.0,
            network.delay((interface,)),
            network.rate(interface),
            (asked.variation(mine[0]) if mine else 0.0) or VARIATION,
        )

    run = replace(
        run,
        work=asked.exchange(islands[0]),
        merge=asked.merge(outer),
        apart=None if server in on else linked(server, outer, ()),
    )
    return Home([linked(name, mine[0], mine) for name, mine in on.items()], run, ranks)


def _machines_of(
    actors: Iterable[str], placement: Placement, network: Network
) -> dict[str, list[str]]:
    """Machine -> the actors on it. Where each process has an interface of its own, as on the
    virtual clock, it counts as a machine with the name of its interface."""
    process = placement.process_of()
    machine = {spec.name: spec.machine for spec in placement.processes}
    on: defaultdict[str, list[str]] = defaultdict(list)
    for name in actors:
        at = process[name]
        own = network.limited and at not in network.interfaces
        on[at if own else machine[at]].append(name)
    return dict(on)


def _run(topology: Topology, outer: str, server: str) -> IslandRun:
    said = {actor.name: actor.options for actor in topology.actors}
    lead = said[topology.lead]
    return IslandRun(
        iterations=max(1, lead.timetable.last - lead.timetable.first),
        local=lead.local,
        grace=said[outer].grace,
        overlaps=said[said[outer].islands[0]].overlaps,
        server=server,
    )


class _Asked:
    """The seconds and bytes of single islands."""

    def __init__(self, shapes: Shapes, times: Times) -> None:
        self._shapes = shapes
        self._times = times
        self._roles = {actor.name: actor.role for actor in shapes.topology.actors}

    def iteration(self, island: str) -> float:
        """Seconds of an iteration."""
        return self._seconds(island, Turn((island,), 0, 2))

    def variation(self, island: str) -> float:
        """The squared coefficient of variation of the seconds of an iteration."""
        role = self._roles[island]
        spread = 0.0
        for work in self._works(island, Turn((island,), 0, 2)):
            if found := self._times.moments(island, role, work.label, work.rows):
                spread += found.variation * found.mean**2
        square = self.iteration(island) ** 2
        return spread / square if square else 0.0

    def exchange(self, island: str) -> float:
        """Seconds of encoding a gain and decoding an answer."""
        return self._seconds(island, Turn((island,), 0, 1)) - self.iteration(island)

    def merge(self, outer: str) -> float:
        """Seconds of an outer step."""
        return self._seconds(outer, Turn(self._shapes.options[outer].islands[:1], 0, 1))

    def bytes(self, sender: str, island: str) -> float:
        """Bytes of the messages of an exchange with this island. 0 if they depend on the
        numbers."""
        steps = self._steps(sender, Turn((island,), 0, 1))
        return float(sum(one.does.size or 0 for one in steps if isinstance(one.does, Sending)))

    def _seconds(self, actor: str, turn: Turn) -> float:
        role = self._roles[actor]
        works = self._works(actor, turn)
        return sum(self._times.mean(actor, role, work.label, work.rows) for work in works)

    def _works(self, actor: str, turn: Turn) -> list[Work]:
        return [one.does for one in self._steps(actor, turn) if isinstance(one.does, Work)]

    def _steps(self, actor: str, turn: Turn) -> list[Step]:
        options = self._shapes.options[actor]
        if getattr(options, "speeds", ()):
            options = replace(options, speeds=())  # all of a ticket is for this island
        return list(options.steps(actor, self._shapes, turn))
