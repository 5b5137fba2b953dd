"""What only a machine knows: how many threads each of its processes gets, and which cores. Asked at
their start."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from runtime.errors import LaunchError
from runtime.plan.topology import Placement, ProcessSpec


def settled(spec: ProcessSpec, placement: Placement, cores: Sequence[int]) -> ProcessSpec:
    """The process with its threads, and with the cores that it stays on if it is pinned, on a
    machine that lets it use these `cores`. They can be too few, see `check`."""
    crowd = sum(other.machine == spec.machine for other in placement.processes)
    threads = spec.threads or max(1, len(cores) // crowd)
    mine = (
        spec.cores
        if spec.first_core is None
        else tuple(cores[spec.first_core : spec.first_core + threads])
    )
    return dataclasses.replace(spec, threads=threads, cores=mine)


def check(spec: ProcessSpec, cores: Sequence[int]) -> None:
    """LaunchError if a process that was `settled` was planned for cores that its machine has
    not."""
    if spec.first_core is not None and len(spec.cores) < spec.threads:
        wanted = f"{spec.threads} of its cores from number {spec.first_core} on"
        text = f"machine '{spec.machine}': process '{spec.name}' is pinned to {wanted}"
        raise LaunchError(f"{text}, counted from 0, but it has {len(cores)}")
