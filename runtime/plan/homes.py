"""The machine of each process that no [[process]] places.

workers  actors whose options set `spread`. They are spread over the machines of `placement.spread`
         in blocks, so that neighbours by rank share a machine. Blocks are in proportion to the
         machines' cores if all machines give them, and equal otherwise
servers  actors whose options set `apart` or `serves`. One after the other, first those `apart`,
         goes to the machine of `placement.servers` that has the fewest servers. Among equals, a
         server that is `apart` prefers the first machine without workers, or else the one with the
         fewest processes for its cores, or else the last one. Another server prefers the first
         machine with workers, whose traffic to it then stays on the machine
         A server that names an actor as `beside` lives there, unless `placement.servers` is set
others   and a process of servers that also has the lead, as with `placement.processes = "one"`,
         live on the machine of the actor that their options name as `beside`, or else on the first
         machine

A machine in the topology's `unused` gets no process, unless nothing else is left.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from runtime.config.hostfile import matching
from runtime.config.sections import ClusterConfig, Machine
from runtime.plan.grouping import Group, blocks
from runtime.plan.topology import ActorSpec, Topology

ANYWHERE = "*"  # the default of placement.servers


def at_home(groups: Sequence[Group], topology: Topology, config: ClusterConfig) -> list[Group]:
    """Return the groups, with a machine for each group that had none."""
    specs = {actor.name: actor for actor in topology.actors}
    members = {process: [specs[name] for name in actors] for process, _, actors in groups}
    homes = {process: machine for process, machine, _ in groups if machine}
    open_ = [process for process, machine, _ in groups if not machine]
    homes |= _of_workers(open_, members, _chosen(config.placement.spread, config, topology))
    lead = specs[topology.lead]
    near = {
        process: actor.beside
        for process in open_
        if process not in homes
        for actor in reversed(members[process])
        if actor.beside and not (actor.serves and config.placement.servers != ANYWHERE)
    }
    servers = _servers(
        (process, members[process])
        for process in open_
        if process not in homes and process not in near and lead not in members[process]
    )
    first = next(one.name for one in config.machine if one.name not in topology.unused)
    homes |= {
        process: first
        for process in open_
        if process not in homes and process not in servers and process not in near
    }
    chosen = _chosen(config.placement.servers, config, topology)
    homes |= _of_servers(servers, members, homes, chosen)
    at = {
        actor: homes[process]
        for process, _, actors in groups
        if process in homes
        for actor in actors
    }
    homes |= {process: at.get(beside, first) for process, beside in near.items()}
    return [(process, homes[process], actors) for process, _, actors in groups]


def wanted(groups: Sequence[Group], topology: Topology) -> int:
    """Return the number of machines on which each worker and each server that wants a machine of
    its own gets one."""
    alone = {actor.name for actor in topology.actors if actor.spread or actor.apart}
    return max(1, sum(not alone.isdisjoint(actors) for _, _, actors in groups))


def _of_workers(
    processes: Iterable[str],
    members: Mapping[str, Sequence[ActorSpec]],
    chosen: Sequence[Machine],
) -> dict[str, str]:
    """Return the machines of the processes with workers, of those that are chosen. Each role is
    spread by itself."""
    alike: defaultdict[str, list[str]] = defaultdict(list)  # role -> its processes
    for process in processes:
        role = next((actor.role for actor in members[process] if actor.spread), None)
        if role is not None:
            alike[role].append(process)
    homes: dict[str, str] = {}
    for crowd in alike.values():
        taken = chosen[: len(crowd)]  # the first machines, if there are more than processes
        cuts = blocks(len(crowd), _weights(taken))
        for one, (low, high) in zip(taken, itertools.pairwise(cuts), strict=True):
            homes |= dict.fromkeys(crowd[low:high], one.name)
    return homes


def _servers(processes: Iterable[tuple[str, Sequence[ActorSpec]]]) -> list[str]:
    """Return the processes with servers, first those that want a machine of their own."""
    found = [
        (not any(actor.apart for actor in actors), process)
        for process, actors in processes
        if any(actor.apart or actor.serves for actor in actors)
    ]
    return [process for _, process in sorted(found, key=lambda each: each[0])]


def _of_servers(
    servers: Sequence[str],
    members: Mapping[str, Sequence[ActorSpec]],
    placed: Mapping[str, str],
    chosen: Sequence[Machine],
) -> dict[str, str]:
    """Return the machines of these servers, of those that are chosen. `placed` are the machines of
    the other processes."""
    weights = dict(zip((machine.name for machine in chosen), _weights(chosen), strict=True))
    names = list(weights)
    processes = Counter(placed.values())
    working = {
        home for process, home in placed.items() if any(one.spread for one in members[process])
    }
    serving = Counter(
        home
        for process, home in placed.items()
        if any(one.apart or one.serves for one in members[process])
    )

    def for_computing(name: str) -> tuple[float, ...]:
        place = names.index(name)
        if name in working:
            return serving[name], True, processes[name] / weights[name], -place
        return serving[name], False, 0, place

    def for_traffic(name: str) -> tuple[float, ...]:
        return serving[name], name not in working, names.index(name)

    homes: dict[str, str] = {}
    for process in servers:
        apart = any(one.apart for one in members[process])
        homes[process] = home = min(names, key=for_computing if apart else for_traffic)
        serving[home] += 1
        processes[home] += 1
    return homes


def _chosen(text: str, config: ClusterConfig, topology: Topology) -> list[Machine]:
    """The machines that a text selects, without those that the topology does not use, unless these
    are all."""
    order = {machine.name: machine for machine in config.machine}
    chosen = [order[name] for name in matching(text, order)]
    return [one for one in chosen if one.name not in topology.unused] or chosen


def _weights(machines: Sequence[Machine]) -> list[int]:
    """Return the machines' cores if all of them are given, or else equal weights."""
    cores = [machine.cores or 0 for machine in machines]
    return cores if all(cores) else [1] * len(machines)
