"""`check`: print the run that `up` would start from a cluster.toml, without starting it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from runtime.cli.arguments import Settings

if TYPE_CHECKING:
    from runtime.plan.topology import ProcessSpec


def check(file: Path = Path("cluster.toml"), *, settings: Settings = ()) -> int:
    """Read everything, plan and place the run, and start nothing. Each mistake is printed on one
    line.

    Parameters
    ----------
    file
        The cluster's description.
    """
    from runtime.machine import private
    from runtime.plan.placement import limited, unknown
    from runtime.report.console import Teller
    from runtime.runs.checking import check as check_config
    from runtime.runs.places import check_places

    checked = check_config(file, settings)
    check_places(checked.loaded.config)
    placement = checked.placement
    console = Teller()
    checked.tell(console)
    if text := private.doubts():
        console.warn(text)
    console.say(
        f"{file}: {len(placement.topology.actors)} actors in {len(placement.processes)} processes"
    )
    for spec in placement.processes:
        cores = f" on core {', '.join(map(str, spec.cores))}" if spec.cores else ""
        actors = ", ".join(spec.actors)
        console.say(f"  {spec.name:<14} on {spec.machine}, {_threads(spec)}{cores}: {actors}")
    for describe in (limited, unknown):
        if text := describe(placement, checked.loaded.config):
            console.say(text)
    return 0


def _threads(spec: ProcessSpec) -> str:
    if not spec.threads:
        return "BLAS threads as its cores allow; it counts them when it starts"
    after = f" after the machine's first {spec.first_core}" if spec.first_core else ""
    pinned = "" if spec.first_core is None else f", pinned to as many cores{after}"
    return f"{spec.threads} BLAS threads{pinned}"
