"""The pages of `up`: their address, the host names by which they may be called, the report page,
and the file by which Prometheus finds them."""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from runtime.config.machines import LOOPBACK, machine_name
from runtime.config.sections import ClusterConfig
from runtime.machine.addresses import is_loopback, own
from runtime.page.live import LivePage
from runtime.plan.run_plan import MACHINE
from runtime.records.target_files import TargetFile, Targets, folder_of
from runtime.serving.readers import EVERYBODY

OURS = "convoy-runtime"
REPORT = 'extra == "report"'
NAME = re.compile(r"[A-Za-z0-9._-]+")


def address_of(config: ClusterConfig, here: str) -> str:
    """Return the address at which `up` serves its pages. `here`: the address by which other hosts
    of the run reach this one, "" if there are none."""
    if config.metrics.address != MACHINE:
        return config.metrics.address
    return here or next(
        (own(machine.address) for machine in config.machine if not machine.namespace), LOOPBACK
    )


def names_of(config: ClusterConfig) -> tuple[str, ...]:
    """Return the host names by which the pages may be called: the names of the run's machines in
    cluster.toml, and further configured ones."""
    machines = (machine_name(machine.host or machine.name) for machine in config.machine)
    return tuple(dict.fromkeys((*config.metrics.hosts, config.metrics.address, *machines)))


def can_be_made() -> bool:
    """Whether the packages of the extra `report`, which make the report page, are installed."""
    try:
        needed = requires(OURS) or []
        for name in (
            found.group() for each in needed if REPORT in each and (found := NAME.match(each))
        ):
            version(name)
    except PackageNotFoundError as error:
        return error.name == OURS  # started from a clone: it is not known
    return True


def live_page(
    config: ClusterConfig, directory: Path, program: str, address: str, now: Callable[[], float]
) -> LivePage:
    """Make the report page of a live run.

    On loopback, the system identifies the reader, and the page is for permitted readers. Elsewhere,
    or if everybody may read, the page is for readers that know a token.
    """
    open_to_all = not is_loopback(address) or EVERYBODY in config.metrics.readers
    return LivePage(directory, program, secrets.token_urlsafe(16) if open_to_all else "", now)


def target_file(
    config: ClusterConfig, run: str, targets: Targets, tell: Callable[[str], None]
) -> TargetFile | None:
    """Return the file by which Prometheus finds the pages of a run, or None if it shall have none.
    Calls `tell` with a text for people on the event loop if the file cannot be written."""
    loop = asyncio.get_running_loop()
    try:
        folder = folder_of(config.metrics.targets)
    except RuntimeError as error:  # the user has no home
        tell(f"metrics.targets: {error}: set it to a folder in which Prometheus finds this run")
        return None
    if folder is None:
        return None
    return TargetFile(folder, run, targets, lambda text: loop.call_soon_threadsafe(tell, text))
