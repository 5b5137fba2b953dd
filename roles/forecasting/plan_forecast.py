"""The forecast that `plan` shows of a topology of training roles: the memory of each actor and the
bytes on each link."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from typing import Any

from roles.base.role import Held, MemoryOptions, TuningOptions
from roles.base.shapes import Shapes
from roles.base.sizes import HOST
from roles.forecasting.regrouped import at_largest, regrouped
from roles.forecasting.traffic import traffic_of
from runtime.plan.forecast import Forecast
from runtime.plan.topology import ActorSpec, Topology


def forecast(topology: Topology) -> Forecast:
    """Memory, and traffic per training iteration, as far as the roles declare them, for the largest
    batch."""
    largest = at_largest(topology)
    shapes = Shapes(largest)
    step = "iteration"
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
    here = {actor.name for actor in plain.actors if computes_here(actor)}
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
    if any(getattr(options.shares, "expected", ()) for options in shapes.having("shares").values()):
        cuts = [shapes.cuts(members[0]) for members in shapes.groups if members]
        rows = "; ".join(
            ", ".join(str(high - low) for low, high in itertools.pairwise(of)) for of in cuts
        )
        yield (
            "each group's workers get rows by the kinds of their machines, and by measured speeds "
            f"as soon as the run has them: {rows}"
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
    return actor.emulated is None and (job is None or job.device == "cpu")


def footprint(shapes: Shapes) -> dict[str, Held]:
    """Actor -> purpose -> bytes of arrays. Actors that hold next to nothing, or do not declare it,
    are left out."""
    said = {
        name: options.holds(name, shapes)
        for name, options in shapes.options.items()
        if isinstance(options, MemoryOptions)
    }
    return {name: held for name, held in said.items() if held}
