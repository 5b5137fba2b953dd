"""The files of a run directory that another machine may leave there: an allow list for each
machine.

A machine may belong to another person. Its agent's files are therefore limited to the files that
the machine's own processes may write. These are each process's log, stacks, part of a trace and
service times, and the files that the roles of its actors declare (`Actor.writes`). If no role of a
program declares files, a machine may leave any name that is free.
"""

from __future__ import annotations

from contextlib import suppress
from glob import escape

from runtime.cluster.machines.copies import FOLDERS
from runtime.errors import ConfigError
from runtime.plan.program import program_here, role_of
from runtime.plan.run_plan import FILE, SAID
from runtime.plan.topology import Placement, Topology

OF_UP = (  # names in the run directory that only `up` may use, whatever a role declares
    *(
        FILE,
        SAID,
        "config.toml",
        "versions.json",
        "events.jsonl",
        "log.csv",
        "usage.jsonl",
        "tensorboard",
        "wandb",
        "trials",
    ),
    *("service-times.json", "trace.json", "operator.key", "report.html"),
)
ANY = ("*", "*/*", "*/*/*", "*/*/*/*")
OF_PROCESSES = ("logs/{}.log", "logs/{}.stacks", "trace/{}.*.json", "service-times/{}.json")


def allowed(placement: Placement) -> dict[str, tuple[str, ...]]:
    """Return machine -> patterns of names, for its processes and their actors."""
    declared = _declared(placement.topology)
    some = any(patterns is not None for patterns in declared.values())
    found: dict[str, dict[str, None]] = {}
    for spec in placement.processes:
        mine = found.setdefault(spec.machine, {})
        mine.update(dict.fromkeys(pattern.format(escape(spec.name)) for pattern in OF_PROCESSES))
        wanted = (
            (pattern for actor in spec.actors for pattern in declared.get(actor) or ())
            if some
            else ANY
        )
        mine.update(
            dict.fromkeys(pattern for pattern in wanted if pattern.partition("/")[0] not in FOLDERS)
        )
    return {machine: tuple(patterns) for machine, patterns in found.items()}


def _declared(topology: Topology) -> dict[str, tuple[str, ...] | None]:
    """Return actor -> the patterns that its role declares, or None if the role declares none."""
    program = program_here(topology.program)
    if program is None:
        return {}
    with suppress(ConfigError):  # reported by the process that starts the actor
        roles = program.roles
        return {
            spec.name: getattr(role_of(roles, spec), "writes", None) for spec in topology.actors
        }
    return {}
