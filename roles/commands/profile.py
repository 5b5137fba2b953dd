"""A profile of this machine for a plan: the times of its actors' array work, measured here layer by
layer.

The contents of each role's work (`PredictionOptions.loads`) give its time.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

from nets import counted
from roles.base.role import EMULATED
from roles.base.shapes import Shapes
from roles.commands.common import say
from roles.forecasting.costs import loads_of
from roles.forecasting.layer_times import UNTIMED, table_of, timed
from roles.forecasting.plan_forecast import plainly
from roles.learning.job import Job
from runtime.compute.service_times import as_text
from runtime.compute.threads import using
from runtime.errors import ConfigError
from runtime.plan.topology import Placement
from runtime.reasons import reason


def write(
    out: Path, placement: Placement, job: Job, iterations: int, *, everywhere: bool = True
) -> None:
    """Time the array work of the actors of `placement`, each on its own device, and write the
    profile. With `everywhere` false all work is timed on the device of `job`.

    Layers are timed with the most threads that a process with such work has. Raises ConfigError.
    """
    if job.device == EMULATED:
        raise ConfigError(
            [(f"--profile {out}: devices are emulated, so there is no computation to time")]
        )
    shapes = Shapes(plainly(placement.topology))
    loads = loads_of(shapes)
    working = {name for name, of in loads.items() if any(load.rows for load in of)}
    threads = max(spec.threads for spec in placement.processes if working & {*spec.actors})
    own = {name: shapes.options[name].job.device for name in working} if everywhere else {}
    on = {name: own.get(name, job.device) for name in working}
    on = {name: job.device if device == EMULATED else device for name, device in on.items()}
    rows_on = {
        device: {load.rows for name in working if on[name] == device for load in loads[name]} - {0}
        for device in dict.fromkeys(on.values())
    }
    with using(threads):
        times = {
            device: timed(dataclasses.replace(job, device=device), rows, iterations)
            for device, rows in rows_on.items()
        }
    first, *_ = times.values()  # also for actors that only add up
    table = table_of(shapes, first, {name: times[device] for name, device in on.items()})
    try:
        out.write_text(as_text(table), "utf-8")
    except OSError as error:
        raise ConfigError([f"--profile {out}: cannot be written: {reason(error)}"]) from None
    with_rows = [
        " and ".join([*map(str, few), counted(last, "row")])
        + (f" on {device}" if len(times) > 1 else "")
        for device, found in times.items()
        for *few, last in [found.layers]
    ]
    kinds = len(table) - len(UNTIMED)
    say(
        f"{out}: {counted(kinds, 'kind')} of work, layers timed with {', '.join(with_rows)} and "
        f"{counted(threads, 'thread')}"
    )
