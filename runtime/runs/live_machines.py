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
        named = [*wish.without, *([wish.leaving] if wish.leaving else []), *wish.including]
        if wish.workers or wish.groups or not named:
            return None
        gone = [name for name in named if self._lives.has_left(name)]
        there = [name for name in named if self._lives.is_there(name)]
        leaving = [name for name in named if name not in (*wish.including, *gone)]
        returning = [name for name in wish.including if name not in there]
        if (leaving or returning) and not self._lives.can_change(leaving, returning):
            return None
        # a machine that is away may be about to return, which ends then
        await self._lives.release([name for name in named if name not in wish.including])
        await self._lives.bring_back(returning)
        told = [
            ("goes on without", leaving),
            ("goes on with", returning),
            ("is already without", [name for name in gone if name not in wish.including]),
            ("is already with", [name for name in there if name in wish.including]),
        ]
        at = ", ".join(f"{how} {_named(names)}" for how, names in told if names)
        at += "; the others went on meanwhile" if leaving or returning else ""
        return Scaled(run=self._run, at=at, live=True)


def _named(machines: Sequence[str]) -> str:
    return " and ".join(f"machine '{name}'" for name in machines)
