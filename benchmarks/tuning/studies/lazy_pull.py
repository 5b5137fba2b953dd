"""The part `lazy-pull` of `tuning`: workers that pull each layer when they need it, compared with
workers that pull the whole model at once (Omnivore, D.1.2: some 20 % fewer iterations).

A worker of Convoy asks for a layer while it computes the layer below. The other way is to ask for
the whole model as soon as the worker's own gradients are in it, and to begin with all of it: then
more updates of other workers come between the read of an upper layer and its gradient. Both ways
have the momentum and rate that are best for the first, with as many groups as workers. The trials
are kept, so a part that was cut off goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
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

SEEDS = 3
NEAR = 0.95  # a smaller difference is noise of so few seeds
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


def lazy_pull(record: Record, cycles: int) -> None:
    """Measure the part. `cycles` is not used."""
    del cycles
    with digits(ITERATIONS, LOSS) as task:
        results = kept("lazy_pull", "fc_phase")
        layer, whole = (
            on_virtual_clock(task, WORKERS, GIGABITS, results, but=but, prepared=prepared)
            for but, prepared in (("", None), ("the whole model at once", at_once))
        )
        compare(record, layer, whole)
        record.facts |= whole.source


def compare(record: Record, layer: Trials, whole: Trials) -> None:
    """Record both ways with each kind of staleness, and their ratios."""
    task = layer.task
    rates = [float(f"{task.usual * factor:g}") for factor in FACTORS]
    columns = "momentum", "base_lr", "ms an iteration", "iterations", "seconds", "least", "most"
    title = f"{task.name} to {task.target}, {layer.workers} groups of a worker, {layer.where}"
    record.table(title, "stale, pulled", *columns, "seeds")
    ratios = {}
    for stale, preset in STALE.items():
        grid = Grid(layer, MOMENTA, rates, FEW, preset)
        grid.search(layer.workers)
        best = grid.bests[layer.workers]
        lazy, eager = (of.repeated(best, SEEDS, preset=preset) for of in (layer, whole))
        row(record, f"{stale}, layer by layer", best, lazy)
        row(record, f"{stale}, whole", best, eager)
        ratios[stale] = (iterations(eager) / iterations(lazy), eager.pace / lazy.pace)
    record.table("Whole / layer by layer", "stale", "iterations", "ms an iteration")
    for stale, (more, slower) in ratios.items():
        record.row(stale, more, slower)
    for stale, (more, slower) in ratios.items():
        record.judge(f"{stale}, whole / layer by layer: iterations", more, least=NEAR)
        record.judge(f"{stale}, whole / layer by layer: ms an iteration", slower, least=NEAR)
