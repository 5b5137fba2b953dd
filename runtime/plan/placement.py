"""Placing actors into processes, and processes on machines and cores, as the configuration asks.

The [[process]] tables come first. `homes` chooses the machines of all other processes.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import itertools
import os
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from runtime.config.hostfile import matching
from runtime.config.sections import ClusterConfig, Machine
from runtime.errors import ConfigError
from runtime.machine.usable_cores import limits, usable
from runtime.plan.grouping import Group, ProcessRule, group_into_processes
from runtime.plan.homes import at_home, wanted
from runtime.plan.machine_files import Files
from runtime.plan.roads import is_far
from runtime.plan.topology import ActorSpec, Placement, ProcessSpec, Topology

MOST_NAMED = 5  # machines in a warning


def place(topology: Topology, config: ClusterConfig) -> Placement:
    """Return the placement of a topology. Raises ConfigError with every rule that matches no actor
    or repeats the name of a process, and with every process pinned to cores that do not exist."""
    groups = at_home(_grouped(topology, config), topology, config)
    here: defaultdict[str, list[Group]] = defaultdict(list)
    for group in groups:
        here[group[1]].append(group)
    machines = {machine.name: machine for machine in config.machine}
    position = {group[0]: number for crowd in here.values() for number, group in enumerate(crowd)}
    crowds = {machine: _computing(here[machine], topology, config) for machine in here}
    specs = []
    for name, machine, actors in groups:
        settings = machines[machine]
        # two lanes, two ports per process
        port = settings.port + 2 * position[name] if settings.port else 0
        crowd = len(crowds[machine]) if name in crowds[machine] else 0
        threads = _threads(settings, config, crowd or len(here[machine]))
        specs.append(ProcessSpec(name, machine, actors, threads, port, crowd=crowd))
    return Placement(topology, _pinned(specs, config))


def _computing(crowd: Sequence[Group], topology: Topology, config: ClusterConfig) -> set[str]:
    """Return the processes of a machine that share its cores among themselves: those with workers
    or with servers that compute.

    The other processes there have little work, and cores that are left to them would be idle. Where
    processes are pinned, or none is known to compute, all processes share the cores, and the result
    is empty.
    """
    (_, name, _) = crowd[0]
    settings = next(machine for machine in config.machine if machine.name == name)
    if settings.pin:
        return set()
    heavy = {actor.name for actor in topology.actors if actor.computes}
    return {process for process, _, actors in crowd if not heavy.isdisjoint(actors)}


def placed_later(
    actor: ActorSpec, linked: Sequence[str], placement: Placement, config: ClusterConfig
) -> ProcessSpec:
    """Return the process of an actor that another starts while the run goes on: one of its own.
    `linked` are the actors that it has links to, first the one that starts it.

    The first [[process]] with a pattern for the actor gives the machine; if it names several, the
    one with the fewest processes. Without such a rule it is the machine of the actor that starts
    it. Raises ConfigError if it would be on another host than `up`, or have a link to one (on the
    virtual clock it may), or if the machine has no cores left for a process that it pins.
    """
    crowds = Counter(spec.machine for spec in placement.processes)
    rule = next((rule for rule in _rules(config) if _matches(actor.name, rule.actors)), None)
    homes = {each: spec.machine for spec in placement.processes for each in spec.actors}
    name = homes[linked[0]]
    if rule is not None:
        name = min(rule.machines, key=lambda machine: crowds[machine])
    if config.simulation.clock == "real":
        _refuse_other_hosts({actor.name: name} | {each: homes[each] for each in linked}, config)
    machine = next(machine for machine in config.machine if machine.name == name)
    there = [spec for spec in placement.processes if spec.machine == name]
    ports = {spec.port for spec in there}
    first = machine.port or 0
    port = next(port for port in itertools.count(first, 2) if port not in ports) if first else 0
    threads = _threads(machine, config, len(there) + 1)
    spec = ProcessSpec(actor.name, name, (actor.name,), threads, port)
    if not _matches(actor.name, machine.pin):
        return spec
    taken = {core for other in placement.processes for core in other.cores}
    free = [core for core in usable() if core not in taken]
    if problem := _too_many(machine, [spec], free, config):
        raise ConfigError([f"machine '{name}' has no cores left to pin it to: {problem[0]}"])
    return dataclasses.replace(spec, cores=tuple(free[: spec.threads]))


def _refuse_other_hosts(homes: Mapping[str, str], config: ClusterConfig) -> None:
    """Raise ConfigError if one of these actors is on another host than `up`. `homes` is actor ->
    machine."""
    far = {machine.name for machine in config.machine if is_far(machine)}
    for actor, machine in homes.items():
        if machine in far:
            text = f"actor '{actor}' is placed on machine '{machine}', which is another host"
            needs = "an actor that another one starts, and its links, must be on the host of `up`"
            raise ConfigError([f"{text}: {needs}; place it there by a [[process]]"])


def machines_wanted(topology: Topology, config: ClusterConfig) -> int:
    """Return the number of machines on which each process that computes has one for itself. Raises
    ConfigError as `place` does."""
    return wanted(_grouped(topology, config), topology)


def _grouped(topology: Topology, config: ClusterConfig) -> list[Group]:
    rules = _rules(config)
    together = config.placement.processes == "one"
    groups = group_into_processes(topology, rules, "", together)
    if config.placement.processes != "per-device":
        return groups
    shared = _by_device(at_home(groups, topology, config), topology, rules)
    return group_into_processes(topology, [*rules, *shared], "", together)


def _by_device(
    groups: Sequence[Group], topology: Topology, rules: Sequence[ProcessRule]
) -> list[ProcessRule]:
    """Return a process for each GPU of each machine, with the actors on it that no rule names, and
    the actors that follow them. The lead stays apart, so that it outlives them."""
    named = {rule.name for rule in rules}
    machine_of = {
        actor: machine
        for process, machine, actors in groups
        for actor in actors
        if process not in named
    }
    free = [
        actor
        for actor in topology.actors
        if actor.name in machine_of and actor.name != topology.lead
    ]
    place = {actor.name: (machine_of[actor.name], actor.gpu) for actor in free if actor.gpu}
    following = {}
    for actor in free:
        near = {place[peer] for peer in topology.peers(actor.name) if peer in place}
        if actor.follows and len(near) == 1:
            following[actor.name] = near.pop()
    sharing: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for name, where in (place | following).items():
        sharing[where].append(name)
    machines = {machine for machine, _ in sharing}
    return [
        ProcessRule(
            gpu.replace(":", "-") + (f"-{machine}" if len(machines) > 1 else ""),
            machine,
            tuple(actors),
            "placement.processes",
            (machine,),
        )
        for (machine, gpu), actors in sharing.items()
    ]


def _rules(config: ClusterConfig) -> list[ProcessRule]:
    found = []
    names = [machine.name for machine in config.machine]
    for index, rule in enumerate(config.process):
        machines = matching(rule.machine, names)
        where = config.raw.place(("process", index, "actors"))
        found.append(ProcessRule(rule.name, machines[0], rule.actors, where, machines))
    return found


def cores_of(machine: Machine, config: ClusterConfig) -> int | None:
    """Return the number of the machine's cores: the number given in cluster.toml, or the number of
    this machine's cores if it is this machine, or else None."""
    return machine.cores or (len(usable()) if config.is_here(machine) else None)


def limited(placement: Placement, config: ClusterConfig) -> str:
    """Describe what keeps the processes of this machine from some of its cores; "" if nothing does,
    or if cluster.toml gives the number of cores."""
    used = {spec.machine for spec in placement.processes}
    counted = any(
        machine.name in used and not machine.cores and config.is_here(machine)
        for machine in config.machine
    )
    why = limits() if counted else ""
    return f"cores of this machine: {len(usable())}, since {why}" if why else ""


def unknown(placement: Placement, config: ClusterConfig) -> str:
    """Describe the facts that a plan cannot know about other machines; "" if all machines are this
    one."""
    used = {spec.machine for spec in placement.processes}
    there = [
        machine
        for machine in config.machine
        if machine.name in used and not config.is_here(machine)
    ]
    if not there:
        return ""
    cores = "" if all(machine.cores for machine in there) else "cores, "
    names = [machine.name for machine in there]
    which = f"machine {names[0]}" if len(names) == 1 else f"machines {_listed(names)}"
    return (
        f"not known here of {which}: {cores}memory, addresses, versions and data; "
        "each machine is asked at its start, before the run begins"
    )


def _threads(machine: Machine, config: ClusterConfig, crowd: int) -> int:
    """Return the number of BLAS threads of each process of the machine; 0 if the number is known
    only on the machine itself."""
    if machine.threads != "auto":
        return machine.threads
    cores = cores_of(machine, config)
    return 0 if cores is None else max(1, cores // crowd)


def _pinned(specs: Sequence[ProcessSpec], config: ClusterConfig) -> tuple[ProcessSpec, ...]:
    """Return the processes, with cores for those that are pinned: the first free cores, in
    order."""
    problems: dict[str, None] = {}
    own: dict[str, ProcessSpec] = {}
    crowds: defaultdict[str, list[ProcessSpec]] = defaultdict(list)
    for spec in specs:
        crowds[spec.machine].append(spec)
    free = (
        usable() if hasattr(os, "sched_setaffinity") else []
    )  # machines of one host share its cores
    for machine in config.machine:
        crowd = crowds[machine.name]
        wanted = [spec for spec in crowd if any(_fits(spec, pattern) for pattern in machine.pin)]
        found = [*_unmatched(machine, crowd), *_too_many(machine, wanted, free, config)]
        problems |= {
            (f"{config.raw.place(('machine', machine.entry, 'pin'))}: {text}"): None
            for text in found
        }
        first = 0
        for spec in wanted if not found else ():
            if config.is_here(machine):
                own[spec.name], free = (
                    dataclasses.replace(spec, cores=tuple(free[: spec.threads])),
                    free[spec.threads :],
                )
            else:
                own[spec.name] = dataclasses.replace(spec, first_core=first)
                first += spec.threads
    if problems:
        raise ConfigError(list(problems))
    return tuple(own.get(spec.name, spec) for spec in specs)


def _too_many(
    machine: Machine, wanted: Sequence[ProcessSpec], free: Sequence[int], config: ClusterConfig
) -> list[str]:
    """Return the mistake in the number of cores that pinned processes would get, or an empty
    list."""
    there = len(free) if config.is_here(machine) else machine.cores
    if any(not spec.threads for spec in wanted):
        return [
            (
                "the number of cores for each process is not known: set threads, or cores, of "
                f"machine '{machine.name}'"
            )
        ]
    count = sum(spec.threads for spec in wanted)
    if there is None or count <= there:
        return []
    return [f"expected at most {there} threads (cores), found {count}: {_named(wanted)}"]


def _named(specs: Sequence[ProcessSpec]) -> str:
    return ", ".join(f"{spec.name} ({spec.threads})" for spec in specs)


def _matches(actor: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(actor, pattern) for pattern in patterns)


def _fits(spec: ProcessSpec, pattern: str) -> bool:
    return any(fnmatch.fnmatchcase(actor, pattern) for actor in spec.actors)


def _unmatched(machine: Machine, crowd: Sequence[ProcessSpec]) -> list[str]:
    """Return a text for each pattern that matches no actor on the machine."""
    actors = ", ".join(actor for spec in crowd for actor in spec.actors)
    return [
        f"'{pattern}' fits no actor on machine '{machine.name}'; there are {actors or 'none'}"
        for pattern in machine.pin
        if not any(_fits(spec, pattern) for spec in crowd)
    ]


def files_of(config: ClusterConfig) -> dict[str, Files]:
    """Return the folders of the machines that name folders for their files."""
    base = str(config.raw.base)
    return {
        machine.name: Files(
            base, "" if config.is_here(machine) else machine.directory or "", machine.data or ""
        )
        for machine in config.machine
        if machine.directory or machine.data
    }


def data_here(config: ClusterConfig) -> str:
    """Return the folder on this machine that relative sources of data start from: `data` of a
    [[machine]] that is here, or else the folder of cluster.toml."""
    here = next(
        (machine for machine in config.machine if machine.data and config.is_here(machine)), None
    )
    return Files(str(config.raw.base), data=here.data or "" if here else "").data_root


def idle(placement: Placement, config: ClusterConfig) -> list[str]:
    """Return a warning for each entry of the file that has machines without processes."""
    used = {spec.machine for spec in placement.processes} | {*placement.topology.unused}
    entries: defaultdict[int, list[str]] = defaultdict(list)
    for machine in config.machine:
        entries[machine.entry].append(machine.name)
    unused = {
        entry: [name for name in names if name not in used] for entry, names in entries.items()
    }
    return [
        (
            f"{config.raw.place(('machine', entry))}: nothing is placed on "
            f"{_some(names, len(entries[entry]))}"
        )
        for entry, names in unused.items()
        if names
    ]


def _some(names: Sequence[str], of: int) -> str:
    return (
        f"machine '{names[0]}'"
        if of == 1
        else (f"{len(names)} of its {of} machines: {_listed(names)}")
    )


def _listed(names: Sequence[str]) -> str:
    more = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
