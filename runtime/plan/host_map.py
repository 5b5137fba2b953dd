"""Which hosts a placed topology spans, who lives on each, and how many cores each has: what sums
are laid out by."""

from __future__ import annotations

import os
from dataclasses import dataclass

from runtime.config.sections import ClusterConfig, Machine
from runtime.plan.roads import is_far
from runtime.plan.topology import Placement

HERE = ""  # the name of the host where `up` was typed


@dataclass(frozen=True)
class Host:
    """One with processes: its `actors` in the order of the topology, and its cores (None: not known
    here)."""

    name: str
    actors: tuple[str, ...]
    cores: int | None = None


def host_of(machine: Machine) -> str:
    """What all machines of one host have in common, and no machine of another. Namespaces stand for
    hosts."""
    if not is_far(machine):
        return HERE
    if machine.namespace is not None:
        return f"namespace {machine.namespace}"
    return (machine.host or machine.name).rpartition("@")[2]


def several(config: ClusterConfig) -> bool:
    """Can a run have more than one host?"""
    return len({host_of(machine) for machine in config.machine}) > 1


def only_host(config: ClusterConfig) -> Host:
    """Of a run whose machines are one host, whoever will live there."""
    return Host(host_of(config.machine[0]), (), _cores(config, list(config.machine)))


def hosts_of(placement: Placement, config: ClusterConfig) -> tuple[Host, ...]:
    """Those with processes, in the order of the machines."""
    machine_of = {actor: spec.machine for spec in placement.processes for actor in spec.actors}
    machines: dict[str, list[Machine]] = {}
    for machine in config.machine:
        machines.setdefault(host_of(machine), []).append(machine)
    of = {machine.name: name for name, crowd in machines.items() for machine in crowd}
    actors: dict[str, list[str]] = {}
    for actor in placement.topology.actors:
        actors.setdefault(of[machine_of[actor.name]], []).append(actor.name)
    return tuple(
        Host(name, tuple(actors[name]), _cores(config, machines[name]))
        for name in machines
        if name in actors
    )


def _cores(config: ClusterConfig, machines: list[Machine]) -> int | None:
    """As its machines say, together; where one says nothing, those of this machine if that is
    it."""
    said = [machine.cores for machine in machines]
    if all(said):
        return sum(filter(None, said))
    return (os.cpu_count() or 1) if all(map(config.is_here, machines)) else None
