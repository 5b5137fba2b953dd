"""The time of array work on this machine, measured layer by layer, for profiles and for the choice
of a preset.

No actor runs. Every layer of the net is timed with as many rows as the actors compute at once, and
also every update and a sum.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from nets import Net
from nets.tools.timing import LayerTime, taken, time_net
from roles.base.shapes import Shapes
from roles.forecasting.costs import Timed, profile
from roles.learning.buffers import gradient_buffers
from roles.learning.job import Job
from roles.learning.parameter_store import ParameterStore
from roles.learning.working_nets import fix
from roles.messages import TRAIN

# work that is not timed: data, start and end
UNTIMED = ("read", "build", "sweep", "write checkpoint", "state", "mean")
MOST_ADDED = 1 << 23  # numbers of a timed sum: they exceed every cache; more would take memory
NO_OTHERS: Mapping[str, Timed] = MappingProxyType({})
ENOUGH_SECONDS = 0.3  # of all passes with one number of rows
LONG_SECONDS = 2.0  # of one pass
MOST_PASSES = 10


def timed(job: Job, rows: Iterable[int], iterations: int) -> Timed:
    """Time all layers with each number of rows. Each time is the mean of `iterations` passes."""
    return _timed(
        job, sorted({*rows}), partial(time_net, iterations=iterations), iterations, math.inf
    )


def timed_quickly(job: Job, rows: Iterable[int]) -> Timed:
    """The same within some tenths of a second for each number of rows, if the net is fast enough.

    If passes with a number of rows would take long, only the smallest number of rows is timed. The
    others are calculated in proportion.
    """
    return _timed(job, sorted({*rows}), _quickly, 1, LONG_SECONDS)


def _timed(
    job: Job,
    rows: list[int],
    passes: Callable[..., tuple[LayerTime, ...]],
    iterations: int,
    longest: float,
) -> Timed:
    """Time layers, updates and sums. A pass that would take `longest` seconds is left out, unless
    it is the first."""
    job = dataclasses.replace(job)  # its backend is released with this copy
    layers = {}
    shapes = job.shapes(TRAIN, job.source(TRAIN))
    wait = waiting(job)
    net = None
    second = 0.0  # seconds of a pass, for each row
    for many in rows:
        if net is None or many * second < longest:
            net = dataclasses.replace(job, batch=many).build(TRAIN, "all", shapes)
            fix(net, job)
            found = passes(net, synchronize=wait)
            second = _seconds(found) / many
            layers[many] = {one.name: (one.forward, one.backward) for one in found}
    assert net is not None
    params = job.learned(net.params)
    store = ParameterStore(
        params, net.initial_blobs(), job.solver_spec, job.backend_ops, in_place=True
    )
    updates: dict[str, float] = {}
    for layer, gradients in gradient_buffers(net).items():
        for array in gradients:
            array[...] = 0  # the memory may hold values that are not numbers
        updates[layer] = taken(
            partial(store.apply, layer, gradients), iterations=iterations, synchronize=wait
        )
    size = min(
        MOST_ADDED,
        max((blob.size for of in net.initial_blobs().values() for blob in of), default=1),
    )
    one, other, into = (np.zeros(size, job.dtype) for _ in range(3))
    adding = taken(lambda: job.host_ops.add_all([one, other], into), iterations=iterations) / size
    return Timed(layers, updates, adding)


def _quickly(net: Net, synchronize: Callable[[], object]) -> tuple[LayerTime, ...]:
    found = time_net(net, iterations=1, synchronize=synchronize)
    more = int(min(MOST_PASSES, ENOUGH_SECONDS / max(_seconds(found), 1e-9)))
    return time_net(net, iterations=more, warmup=0, synchronize=synchronize) if more > 1 else found


def _seconds(found: Iterable[LayerTime]) -> float:
    return sum(one.forward + one.backward for one in found)


def table_of(shapes: Shapes, times: Timed, of: Mapping[str, Timed] = NO_OTHERS) -> dict[str, Any]:
    """The profile of a topology's actors. `of`: actor -> the times on its own device, in place of
    `times`."""
    own = {name: timed.seconds for name, timed in of.items()}
    table: dict[str, Any] = {
        key: _rounded(entry) for key, entry in profile(shapes, times.seconds, own).items()
    }
    return table | {f"*/{label}": 0 for label in UNTIMED}


def _rounded(entry: dict[str, Any]) -> dict[str, Any]:
    return entry | {"mean": float(f"{entry['mean']:.4g}")}


def waiting(job: Job) -> Callable[[], object]:
    """The function that waits for the job's device, so that the clock may be read."""
    return (lambda: None) if job.device == "cpu" else job.backend_ops.synchronize
