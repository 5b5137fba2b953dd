"""Machines that Slurm gives: the meaning of cluster.toml with launcher.kind = "slurm", inside an
allocation or not.

no [[machine]]                   all nodes of the allocation, as with
                                 hosts = "$SLURM_JOB_NODELIST"
[[machine]] name = "node7"       that node, unless an address or a namespace places it elsewhere
no `cores`                       as many as the allocation has on the node
outside an allocation            `launcher.nodes` nodes that stand for the allocation's, called
                                 node1, node2 ...
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from runtime.config.hostfile import expanded
from runtime.config.machines import Machine, machine_name, tables
from runtime.config.toml_source import RawConfig

if TYPE_CHECKING:
    from runtime.config.sections import ClusterConfig

KIND = "slurm"
JOB = "SLURM_JOB_ID"
LISTS = ("SLURM_JOB_NODELIST", "SLURM_NODELIST")  # two names of the same list
CORES = "SLURM_JOB_CPUS_PER_NODE"
STAND_IN = "node[1-{}]"
# with one of these keys, `name` need not be the name of a node
ELSEWHERE = ("host", "hosts", "hostfile", "address", "namespace")
_COUNT = re.compile(r"([1-9]\d{0,5})(?:\(x([1-9]\d{0,5})\))?")


def is_wanted(raw: RawConfig) -> bool:
    """Whether Slurm starts the processes."""
    launcher = raw.data.get("launcher")
    return isinstance(launcher, dict) and launcher.get("kind") == KIND


def as_meant(raw: RawConfig) -> RawConfig:
    """Return the configuration in the form that it would have for any other launcher. It is
    unchanged if Slurm does not start the processes."""
    if not is_wanted(raw):
        return raw
    machines = raw.data.get("machine")
    origins = raw.origins
    if machines is None:
        machines = [{"hosts": f"${LISTS[0]}"}]
        origins = {**origins, ("machine",): raw.origin(("launcher", "kind"))}
    elif isinstance(machines, list):
        machines = [_node(table) for table in machines]
    return dataclasses.replace(raw, data={**raw.data, "machine": machines}, origins=origins)


def _node(table: Any) -> Any:
    if (
        not isinstance(table, dict)
        or not isinstance(table.get("name"), str)
        or any(key in table for key in ELSEWHERE)
    ):
        return table
    return {**table, "host": table["name"]}


def nodes(environ: Mapping[str, str]) -> str:
    """Return the nodes of the allocation as Slurm lists them, or "" outside an allocation."""
    return next(filter(None, map(environ.get, LISTS)), None) or ""


def environment(raw: RawConfig, environ: Mapping[str, str]) -> Mapping[str, str]:
    """Return the environment with a list of nodes, inside an allocation or not. It is unchanged if
    Slurm does not start the processes."""
    if not is_wanted(raw):
        return environ
    launcher = raw.data.get("launcher")
    count = launcher.get("nodes", 1) if isinstance(launcher, dict) else 1
    stand_in = STAND_IN.format(count if type(count) is int and count >= 1 else 1)
    return {**environ, **dict.fromkeys(LISTS, nodes(environ) or stand_in)}


def with_cores(
    raw: RawConfig, machines: Sequence[Machine], environ: Mapping[str, str]
) -> tuple[Machine, ...]:
    """Return the machines with the cores that the allocation has on each, if `cores` is not given
    and has an effect.

    The machines are unchanged if Slurm does not start the processes. Raises ValueError if Slurm's
    variable cannot be read.
    """
    if not is_wanted(raw) or not nodes(environ) or not environ.get(CORES):
        return tuple(machines)
    names = expanded(nodes(environ))
    counts = cores(environ[CORES])
    if len(names) != len(counts):
        raise ValueError(
            f"{CORES} is '{environ[CORES]}', expected a number for each of {nodes(environ)}"
        )
    known = dict(zip(names, counts, strict=True))
    return tuple(
        machine.model_copy(update={"cores": known[node]})
        if machine.cores is None
        and (machine.threads == "auto" or len(machines) > 1)
        and (node := machine_name(machine.host or "")) in known
        else machine
        for machine in machines
    )


def cores(text: str) -> list[int]:
    """Return the numbers of cores of Slurm's notation: "4(x2),8" gives 4, 4, 8. Raises
    ValueError."""
    found: list[int] = []
    for item in text.split(","):
        match = _COUNT.fullmatch(item)
        if match is None:
            raise ValueError(f"{CORES} is '{text}', expected numbers such as '4(x2),8'")
        found += [int(match[1])] * int(match[2] or 1)
    return found


def counts(config: ClusterConfig) -> bool:
    """Whether `launcher.nodes` has an effect."""
    return is_wanted(config.raw) and any(map(_by_variable, tables(config.raw, "machine")))


def told(config: ClusterConfig) -> list[str]:
    """Return a note for commands that start nothing: the names of nodes stand for those of an
    allocation."""
    if not counts(config) or nodes(os.environ):
        return []
    return [
        (
            f"not in a job of Slurm: {STAND_IN.format(config.launcher.nodes)} stands for the "
            "nodes of a job (launcher.nodes)"
        )
    ]


def asked(config: ClusterConfig) -> tuple[int, tuple[str, ...]]:
    """Return the number of nodes that a job for this configuration needs, and the nodes that
    cluster.toml names."""
    written = tables(config.raw, "machine")
    named = dict.fromkeys(
        machine_name(machine.host or machine.name)
        for machine in config.machine
        if not config.is_here(machine)
        and not machine.namespace
        and not _by_variable(written[machine.entry])
    )
    count = len(named) + (config.launcher.nodes if counts(config) else 0)
    return max(1, count), tuple(named)


def _by_variable(table: dict[str, Any]) -> bool:
    """Whether the table lists the nodes of an allocation by a variable."""
    hosts = table.get("hosts", "")
    return any(
        str(text).startswith("$") for text in (hosts if isinstance(hosts, list) else [hosts])
    )
