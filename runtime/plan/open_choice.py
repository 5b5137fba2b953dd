"""A choice that a program leaves open until its run starts: the facts known before, and short runs
that determine the rest.

A program offers it as `choice(config, options) -> Choice | None`. `check` and `plan` show the known
facts. `up` runs the trials one after the other (`runtime.runs.choosing`), and then starts the
chosen run.
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
    """The result of a choice: the program's options with nothing left open, their topology, and the
    reason `why` as an event."""

    options: BaseModel
    topology: Topology
    why: Told


class Trial(Protocol):
    """A short run of one of the possibilities. It ends as soon as its events are sufficient."""

    name: str
    options: BaseModel
    topology: Topology

    def heard(self, event: str, fields: dict[str, Any], now: float) -> bool:
        """Take an event that an actor has reported, `now` seconds after the trial's start. Returns
        whether the trial may end."""

    def ended(self, why: str) -> Told:
        """End the trial and return the event that reports it. `why` is the error that ended the
        trial, or ""."""


class Choice(Protocol):
    """An open choice. `told` are the facts known before any trial. `expected` is the choice that is
    made without trials."""

    told: Sequence[Told]
    trials: Sequence[Trial]
    expected: Chosen

    def chosen(self) -> Chosen:
        """Return the choice made after the trials."""
