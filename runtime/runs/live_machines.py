"""Machines that leave a run and come back while the processes of other machines go on."""

from __future__ import annotations

from collections.abc import Sequence

from runtime.cluster.clients import Scale, Scaled
from runtime.cluster.supervising.lives import Lives


class LiveMachines:
    """The machines of one run, whose directory has the name `run`."""

    def __init__(self, lives: Lives, run: str) -> None:
        self._lives = lives
        self._run = run

    def __repr__(self) -> str:
        return f"<machines of {self._run}>"

    async def change(self, wish: Scale) -> Scaled | None:
        """Do what a client wishes, if the other processes can go on meanwhile. Returns None, and
        does nothing, if they cannot. Raises LaunchError if a machine cannot be used."""
        leaving = (*wish.without, *((wish.leaving,) if wish.leaving else ()))
        machines = leaving or wish.including
        if wish.workers or wish.groups or not machines:
            return None
        if not self._lives.can_change(leaving, wish.including):
            return None
        await self._lives.release(leaving)
        await self._lives.bring_back(wish.including)
        changes = [("goes on without", leaving), ("goes on with", wish.including)]
        at = ", ".join(f"{how} {_named(names)}" for how, names in changes if names)
        return Scaled(run=self._run, at=at, live=True)


def _named(machines: Sequence[str]) -> str:
    return " and ".join(f"machine '{name}'" for name in machines)
