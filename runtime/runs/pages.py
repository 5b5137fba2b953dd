"""The pages of `up`: at which address they are, by which names they may be called, and the report
among them."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from pathlib import Path

from runtime.config.machines import LOOPBACK, machine_name
from runtime.config.sections import ClusterConfig
from runtime.machine.addresses import is_loopback, own
from runtime.page.live import LivePage
from runtime.plan.run_plan import MACHINE
from runtime.serving.readers import EVERYBODY


def address_of(config: ClusterConfig, here: str) -> str:
    """Where `up` serves them. `here`: where other hosts of the run reach this one, "" if there are
    none."""
    if config.metrics.address != MACHINE:
        return config.metrics.address
    return here or next(
        (own(machine.address) for machine in config.machine if not machine.namespace), LOOPBACK
    )


def names_of(config: ClusterConfig) -> tuple[str, ...]:
    """The names that cluster.toml has for the machines of a run, and further ones for their
    pages."""
    machines = (machine_name(machine.host or machine.name) for machine in config.machine)
    return tuple(dict.fromkeys((*config.metrics.hosts, config.metrics.address, *machines)))


def live_page(
    config: ClusterConfig, directory: Path, program: str, address: str, now: Callable[[], float]
) -> LivePage:
    """Where the system tells who reads, it is for whom it lets in; elsewhere for who knows a
    token."""
    open_to_all = not is_loopback(address) or EVERYBODY in config.metrics.readers
    return LivePage(directory, program, secrets.token_urlsafe(16) if open_to_all else "", now)
