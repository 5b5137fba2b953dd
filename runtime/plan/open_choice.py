"""What a program leaves open until its run starts: what is known of it, and short runs that find
out the rest.

A program offers it as `choice(config, options) -> Choice | None`. `check` and `plan` tell what is
known; `up` makes the trials (`runtime.runs.choosing`), one after the other, and the run is what is
then chosen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pydantic import BaseModel

from runtime.plan.topology import Topology

Told = tuple[str, dict[str, Any]]  # an event: its name, its fields


@dataclass(frozen=True)
class Chosen:
    """What the run is: the program's options, in which nothing is open any more, and their
    topology; `why`, as an event."""

    options: BaseModel
    topology: Topology
    why: Told


class Trial(Protocol):
    """A short run of one of the possibilities, which ends as soon as enough is heard of it."""

    name: str
    options: BaseModel
    topology: Topology

    def heard(self, event: str, fields: dict[str, Any], now: float) -> bool:
        """An actor has reported an event, `now` seconds after the trial's start. Is that enough?"""

    def ended(self, why: str) -> Told:
        """The trial is over; `why`: what went wrong, if anything did. What is told of it."""


class Choice(Protocol):
    """`told`: what is known before anything is tried. `expected`: what the run is if nothing is
    tried."""

    told: Sequence[Told]
    trials: Sequence[Trial]
    expected: Chosen

    def chosen(self) -> Chosen:
        """What the run is, after the trials."""
