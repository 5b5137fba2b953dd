"""The forecast that `plan` shows of a topology of training roles: the memory of each actor and the
bytes on each link."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from typing import Any

from roles.base.role import Held, MemoryOptions, PredictionOptions, TuningOptions
from roles.base.shapes import Shapes
from roles.base.steps import Key, Sending, Turn
from roles.forecasting.regrouped import at_largest, regrouped
from roles.forecasting.traffic import traffic_of
from roles.messages import ActivationGrads, LayerModel
from runtime.memory.device_arena import room_for
from runtime.plan.forecast import HOST, Forecast
from runtime.plan.topology import ActorSpec, Topology

FOR_PROCESSES = "memory for other processes"  # the purpose of these bytes
OF_EACH = ActivationGrads.__name__  # each receiver gets rows of its own
VERSIONED = LayerModel.__name__  # a reader may hold the version before
VERSIONS = 2


def forecast(topology: Topology) -> Forecast:
    """Memory, and traffic per training iteration, as far as the roles declare them, for the largest
    batch. Where models are exchanged after several iterations, it is the traffic of the last of
    them."""
    largest = at_largest(topology)
    shapes = Shapes(largest)
    exchanges = any(options.period > 1 for options in shapes.having("period").values())
    step = "iteration with an exchange" if exchanges else "iteration"
    if largest is not topology:
        step += (
            f" of the largest batch, {next(iter(shapes.having('job').values())).job.batch} images"
        )
    return Forecast(memory=footprint(shapes), traffic=traffic_of(shapes), step=step)


def memory(topology: Topology) -> dict[str, int]:
    """Actor -> the least number of bytes that it holds in this machine's memory.

    The numbers are for the largest batch, and for the grouping, of those that a tuner may try, in
    which the actor holds most. They are calculated in a tenth of a second, without the kernels'
    compiler. Actors that compute on another device, a GPU or an emulated one, are left out, except
    for the arrays that an actor on a GPU holds in host memory.
    """
    plain = at_largest(plainly(topology))
    here = {actor.name for actor in plain.actors if computes_here(actor)} - plain.gpus.keys()
    found: dict[str, int] = {}
    for tried in (plain, *_in_most_groups(plain)):
        for name, parts in footprint(Shapes(tried)).items():
            held = sum(
                size
                for what, size in parts.items()
                if what.endswith(HOST) or (name in here and what != "scratch")
            )
            if held:
                found[name] = max(held, found.get(name, 0))
    return found


def decided(topology: Topology) -> tuple[str, ...]:
    """The way of sums from host to host, where there are several. The groups and shares that follow
    from kinds of machines. The momentum, where the preset lowers the solver's. The decisions that
    the topology names."""
    exchanges = [
        getattr(getattr(actor.options, "exchange", None), "options", None)
        for actor in topology.actors
    ]
    said = dict.fromkeys(told for options in exchanges if (told := getattr(options, "told", "")))
    (lead,) = (actor.options for actor in topology.actors if actor.name == topology.lead)
    compensation = getattr(lead, "compensation", None)
    momentum = compensation.told(len(lead.groups)) if compensation is not None else ""
    return (
        *said,
        *_by_kinds(topology),
        *([momentum] if momentum else []),
        *topology.decided,
    )


def _by_kinds(topology: Topology) -> Iterator[str]:
    shapes = Shapes(topology)
    shares = [options.shares for options in shapes.having("shares").values()]
    shared = any(len(members) > 1 for members in shapes.groups)
    if not shared or not any(getattr(one, "in_proportion", False) for one in shares):
        return
    cuts = [shapes.cuts(members[0]) for members in shapes.groups if members]
    rows = "; ".join(
        ", ".join(str(high - low) for low, high in itertools.pairwise(of)) for of in cuts
    )
    known = any(one.expected for one in shares)
    by = "rows by the kinds of their machines" if known else "equal rows at first"
    yield (
        f"each group's workers get {by}, and by measured speeds as soon as the run has them: {rows}"
    )


def _in_most_groups(topology: Topology) -> Iterator[Topology]:
    """The topology with the most groups that a tuner may make: then every worker has the most
    rows."""
    told = [actor.options for actor in topology.actors if isinstance(actor.options, TuningOptions)]
    if most := max((options.most_groups for options in told), default=0):
        yield regrouped(topology, most, most)


def plainly(topology: Topology) -> Topology:
    """The same topology without the kernels' compiler. Shapes and sizes are the same."""
    actors = [
        dataclasses.replace(actor, options=_with_numpy(actor.options)) for actor in topology.actors
    ]
    return dataclasses.replace(topology, actors=tuple(actors))


def _with_numpy(options: Any) -> Any:
    job = getattr(options, "job", None)
    return (
        options
        if job is None
        else dataclasses.replace(options, job=dataclasses.replace(job, kernels="numpy"))
    )


def computes_here(actor: ActorSpec) -> bool:
    """Return whether the actor computes on the CPU of its machine, not on a device."""
    job = getattr(actor.options, "job", None)
    return actor.emulated is None and not actor.gpu and (job is None or job.device == "cpu")


def footprint(shapes: Shapes) -> dict[str, Held]:
    """Actor -> purpose -> bytes of arrays. Actors that hold next to nothing, or do not declare it,
    are left out."""
    said = {
        name: options.holds(name, shapes)
        for name, options in shapes.options.items()
        if isinstance(options, MemoryOptions)
    }
    for name, size in shared_memory(shapes).items():
        said[name] = said.get(name, {}) | {FOR_PROCESSES: size}
    return {name: held for name, held in said.items() if held}


def shared_memory(shapes: Shapes) -> dict[str, int]:
    """Actor -> bytes that it allocates on its GPU for arrays that other processes read there
    (`runtime.memory.device_arena`).

    An array counts once, whatever the number of its readers, and until all arrays of an iteration
    are made. Parameters count twice, since the version before may still be read. A reader that
    drops arrays earlier lets their memory be used again, so a run may allocate less.
    """
    links = shapes.topology.device_links
    apart = {name: dict[Key, int]() for (name, _), shared in links.items() if not shared.together}
    for members in shapes.groups if apart else ():
        turn = Turn(tuple(members))
        for name, arrays in apart.items():
            for key, size in _shared(name, turn, shapes):
                arrays[key] = size
    return {
        name: room_for(
            size
            for (_, kind, *_), size in arrays.items()
            for _ in range(VERSIONS if kind == VERSIONED else 1)
        )
        for name, arrays in apart.items()
    }


def _shared(name: str, turn: Turn, shapes: Shapes) -> Iterator[tuple[Key, int]]:
    """Each array that the actor shares with another process in an iteration of these members: its
    key and its bytes."""
    options = shapes.options[name]
    links = shapes.topology.device_links
    steps = options.steps(name, shapes, turn) if isinstance(options, PredictionOptions) else ()
    for step in steps:
        if not isinstance(step.does, Sending) or not step.does.size:
            continue
        read = [shared for to in step.does.to if (shared := links.get((name, to)))]
        if any(not shared.together for shared in read):
            _, kind, *_ = step.name
            yield step.name if kind == OF_EACH else step.name[:3], step.does.size
