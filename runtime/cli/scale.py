"""`scale`: continue a live run with other workers, or on other machines."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from runtime.cli.arguments import HERE, Connection, seen

if TYPE_CHECKING:
    from runtime.attached.observed_run import ObservedRun

Machines = Annotated[tuple[str, ...], Parameter(negative=())]
PATIENT_SECONDS = 3.0  # for an answer; a machine may wait for a person who types a line there
LOOK_SECONDS = 0.05  # between two looks at the journal of the run that follows
# without a listener: the run may wait for a machine, or a machine may compile
VANISHED_SECONDS = 90.0


def scale(
    run: Path | None = None,
    *,
    workers: int | None = None,
    groups: int | None = None,
    without: Machines = (),
    including: Annotated[Machines, Parameter(name="--with")] = (),
    connection: Connection = HERE,
) -> int:
    """Continue a live run with more or fewer workers, in other groups, or on other machines. Waits
    until it trains again.

    The run saves after the iterations under way and resumes from there: each sample is used exactly
    once. The machine of an island (`preset = "islands"`) leaves and rejoins without a pause of the
    others.

    Parameters
    ----------
    run
        A run directory or its name; by default the only live run.
    workers
        The new number of workers.
    groups
        The new number of groups.
    without
        A machine that leaves the run; may be given several times.
    including
        A machine of cluster.toml that left the run and rejoins it; may be given several times.
    """
    from runtime.errors import ConfigError

    for name, said in (("--workers", workers), ("--groups", groups)):
        if said is not None and said < 1:
            raise ConfigError([f"{name}: found {said}, expected at least 1"])
    if workers is groups is None and not (without or including):
        raise ConfigError(
            ["found no change to make, expected --workers, --groups, --without or --with"]
        )
    if both := sorted({*without} & {*including}):
        raise ConfigError(
            [f"found '{both[0]}' with --without and --with, expected only one of them"]
        )
    wish = {
        "workers": workers or 0,
        "groups": groups or 0,
        "without": without,
        "including": including,
    }
    return asyncio.run(_scaled(run, connection, wish))


async def _scaled(run: Path | None, connection: Connection, wish: dict[str, Any]) -> int:
    from runtime.report.console import Teller

    console = Teller()
    clock = asyncio.get_running_loop().time
    async with seen(run, connection) as looked:
        async with looked.client() as client:
            asking = asyncio.ensure_future(client.scale(**wish))
            if not (await asyncio.wait([asking], timeout=PATIENT_SECONDS))[0]:
                console.say(f"{looked.place}: waits; the output of `up` shows what it waits for")
            scaled = await asking
            began = clock()
        for warning in scaled.warnings:
            console.warn(warning)
        if scaled.live:
            console.say(f"{looked.place}: {scaled.at}")
            return 0
        await looked.follow(scaled.run, VANISHED_SECONDS)
        await _begun(looked)
        console.say(
            f"{looked.place}: continues at {scaled.at}, {clock() - began:.1f} s after it was saved"
        )
    return 0


async def _begun(following: ObservedRun) -> None:
    """Wait until this run has begun. Raises ProgramFailed if it fails or vanishes before that."""
    from runtime.attached.run_status import journal, said
    from runtime.cluster.operators.operator_messages import JOURNAL
    from runtime.errors import ProgramFailed

    heard = asyncio.get_running_loop().time()
    while True:
        await following.refresh(JOURNAL)
        told = await asyncio.to_thread(journal, following.directory)
        if "began" in told:
            return
        if "failed" in told:
            why = said(told, "failed", "error").partition("\n")[0]
            raise ProgramFailed(
                f"{following.name} could not begin: {why}; the output of `up` shows its next step"
            )
        if await following.lives():
            heard = asyncio.get_running_loop().time()
        elif asyncio.get_running_loop().time() - heard > VANISHED_SECONDS:
            raise ProgramFailed(f"{following.name} has not begun, and its socket has no listener")
        await asyncio.sleep(LOOK_SECONDS)
