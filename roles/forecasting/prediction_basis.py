"""The declaration of a prediction's inputs, and a profile as a source of times."""

from __future__ import annotations

import fnmatch
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from roles.base.shapes import Shapes
from roles.forecasting.costs import loads_of
from roles.forecasting.plan_forecast import plainly
from roles.forecasting.prediction import Network, rows_of
from roles.forecasting.work_times import Times
from runtime.compute.service_times import ServiceTimes, read_table
from runtime.errors import ConfigError
from runtime.plan.prospects import Prices
from runtime.plan.topology import Placement, Topology
from runtime.typed_name import shown

HANDLING = "the handling of messages, which takes time of the processors"


class PredictionInputs(ABC):
    """The inputs of a prediction. `name` describes them in words; `notes` lists what is not
    known."""

    name: str
    notes: tuple[str, ...] = ()

    @abstractmethod
    def times(self, placement: Placement) -> Times:
        """The times of the actors' work. Raises ConfigError that names work whose time is not
        known."""

    @abstractmethod
    def network(self, placement: Placement) -> Network:
        """The network between the processes."""

    def machines(self, placement: Placement) -> dict[str, str]:
        """Process -> the machine that it lives on."""
        return {spec.name: spec.machine for spec in placement.processes}

    @abstractmethod
    def prices(self, placement: Placement) -> Prices:
        """For each kind of machine: how many there are, its name, and its price per hour if it is
        known."""


class Profile:
    """The profile in a file. Raises ConfigError as `read_table` does, and for a wrong entry."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.notes = list[str]()
        self.of_run = False
        self._table = read_table(file)
        ServiceTimes(self._table, 1, str(file))

    def with_rows(self, topology: Topology, *, told: bool) -> None:
        """Add rows to durations that a run wrote, since these come without rows.

        They count as measured in this topology. `told`: the topology is that of the run's own
        configuration; else it is supposed.
        """
        filled = _with_rows(self._table, topology)
        self.of_run = filled != self._table
        if self.of_run and not told:
            text = (
                "it does not say on how many rows its times were measured: counted as "
                "the rows of this plan's workers"
            )
            self.notes.append(f"{self.file}: {text}")
        self._table = filled

    def times(self, topology: Topology) -> Times:
        """Work without rows that has no entry is counted as 0, and the prediction notes it."""
        found = Times.of_profile(self._table, str(self.file))
        roles = {actor.name: actor.role for actor in topology.actors}
        missing = {
            f"{roles[name]}/{load.label}": None
            for name, loads in loads_of(Shapes(plainly(topology))).items()
            for load in loads
            if load.rows and found.moments(name, roles[name], load.label, load.rows) is None
        }
        if missing:
            first, *more = missing
            others = f" and {len(more)} other{'s' if more[1:] else ''}" if more else ""
            text = f"no entry fits '{first}'{others}: it is of another net or preset"
            raise ConfigError(
                [(f"{self.file}: {text}; {shown('time --profile FILE')} writes one for this plan")]
            )
        return found


def _with_rows(table: Mapping[str, Any], topology: Topology) -> dict[str, Any]:
    """Lists of durations, as runs write them, together with the rows of their work."""
    roles = {actor.name: actor.role for actor in topology.actors}
    filled = dict(table)
    for (actor, label), rows in rows_of(topology).items():
        for key, value in table.items():
            who, _, what = key.partition("/")
            named = fnmatch.fnmatchcase(roles[actor], who) or fnmatch.fnmatchcase(actor, who)
            if named and fnmatch.fnmatchcase(label, what):
                if isinstance(value, list):
                    filled[key] = {"seconds": value, "rows": rows}
                break
    return filled
