"""The part `lazy-pull` of `tuning`: workers that pull each layer when they need it, compared with
workers that pull the whole model at once (Omnivore, D.1.2: some 20 % fewer iterations), and with a
network on which large messages of a process leave one after the other.

A worker of Convoy asks for a layer while it computes the layer below. The other way is to ask for
the whole model as soon as the worker's own gradients are in it, and to begin with all of it: then
more updates of other workers come between the read of an upper layer and its gradient. Both ways
have the momentum and rate that are best for the first, with as many groups as workers.

Messages of one process to several others share its link, as TCP connections do. So groups that pull
at the same time get the model at the same time, and then send their gradients at the same time: the
link carries one direction at a time. `InTurn` gives the whole link to the oldest message instead.
The trials are kept, so a part that was cut off goes on.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from benchmarks.helpers.report import Record
from benchmarks.tuning.kept import Trials, on_virtual_clock
from benchmarks.tuning.runs import OMNIVORE, SINGA
from benchmarks.tuning.studies.fc_phase import FACTORS, GIGABITS, ITERATIONS, LOSS, MOMENTA, WORKERS
from benchmarks.tuning.studies.fc_phase import SEEDS as FEW
from benchmarks.tuning.studies.tasks import digits, iterations, kept
from benchmarks.tuning.tradeoff import Grid, row
from nets import Stage
from roles.messages import Blobs, Ticket
from roles.workers.conv import ConvCompute
from runtime import Actor
from runtime.transport.network_model import Route, Then

SEEDS = 3
NEAR = 0.95  # a smaller difference is noise of so few seeds
FAR = 1 / NEAR
STALE = {"conv layers": OMNIVORE, "all layers": SINGA}  # stale layers -> preset


class Whole:
    """Makes a worker pull all layers when it asks for the first of a pass, and wait for all."""

    def __init__(self, worker: Any) -> None:
        self._worker = worker
        self._pull = worker._pull
        self._asked: tuple[Ticket, asyncio.Future[list[Blobs]]] | None = None
        worker._pull = self.pull

    async def pull(self, stage: Stage, ticket: Ticket) -> Blobs:
        """The parameters of a stage's layer, once the whole model is there."""
        stages: Sequence[Stage] = self._worker._nets[ticket.phase].stages
        if self._asked is None or self._asked[0] is not ticket:
            asked = asyncio.gather(*(self._pull(each, ticket) for each in stages))
            self._asked = ticket, asked
        return (await self._asked[1])[stages.index(stage)]


def at_once(actors: Mapping[str, Actor]) -> None:
    """Make all workers pull the whole model at once."""
    for actor in actors.values():
        if isinstance(actor, ConvCompute):
            Whole(actor)


class InTurn(Route):
    """The route of one process to another for large messages. The routes of a process share a
    `line`: a message leaves when all messages before it in the line have arrived."""

    def __init__(self, route: Route, line: deque[tuple[Route, int, Then]]) -> None:
        self._route = route
        self._line = line

    def send(self, size: int, arrive: Then) -> None:
        """Send `size` bytes in turn. Calls `arrive` when they have arrived."""
        self._line.append((self._route, size, arrive))
        if len(self._line) == 1:
            self._begin()

    def _begin(self) -> None:
        route, size, arrive = self._line[0]
        route.send(size, partial(self._arrived, arrive))

    def _arrived(self, arrive: Then) -> None:
        self._line.popleft()
        if self._line:
            self._begin()
        arrive()


def in_turn(actors: Mapping[str, Actor]) -> None:
    """Make the large messages of each process leave in turn. Every actor has its own process."""
    for actor in actors.values():
        homes = actor._runtime.host.router._homes.values()
        line: deque[tuple[Route, int, Then]] = deque()
        for road in {home.road for home in homes}:
            for (_, lane), link in road._links.items():
                if lane == "bulk" and link.route is not None:
                    link.route = InTurn(link.route, line)


WHOLE = "Whole"
TURNS = "Layer by layer, in turn"
# way of the pulls -> how its trials differ from those of the way of Convoy
OTHERS = {WHOLE: ("the whole model at once", at_once), TURNS: ("messages in turn", in_turn)}


def lazy_pull(record: Record, cycles: int) -> None:
    """Measure the part. `cycles` is not used."""
    del cycles
    with digits(ITERATIONS, LOSS) as task:
        results = kept("lazy_pull", "fc_phase")
        layer, *others = (
            on_virtual_clock(task, WORKERS, GIGABITS, results, but=but, prepared=prepared)
            for but, prepared in (("", None), *OTHERS.values())
        )
        compare(record, layer, dict(zip(OTHERS, others, strict=True)))
        record.facts |= others[-1].source


def compare(record: Record, layer: Trials, others: Mapping[str, Trials]) -> None:
    """Record all ways with each kind of staleness, and their ratios."""
    task = layer.task
    rates = [float(f"{task.usual * factor:g}") for factor in FACTORS]
    columns = "momentum", "base_lr", "ms an iteration", "iterations", "seconds", "least", "most"
    title = f"{task.name} to {task.target}, {layer.workers} groups of a worker, {layer.where}"
    record.table(title, "stale, pulled", *columns, "seeds")
    ratios: dict[str, dict[str, tuple[float, float]]] = {way: {} for way in others}
    for stale, preset in STALE.items():
        grid = Grid(layer, MOMENTA, rates, FEW, preset)
        grid.search(layer.workers)
        best = grid.bests[layer.workers]
        lazy = layer.repeated(best, SEEDS, preset=preset)
        row(record, f"{stale}, layer by layer", best, lazy)
        for way, trials in others.items():
            other = trials.repeated(best, SEEDS, preset=preset)
            row(record, f"{stale}, {way.lower()}", best, other)
            ratios[way][stale] = (iterations(other) / iterations(lazy), other.pace / lazy.pace)
    for way, found in ratios.items():
        record.table(f"{way} / layer by layer", "stale", "iterations", "ms an iteration")
        for stale, (more, slower) in found.items():
            record.row(stale, more, slower)
    for stale, (more, slower) in ratios[WHOLE].items():
        record.judge(f"{stale}, whole / layer by layer: iterations", more, least=NEAR)
        record.judge(f"{stale}, whole / layer by layer: ms an iteration", slower, least=NEAR)
    for stale, (_, pace) in ratios[TURNS].items():
        record.judge(f"{stale}, in turn / at once: ms an iteration", pace, most=FAR)
