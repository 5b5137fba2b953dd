"""The inputs of predictions for a plan: the times of array work, the network, and the machines with
their prices.

The machines are either those of cluster.toml or rented ones of one kind. A rented machine has one
process that computes.
"""

from __future__ import annotations

import fnmatch
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from roles.base.shapes import Shapes
from roles.forecasting.catalogue import Kind, kind_called
from roles.forecasting.costs import ByFlops, loads_of, profile
from roles.forecasting.plan_forecast import plainly
from roles.forecasting.prediction import Network, rows_of
from roles.forecasting.work_times import Times
from runtime.compute.service_times import ServiceTimes, read_table
from runtime.config.sections import ClusterConfig
from runtime.errors import ConfigError
from runtime.plan.prospects import Prices, Wanted
from runtime.plan.topology import Placement, Topology

PRODUCTS_ONLY = "all work but matrix products: ReLU, pooling, updates, sums, reading data"
HANDLING = "the handling of messages, which takes time of the processors"


class PredictionInputs(ABC):
    """The inputs of a prediction. `name` describes them in words; `notes` lists what is not
    known."""

    name: str
    notes: tuple[str, ...] = ()

    @abstractmethod
    def times(self, topology: Topology) -> Times:
        """The times of the topology's work. Raises ConfigError that names work whose time is not
        known."""

    @abstractmethod
    def network(self, placement: Placement) -> Network:
        """The network between the processes."""

    @abstractmethod
    def machines(self, placement: Placement) -> Mapping[str, str]:
        """Process -> the machine that it lives on."""

    @abstractmethod
    def prices(self, placement: Placement) -> Prices:
        """For each kind of machine: how many there are, its name, and its price per hour if it is
        known."""


def basis_of(
    config: ClusterConfig, placement: Placement, wanted: Wanted, measured: Topology | None = None
) -> PredictionInputs | None:
    """The inputs that the user asked for.

    Without a request, the one profile that cluster.toml names for emulated devices; None if it
    names none. `measured`: the topology of the run to which the profile belongs. Raises
    ConfigError.
    """
    table = None
    if wanted.profile is not None:
        table = Profile(wanted.profile)
        table.with_rows(measured or placement.topology, told=measured is not None)
    elif (own := _own_profile(config, placement.topology)) is not None:
        table = Profile(own)
    if wanted.machine:
        return Rented(config, wanted, table)
    return None if table is None else Here(config, placement, table)


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
            text = (
                f"no entry fits '{first}'{f' and {len(more)} others' if more else ''}: it is "
                "of another net or preset"
            )
            raise ConfigError(
                [
                    (
                        f"{self.file}: {text}; `python -m runtime time --profile FILE` writes one "
                        "for this plan"
                    )
                ]
            )
        return found


class Here(PredictionInputs):
    """The machines of cluster.toml: this one, or those that [simulation] describes."""

    def __init__(self, config: ClusterConfig, placement: Placement, table: Profile) -> None:
        self._config = config
        self._table = table
        virtual = config.simulation.clock == "virtual"
        rate = config.simulation.bytes_per_second if virtual else None
        self._latency = config.simulation.latency if virtual else 0.0
        self._rate = rate
        self.name = (
            f"{table.file}, {'the network of [simulation]' if virtual else 'on this machine'}"
        )
        self.notes = (
            *table.notes,
            *self._unknown(placement, virtual),
            *(() if virtual else (HANDLING,)),
        )

    def times(self, topology: Topology) -> Times:
        return self._table.times(topology)

    def network(self, placement: Placement) -> Network:
        """Without a rate, the network is shared memory."""
        interfaces = (
            self.machines(placement) if self._config.simulation.interfaces == "machine" else {}
        )
        rate = None if self._rate is None else float(self._rate)
        credit = self._config.links.credit_bytes
        return Network(self._latency, rate, interfaces, credit)

    def machines(self, placement: Placement) -> Mapping[str, str]:
        """The machines are those of cluster.toml."""
        return {spec.name: spec.machine for spec in placement.processes}

    def prices(self, placement: Placement) -> Prices:
        """Only machines that have processes count."""
        used = {*self.machines(placement).values()}
        # the machines of one entry of the file, at one price
        alike: dict[tuple[int, float | None], list[str]] = {}
        for machine in self._config.machine:
            if machine.name in used:
                alike.setdefault((machine.entry, machine.price_per_hour), []).append(machine.name)
        return tuple((len(names), _from_to(names), price) for (_, price), names in alike.items())

    def _unknown(self, placement: Placement, virtual: bool) -> list[str]:
        if virtual:
            odd = self._config.simulation.links or self._config.simulation.interfaces == "link"
            return (
                [
                    (
                        "the rates of single links in [simulation]: every interface is counted "
                        "with the common rate"
                    )
                ]
                if odd
                else []
            )
        computing = loads_of(Shapes(plainly(placement.topology)))
        here = {machine.name for machine in self._config.machine if self._config.is_here(machine)}
        crowd = [
            spec
            for spec in placement.processes
            if spec.machine in here and set(spec.actors) & computing.keys()
        ]
        threads = sum(spec.threads for spec in crowd)
        cores = _cores()
        if threads <= cores or self._table.of_run:
            return []
        text = (
            f"{len(crowd)} processes compute with {threads} threads, and this machine has "
            f"{cores} cores"
        )
        return [
            (
                f"{text}: the time for which they wait for one another is in a profile of a "
                "run, not in one of `time`"
            )
        ]


class Rented(PredictionInputs):
    """Rented machines of one kind: one for each process with an actor that computes layers.

    Every other process lives on the machine of the first of its peers that has one. For example,
    the conv model lives with a conv worker, as Omnivore maps it (appendix D.4.2).
    """

    def __init__(self, config: ClusterConfig, wanted: Wanted, table: Profile | None) -> None:
        self._kind: Kind = kind_called(wanted.machine, wanted.machines)
        self._called = wanted.machine
        self._table = table
        self._credit = config.links.credit_bytes
        self._price = _only_price(config) or self._kind.price_per_hour
        kind = self._kind
        rate = (
            (f"{kind.bytes_per_second / 1e6:g} MB/s each way")
            if kind.bytes_per_second
            else "links without a limit"
        )
        self.name = (f"machines of kind {wanted.machine}, {rate}") + (
            f", times of {table.file}" if table else ""
        )
        unknown = [
            f"the {what} of {wanted.machine}, which is not known: counted as {value}"
            for what, value, known in (
                ("network's rate", "unlimited", kind.bytes_per_second),
                ("latency", "0", kind.latency),
            )
            if known is None
        ]
        self.notes = (*(table.notes if table else (PRODUCTS_ONLY,)), HANDLING, *unknown)

    def times(self, topology: Topology) -> Times:
        """Without a profile, times are calculated from FLOPs."""
        if self._table is not None:
            return self._table.times(topology)
        shapes = Shapes(plainly(topology))
        job = next(options.job for options in shapes.having("job").values())
        table = profile(shapes, ByFlops(shapes.net(job, "all"), self._kind.achieved).seconds)
        return Times.of_profile(table | {"*/read": 0, "*/gather": 0})

    def network(self, placement: Placement) -> Network:
        rate = self._kind.bytes_per_second
        every_second = None if rate is None else float(rate)
        return Network(
            self._kind.latency or 0.0, every_second, machines_of(placement), self._credit
        )

    def machines(self, placement: Placement) -> Mapping[str, str]:
        return machines_of(placement)

    def prices(self, placement: Placement) -> Prices:
        """The price of as many machines as there are."""
        return ((len({*machines_of(placement).values()}), self._called, self._price),)


def machines_of(placement: Placement) -> dict[str, str]:
    """Process -> the machine it lives on, which has the name of the process that computes there
    (see `Rented`)."""
    every = loads_of(Shapes(plainly(placement.topology)))
    computing = {name for name, loads in every.items() if any(load.rows for load in loads)}
    home = placement.process_of()
    found = {spec.name: spec.name for spec in placement.processes if computing & {*spec.actors}}
    left = [spec.name for spec in placement.processes if spec.name not in found]
    while left:
        near = dict[str, str]()
        for one, other in placement.topology.links:
            for mine, there in ((home[one], home[other]), (home[other], home[one])):
                if mine not in found and there in found:
                    near.setdefault(mine, found[there])
        found |= near or {name: name for name in left}  # processes without links
        left = [name for name in left if name not in found]
    return found


def _own_profile(config: ClusterConfig, topology: Topology) -> Path | None:
    """The profile of all emulated devices, or of real work on the virtual clock, if there is
    exactly one."""
    named = {
        actor.emulated["profile"]
        for actor in topology.actors
        if actor.emulated and actor.emulated["profile"]
    }
    if not named and config.simulation.service_times:
        named = {str(config.raw.path.parent / config.simulation.service_times)}
    return Path(named.pop()) if len(named) == 1 else None


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


def _from_to(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"


def _only_price(config: ClusterConfig) -> float | None:
    """The price of the one machine in cluster.toml, which counts instead of the catalogue's."""
    return config.machine[0].price_per_hour if len(config.machine) == 1 else None


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
