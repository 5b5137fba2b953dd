"""The inputs of predictions for a plan: the times of array work, the network, and the machines with
their prices.

The machines are those of cluster.toml, which may have kinds, or rented ones of one kind
(`kind_machines`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from roles.base.shapes import Shapes
from roles.forecasting.costs import loads_of
from roles.forecasting.fitted_model import network_of
from roles.forecasting.kind_machines import OfKinds, kinds_for
from roles.forecasting.plan_forecast import plainly
from roles.forecasting.prediction import Network
from roles.forecasting.prediction_basis import HANDLING, PredictionInputs, Profile
from roles.forecasting.work_times import Times
from runtime.config.sections import ClusterConfig
from runtime.machine.usable_cores import usable
from runtime.plan.host_map import several
from runtime.plan.prospects import Prices, Wanted
from runtime.plan.topology import Placement, Topology


def basis_of(
    config: ClusterConfig, placement: Placement, wanted: Wanted, measured: Topology | None = None
) -> PredictionInputs | None:
    """The inputs that the user asked for.

    Without a request, the kinds of the machines in cluster.toml, and the one profile that it names
    for emulated devices; None if it has neither. `measured`: the topology of the run to which the
    profile belongs. Raises ConfigError.
    """
    table = None
    if wanted.profile is not None:
        table = Profile(wanted.profile)
        table.with_rows(measured or placement.topology, told=measured is not None)
    elif (own := _own_profile(config, placement.topology)) is not None:
        table = Profile(own)
    if machines := kinds_for(config, wanted):
        return OfKinds(config, machines, table, placement)
    return None if table is None else Here(config, placement, table)


class Here(PredictionInputs):
    """The machines of cluster.toml: this one, or those that [simulation] describes."""

    def __init__(self, config: ClusterConfig, placement: Placement, table: Profile) -> None:
        self._config = config
        self._table = table
        virtual = config.simulation.clock == "virtual"
        where = "the network of [links]" if several(config) else "on this machine"
        self.name = f"{table.file}, {'the network of [simulation]' if virtual else where}"
        self.notes = (
            *table.notes,
            *self._unknown(placement, virtual),
            *(() if virtual else (HANDLING,)),
        )

    def times(self, placement: Placement) -> Times:
        return self._table.times(placement.topology)

    def network(self, placement: Placement) -> Network:
        """The network of [simulation], or of [links] between hosts. Within one host it is shared
        memory."""
        network, _ = network_of(placement, self._config)
        return replace(network, credit_bytes=self._config.links.credit_bytes)

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
        cores = len(usable())
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


def _own_profile(config: ClusterConfig, topology: Topology) -> Path | None:
    """The profile of all emulated devices, or of real work on the virtual clock, if there is
    exactly one."""
    named = {
        actor.emulated["profile"]
        for actor in topology.actors
        if actor.emulated and actor.emulated["profile"]
    }
    if not named and config.simulation.service_times:
        named = {str(config.raw.base / config.simulation.service_times)}
    return Path(named.pop()) if len(named) == 1 else None


def _from_to(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"
