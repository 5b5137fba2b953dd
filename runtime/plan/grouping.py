"""The actors of a topology, grouped into processes by the rules of cluster.toml."""

from __future__ import annotations

import fnmatch
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from runtime.errors import ConfigError
from runtime.plan.topology import Topology, kept, repeated


@dataclass(frozen=True)
class ProcessRule:
    """A [[process]] of cluster.toml: actors whose names match one of `actors` share the process
    `name` on `machine`. If it names several `machines`, each of them gets a process `name-machine`
    with a share of the actors."""

    name: str
    machine: str
    actors: tuple[str, ...]
    where: str = "process"  # the place in cluster.toml, for problems
    machines: tuple[str, ...] = ()


Group = tuple[str, str, tuple[str, ...]]  # process, machine, actors


def group_into_processes(
    topology: Topology, rules: Iterable[ProcessRule], default_machine: str, together: bool
) -> list[Group]:
    """Group the actors into processes.

    Rules come first, in order. Each other actor joins the process that it names, or gets its own
    process, or all join one if `together`. Actors that match no rule are on the `default_machine`.
    Raises ConfigError.
    """
    names = [actor.name for actor in topology.actors]
    left = dict.fromkeys(names)
    groups: list[Group] = []
    problems: list[str] = []
    for rule in rules:
        taken = tuple(
            name
            for name in left
            if any(fnmatch.fnmatchcase(name, pattern) for pattern in rule.actors)
        )
        if not taken:
            problems.append(
                f"{rule.where}: no actor left matches {list(rule.actors)}; the actors are "
                f"{', '.join(names)}"
            )
        for name in taken:
            del left[name]
        groups += _shared_out(rule, taken)
    if together and left:
        groups.append(("convoy", default_machine, tuple(left)))
    elif left:
        homes: dict[str, list[str]] = {}
        for actor in topology.actors:
            if actor.name in left:
                homes.setdefault(actor.process or actor.name, []).append(actor.name)
        groups.extend((home, default_machine, tuple(members)) for home, members in homes.items())
    problems += [
        f"process '{name}': two processes would be called '{name}' (a process without a rule "
        "has its actor's name, "
        "or 'convoy'); choose another name"
        for name in repeated([name for name, _, _ in groups])
    ]
    problems += [
        (f"process '{name}': this name is kept for the runtime")
        for name, _, _ in groups
        if kept(name)
    ]
    if problems:
        raise ConfigError(problems)
    return groups


def _shared_out(rule: ProcessRule, taken: tuple[str, ...]) -> list[Group]:
    """Return the processes of a rule. A machine without an actor gets no process."""
    if len(rule.machines) < 2:
        return [(rule.name, rule.machine, taken)]
    machines = rule.machines[: len(taken)]
    shares = zip(machines, itertools.pairwise(blocks(len(taken), [1] * len(machines))), strict=True)
    return [(f"{rule.name}-{name}", name, taken[low:high]) for name, (low, high) in shares]


def blocks(count: int, weights: Sequence[int]) -> list[int]:
    """Return where to cut a row of `count` items so that each weight gets its part: len(weights) +
    1 cuts, which differ from the exact positions by less than one."""
    whole = sum(weights)
    return [0, *(count * up_to // whole for up_to in itertools.accumulate(weights))]
