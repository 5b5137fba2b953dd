"""Keys of the runtime's sections that have no effect where they stand. They lead to a warning, not
to an error."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel

from runtime.config import slurm_environment
from runtime.config.sections import LOCAL, ClusterConfig
from runtime.config.toml_lines import KeyPath
from runtime.machine.addresses import is_loopback

LOCAL_ONLY = "launcher.kind is 'local': processes are forked from `up`'s own"
BETWEEN_HOSTS = ("encryption", "latency", "bytes_per_second")
REAL_ONLY: tuple[KeyPath, ...] = (
    ("links", "transport"),
    ("links", "shared_memory"),
    ("links", "device_memory"),
    *(("links", key) for key in BETWEEN_HOSTS),
    ("launcher", "kind"),
    *(
        ("liveness", key)
        for key in ("heartbeat_seconds", "missed", "progress_seconds", "start_seconds")
    ),
    ("liveness", "prepare_seconds"),
    *(("recovery", key) for key in ("restarts", "window_seconds", "backoff_seconds", "machines")),
    ("metrics", "address"),
    ("metrics", "port"),
    ("metrics", "process_ports"),
    ("metrics", "linger_seconds"),
    ("metrics", "targets"),
    ("operators", "address"),
    ("operators", "port"),
)
# keys of [metrics]
PAGES = ("address", "port", "process_ports", "linger_seconds", "targets", "readers", "hosts")


def unused(config: ClusterConfig) -> Iterator[str]:
    """Yield a line for each key without effect, with its place."""
    for keys, why in dict.fromkeys(_unused(config)):
        yield f"{config.raw.place(keys)}: has no effect {why}"


def _unused(config: ClusterConfig) -> Iterator[tuple[KeyPath, str]]:
    simulation = config.simulation
    virtual = config.simulation.clock == "virtual"
    if virtual:
        yield from (
            (keys, "with simulation.clock = 'virtual'") for keys in REAL_ONLY if _said(config, keys)
        )
        if (
            simulation.interfaces != "process"
            and simulation.bytes_per_second is None
            and not simulation.links
        ):
            yield (
                ("simulation", "interfaces"),
                ("without simulation.bytes_per_second: interfaces have no limit"),
            )
    for key in PAGES if not (virtual or config.run.observe) else ():
        if _said(config, ("metrics", key)):
            yield ("metrics", key), "with run.observe = false: there are no pages"
    if config.operators.address is None and config.operators.port and not virtual:
        yield ("operators", "port"), "without operators.address: nothing listens"
    for key in BETWEEN_HOSTS if not virtual and not _several_hosts(config) else ():
        if _said(config, ("links", key)):
            yield ("links", key), "if all machines are this one: no link leaves it"
    if _said(config, ("launcher", "nodes")) and not slurm_environment.counts(config):
        yield ("launcher", "nodes"), "without machines of a Slurm job, or if all of them are named"
    for machine in config.machine:
        index = machine.entry
        if machine.port is not None and (virtual or not _wired(config)):
            why = (
                "links.transport is 'ipc'"
                if config.links.transport == "ipc"
                else "all machines are this one"
            )
            yield ("machine", index, "port"), f"if no process listens at a TCP port: {why}"
        if machine.cores is not None and machine.threads != "auto" and len(config.machine) == 1:
            yield ("machine", index, "cores"), "if threads is a number: no cores are divided"
        if machine.pin and virtual:
            yield ("machine", index, "pin"), "with simulation.clock = 'virtual'"
        for key in (
            ("python", "directory", "environment")
            if virtual or config.launcher.kind == LOCAL
            else ()
        ):
            if getattr(machine, key):
                yield (
                    ("machine", index, key),
                    (f"if {'no process is started' if virtual else LOCAL_ONLY}"),
                )


def _several_hosts(config: ClusterConfig) -> bool:
    return any(machine.namespace or not is_loopback(machine.address) for machine in config.machine)


def _wired(config: ClusterConfig) -> bool:
    """Whether any link of the run uses TCP."""
    return config.links.transport == "tcp" or (
        config.links.transport == "auto" and _several_hosts(config)
    )


def _said(config: ClusterConfig, keys: KeyPath) -> bool:
    """Whether the key has another value than its default."""
    section: Any = getattr(config, str(keys[0]))
    kind: type[BaseModel] = type(section)
    return bool(getattr(section, str(keys[1])) != kind.model_fields[str(keys[1])].default)
