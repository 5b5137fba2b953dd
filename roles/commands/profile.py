"""A profile of this machine for a plan: the times of its actors' array work, measured here layer by
layer.

The contents of each role's work (`PredictionOptions.loads`) give its time.
"""

from __future__ import annotations

from pathlib import Path

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


def write(out: Path, placement: Placement, job: Job, iterations: int) -> None:
    """Time the array work of the actors of `placement` on the device of `job`, and write the
    profile.

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
    with using(threads):
        found = timed(
            job, {load.rows for of in loads.values() for load in of if load.rows}, iterations
        )
    table = table_of(shapes, found)
    try:
        out.write_text(as_text(table), "utf-8")
    except OSError as error:
        raise ConfigError([f"--profile {out}: cannot be written: {reason(error)}"]) from None
    rows = " and ".join(map(str, found.layers))
    kinds = len(table) - len(UNTIMED)
    say(
        f"{out}: {kinds} kinds of work, layers timed with {rows} rows and {threads} "
        f"thread{'s'[: threads != 1]}"
    )
