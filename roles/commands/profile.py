"""A profile of this machine for a plan: how long its actors' array work takes here, measured layer by layer.

No actor runs. Every layer of the net is timed with as many rows as the actors compute at once, every update and a sum;
what a role's work is made of (`RoleOptions.loads`) says how long it takes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from nets.tools.timing import taken, time_net
from roles.base.loads import Load
from roles.base.role import EMULATED
from roles.base.shapes import Shapes
from roles.commands.common import say, waiting
from roles.forecasting.costs import Timed, loads_of, profile
from roles.forecasting.outlook import plainly
from roles.learning.buffers import gradient_buffers
from roles.learning.job import Job
from roles.learning.parameter_store import ParameterStore
from roles.messages import TRAIN
from runtime.compute.service_times import as_text
from runtime.compute.threads import using
from runtime.errors import ConfigError
from runtime.plan.topology import Placement

# what is not in it: data, start and end
UNTIMED = ("read", "build", "sweep", "write checkpoint", "state", "mean")


def write(out: Path, placement: Placement, job: Job, iterations: int) -> None:
    """Time what the actors of `placement` do, on the device of `job`, with as many threads as those have that compute
    layers; write the profile. ConfigError."""
    if job.device == EMULATED:
        raise ConfigError([f"--profile {out}: devices are emulated, and compute nothing that could be timed"])
    shapes = Shapes(plainly(placement.topology))
    loads = loads_of(shapes)
    working = {name for name, of in loads.items() if any(load.rows for load in of)}
    threads = max(spec.threads for spec in placement.processes if working & {*spec.actors})
    with using(threads):
        timed = _timed(job, [load for of in loads.values() for load in of], iterations)
    table: dict[str, Any] = {key: _rounded(entry) for key, entry in profile(shapes, timed.seconds).items()}
    try:
        out.write_text(as_text(table | {f"*/{label}": 0 for label in UNTIMED}), "utf-8")
    except OSError as error:
        raise ConfigError([f"--profile {out}: cannot be written: {error.strerror}"]) from None
    rows = " and ".join(map(str, timed.layers))
    say(f"{out}: {len(table)} kinds of work, layers timed with {rows} rows and {threads} thread{'s'[: threads != 1]}")


def _timed(job: Job, loads: Iterable[Load], iterations: int) -> Timed:
    """Measure."""
    layers, shapes, wait = {}, job.shapes(TRAIN, job.source(TRAIN)), waiting(job)
    for rows in sorted({load.rows for load in loads if load.rows}):
        net = dataclasses.replace(job, batch=rows).build(TRAIN, "all", shapes)
        found = time_net(net, iterations=iterations, synchronize=wait)
        layers[rows] = {one.name: (one.forward, one.backward) for one in found}
    params = job.learned(net.params)
    store = ParameterStore(params, net.initial_blobs(), job.solver_spec, job.backend_ops, in_place=True)
    updates = {
        layer: taken(partial(store.apply, layer, gradients), iterations=iterations, synchronize=wait)
        for layer, gradients in gradient_buffers(net).items()
    }
    size = max((blob.size for of in net.initial_blobs().values() for blob in of), default=1)
    one, other, into = (np.zeros(size, job.dtype) for _ in range(3))
    adding = taken(lambda: job.host_ops.add_all([one, other], into), iterations=iterations) / size
    return Timed(layers, updates, adding)


def _rounded(entry: dict[str, Any]) -> dict[str, Any]:
    return entry | {"mean": float(f"{entry['mean']:.4g}")}
