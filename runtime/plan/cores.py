"""The threads and cores of a process, which only its machine can determine. They are chosen when
the process starts."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from runtime.errors import LaunchError
from runtime.plan.topology import Placement, ProcessSpec


def settled(spec: ProcessSpec, placement: Placement, cores: Sequence[int]) -> ProcessSpec:
    """Return the process with its number of threads and, if it is pinned, with its cores. `cores`
    are the cores that the machine lets it use. They may be too few; `check` reports that."""
    threads = spec.threads or max(1, len(cores) // _crowd(spec, placement))
    mine = (
        spec.cores
        if spec.first_core is None
        else tuple(cores[spec.first_core : spec.first_core + threads])
    )
    return dataclasses.replace(spec, threads=threads, cores=mine)


def free(spec: ProcessSpec, placement: Placement, cores: Sequence[int]) -> int:
    """Return how many of these cores a process returned by `settled` has left for threads that do
    not compute: the rest of its share of the machine, or none if it is pinned."""
    return 0 if spec.cores else max(0, len(cores) // _crowd(spec, placement) - spec.threads)


def _crowd(spec: ProcessSpec, placement: Placement) -> int:
    """The number of processes that share the cores of the process's machine."""
    return spec.crowd or sum(other.machine == spec.machine for other in placement.processes)


def check(spec: ProcessSpec, cores: Sequence[int]) -> None:
    """Raise LaunchError if a process returned by `settled` was planned for cores that its machine
    does not have."""
    if spec.first_core is not None and len(spec.cores) < spec.threads:
        wanted = f"{spec.threads} of its cores from number {spec.first_core} on"
        text = f"machine '{spec.machine}': process '{spec.name}' is pinned to {wanted}"
        raise LaunchError(f"{text}, counted from 0, but the machine has {len(cores)}")
