"""The shares of a batch on which a run settles that cuts batches by measured speeds, predicted from
the times of its work."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from roles.base.shapes import Shapes
from roles.forecasting.costs import loads_of
from roles.forecasting.plan_forecast import plainly
from roles.forecasting.work_times import Times
from roles.learning.batch_split import Cutting
from runtime.plan.topology import Placement

MOST_ROUNDS = 20  # a speed depends on the rows, and the rows on the speeds


def settled(placement: Placement, times: Times) -> Placement:
    """The placement with the speeds that its workers will have, where a batch is cut by them. The
    same placement if batches are cut otherwise, or if a worker's time is not known."""
    for _ in range(MOST_ROUNDS):
        topology = placement.topology
        shapes = Shapes(plainly(topology))
        cutting = getattr(shapes.options[topology.lead], "shares", None)
        if not isinstance(cutting, Cutting) or not cutting.in_proportion or cutting.micro_batches:
            return placement
        workers = [name for members in shapes.groups if len(members) > 1 for name in members]
        speeds = _speeds(workers, shapes, times)
        if not workers or len(speeds) < len(workers):
            return placement
        found = _with(placement, dataclasses.replace(cutting, expected=tuple(speeds.items())))
        after = Shapes(found.topology)
        same = all(shapes.rows(name) == after.rows(name) for name in workers)
        placement = found
        if same:
            break
    return placement


def _speeds(workers: list[str], shapes: Shapes, times: Times) -> Mapping[str, float]:
    """Rows per second of each worker, as far as its times are known."""
    roles = {actor.name: actor.role for actor in shapes.topology.actors}
    loads = loads_of(shapes)
    found = {}
    for name in workers:
        seconds = sum(
            times.mean(name, roles[name], load.label, load.rows) for load in loads.get(name, ())
        )
        if seconds > 0:
            found[name] = shapes.rows(name) / seconds
    return found


def _with(placement: Placement, cutting: Cutting) -> Placement:
    topology = placement.topology
    actors = tuple(
        dataclasses.replace(actor, options=dataclasses.replace(actor.options, shares=cutting))
        if actor.name == topology.lead
        else actor
        for actor in topology.actors
    )
    return dataclasses.replace(placement, topology=dataclasses.replace(topology, actors=actors))
