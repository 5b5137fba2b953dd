"""The hosts of a placed topology: the actors on each, and the number of its cores. Exchanges are
laid out by this map."""

from __future__ import annotations

from dataclasses import dataclass

from runtime.config.sections import ClusterConfig, Machine
from runtime.machine.usable_cores import usable
from runtime.plan.roads import is_far
from runtime.plan.topology import Placement

HERE = ""  # the name of the host where `up` runs


@dataclass(frozen=True)
class Host:
    """A host that runs processes. `actors` are in the order of the topology. `cores` is None if the
    number is not known here."""

    name: str
    actors: tuple[str, ...]
    cores: int | None = None


def host_of(machine: Machine) -> str:
    """Return the name of the machine's host. It is the same for all machines of one host, and
    differs between hosts. A namespace counts as a host, and so does a machine of a given kind,
    wherever it runs."""
    if not is_far(machine):
        return HERE if machine.kind is None else f"kind {machine.name}"
    if machine.namespace is not None:
        return f"namespace {machine.namespace}"
    return (machine.host or machine.name).rpartition("@")[2]


def several(config: ClusterConfig) -> bool:
    """Whether a run can have more than one host."""
    return len({host_of(machine) for machine in config.machine}) > 1


def only_host(config: ClusterConfig) -> Host:
    """Return the host of a run whose machines are all on one host. Its actors are not placed
    yet."""
    return Host(host_of(config.machine[0]), (), _cores(config, list(config.machine)))


def hosts_of(placement: Placement, config: ClusterConfig) -> tuple[Host, ...]:
    """Return the hosts that run processes, in the order of the machines."""
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
    """Return the sum of the cores that the machines give. If a machine gives none, it is the number
    of this machine's cores if all of them are this machine, or else None."""
    said = [machine.cores for machine in machines]
    if all(said):
        return sum(filter(None, said))
    return len(usable()) if all(map(config.is_here, machines)) else None
