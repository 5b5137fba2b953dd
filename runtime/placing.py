"""Puts actors into processes and processes on machines, as the configuration says. A decision; starts nothing."""

from __future__ import annotations

import os

from runtime.config_sections import ClusterConfig
from runtime.topology import Placement, ProcessRule, ProcessSpec, Topology, group_into_processes


def place(topology: Topology, config: ClusterConfig) -> Placement:
    """The placement of a topology. ConfigError with every rule that fits no actor or names a process twice."""
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
    return Placement(topology, tuple(specs))
