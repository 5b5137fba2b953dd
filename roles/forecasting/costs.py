"""The time of array work, calculated from the work's `Load`: on a machine whose FLOP/s are known,
or whose layers were timed.

Both kinds of times are given as a profile, the table that emulated devices take and that runs write
(`runtime.compute.service_times`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from nets import Net
from nets.tools.volumes import volumes
from roles.base.loads import Load
from roles.base.role import PredictionOptions
from roles.base.shapes import Shapes

Seconds = Callable[[Load], float]
Both = tuple[float, float]  # forward, backward
NO_OTHERS: Mapping[str, Seconds] = MappingProxyType({})


class ByFlops:
    """The times on a machine whose layers reach `achieved` FLOP/s.

    Only matrix products take time, as `nets.tools.volumes` counts them. ReLU, pooling, updates,
    sums and copies take none.
    """

    def __init__(self, net: Net, achieved: float) -> None:
        found = volumes(net)
        self._rate = achieved * found.batch
        self._flops = {layer.name: (layer.forward, layer.backward) for layer in found.layers}

    def seconds(self, load: Load) -> float:
        """Seconds of one piece of work."""
        forward = sum(self._flops[layer][0] for layer in load.forward)
        backward = sum(self._flops[layer][1] for layer in load.backward)
        return load.share * load.rows * (forward + backward) / self._rate


def copied(load: Load) -> float:
    """Bytes that one piece of work copies between a device and host memory."""
    return load.copied


@dataclass(frozen=True)
class Timed:
    """The times on a machine where they were measured.

    `layers`: seconds of each layer, forward and backward, for one or more numbers of rows.
    `updates`: seconds of each layer's update. `adding`: seconds of adding one number to another.
    """

    layers: Mapping[int, Mapping[str, Both]]
    updates: Mapping[str, float]
    adding: float

    def seconds(self, load: Load) -> float:
        """Seconds of one piece of work. A number of rows that was not measured takes the time of
        the nearest one, in proportion."""
        rows = min(self.layers, key=lambda known: abs(known - load.rows))
        known = self.layers[rows]
        passes = sum(known[layer][0] for layer in load.forward) + sum(
            known[layer][1] for layer in load.backward
        )
        updates = sum(self.updates[layer] for layer in load.updated)
        return load.share * (passes * load.rows / rows + updates) + load.added * self.adding


def loads_of(shapes: Shapes) -> dict[str, list[Load]]:
    """Actor -> its pieces of work in an iteration, for the actors whose options declare them."""
    said = {
        name: list(options.loads(name, shapes))
        for name, options in shapes.options.items()
        if isinstance(options, PredictionOptions)
    }
    return {name: loads for name, loads in said.items() if loads}


def profile(
    shapes: Shapes, seconds: Seconds, of: Mapping[str, Seconds] = NO_OTHERS
) -> dict[str, Any]:
    """The profile of a topology's actors: ROLE/LABEL -> mean and rows. ACTOR/LABEL where actors of
    a role differ. `of`: actor -> the times of its own device, in place of `seconds`."""
    roles = {actor.name: actor.role for actor in shapes.topology.actors}
    found: defaultdict[tuple[str, str], dict[str, dict[str, Any]]] = defaultdict(dict)
    for name, loads in loads_of(shapes).items():
        for label in dict.fromkeys(load.label for load in loads):
            found[roles[name], label][name] = _entry(
                [load for load in loads if load.label == label], of.get(name, seconds)
            )
    table: dict[str, Any] = {}
    for (role, label), entries in found.items():
        first, *others = entries.values()
        if all(_alike(first, other) for other in others):
            table[f"{role}/{label}"] = first
        else:
            table |= {f"{name}/{label}": entry for name, entry in entries.items()}
    return table


def _entry(loads: Iterable[Load], seconds: Seconds) -> dict[str, Any]:
    """The mean of the pieces with one label."""
    all_of = list(loads)
    mean = sum(map(seconds, all_of)) / len(all_of)
    return (
        {"mean": mean, "rows": rows}
        if (rows := max(load.rows for load in all_of))
        else {"mean": mean}
    )


def _alike(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """True if both entries give the same time for equal rows."""
    share = other.get("rows", 1) / one.get("rows", 1)
    return bool(abs(one["mean"] * share - other["mean"]) <= 1e-9 * other["mean"])
