"""Puts actors into processes, processes on machines and cores, as the configuration says."""

from __future__ import annotations

import dataclasses
import fnmatch
import os
from collections.abc import Sequence

from runtime.config.sections import ClusterConfig, Machine
from runtime.errors import ConfigError
from runtime.plan.topology import Placement, ProcessRule, ProcessSpec, Topology, group_into_processes


def place(topology: Topology, config: ClusterConfig) -> Placement:
    """The placement of a topology. ConfigError with every rule that fits no actor or names a process twice, and
    what is pinned to cores that are not there."""
    rules = [
        ProcessRule(rule.name, rule.machine, rule.actors, config.raw.place(("process", index, "actors")))
        for index, rule in enumerate(config.process)
    ]
    together = config.placement.processes == "one"
    groups = group_into_processes(topology, rules, config.machine[0].name, together)
    machines = {machine.name: machine for machine in config.machine}
    here = {name: [group for group in groups if group[1] == name] for name in machines}
    specs = []
    for name, machine, actors in groups:
        settings, crowd = machines[machine], here[machine]
        cores = settings.cores or os.cpu_count() or 1
        threads = max(1, cores // len(crowd)) if settings.threads == "auto" else settings.threads
        # two lanes, two ports per process
        port = settings.port + 2 * crowd.index((name, machine, actors)) if settings.port else 0
        specs.append(ProcessSpec(name, machine, actors, threads, port))
    return Placement(topology, _pinned(specs, config))


def _pinned(specs: Sequence[ProcessSpec], config: ClusterConfig) -> tuple[ProcessSpec, ...]:
    """The processes, with the cores of those that are pinned: the first ones, in order."""
    problems: list[str] = []
    own: dict[str, tuple[int, ...]] = {}
    free = _cores()  # machines of one host share its cores
    for index, machine in enumerate(config.machine):
        where = config.raw.place(("machine", index, "pin"))
        crowd = [spec for spec in specs if spec.machine == machine.name]
        problems += [f"{where}: {text}" for text in _unmatched(machine, crowd)]
        wanted = [spec for spec in crowd if any(_fits(spec, pattern) for pattern in machine.pin)]
        count = sum(spec.threads for spec in wanted)
        if count > len(free):
            names = ", ".join(f"{spec.name} ({spec.threads})" for spec in wanted)
            problems.append(f"{where}: expected at most {len(free)} cores' threads, found {count}: {names}")
            continue
        for spec in wanted:
            own[spec.name], free = tuple(free[: spec.threads]), free[spec.threads :]
    if problems:
        raise ConfigError(problems)
    return tuple(dataclasses.replace(spec, cores=own.get(spec.name, ())) for spec in specs)


def _cores() -> list[int]:
    """Those that this process may use; none where a process cannot be kept on them."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


def _fits(spec: ProcessSpec, pattern: str) -> bool:
    return any(fnmatch.fnmatchcase(actor, pattern) for actor in spec.actors)


def _unmatched(machine: Machine, crowd: Sequence[ProcessSpec]) -> list[str]:
    """What is wrong with patterns that fit no actor there."""
    actors = ", ".join(actor for spec in crowd for actor in spec.actors)
    return [
        f"'{pattern}' fits no actor on machine '{machine.name}'; there are {actors or 'none'}"
        for pattern in machine.pin
        if not any(_fits(spec, pattern) for spec in crowd)
    ]
