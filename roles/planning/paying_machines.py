"""The machines that pay in a run of islands. A machine whose worth is predicted to be below zero is
left out, unless cluster.toml keeps it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from roles.forecasting.island_machines import Home, home_of, outer_server_of
from roles.forecasting.island_worth import Worth, worths
from roles.forecasting.prediction_basis import PredictionInputs
from roles.forecasting.prediction_inputs import basis_of
from roles.planning.plan_inputs import PlanInputs, Spared
from runtime.errors import ConfigError
from runtime.plan.placement import place
from runtime.plan.prospects import Wanted
from runtime.plan.topology import Placement, Topology

WOULD = "the run would learn more without it"
KEPT = "cluster.toml keeps all machines (leave_out = false)"
NAMED = "kept, because other keys of cluster.toml name its processes"
BARE = " by the key speeds, as if links took no time"


def only_paying(
    topology: Topology, inputs: PlanInputs, again: Callable[[PlanInputs], Topology]
) -> Topology:
    """The topology on the machines that pay, which `again` plans. The same topology if it has no
    islands, if all machines pay, or if their speeds are not known before the run. Its line tells
    the worth of each machine."""
    if not outer_server_of(topology):
        return topology
    try:
        home = _home(topology, inputs)
    except ConfigError:
        return topology  # the caller places the topology next and gets this error then
    if home is None:
        return topology
    found = worths(home.machines, home.run)
    spared = [one for one in found if not one.used]
    keeps = not inputs.train.strategy.options.get("leave_out", True)
    if not spared or keeps:
        return replace(topology, decided=(told(found, KEPT if spared else "", home),))
    ranks = frozenset(rank for one in spared for rank in home.ranks[one.machine])
    machines = tuple(one.machine for one in spared)
    try:
        fewer = again(replace(inputs, spared=Spared(machines, ranks)))
        placed = place(fewer, inputs.config)
    except ConfigError:
        return replace(topology, decided=(told(found, NAMED, home),))
    if not all(map(placed.has_link, inputs.config.simulation.links)):
        return replace(topology, decided=(told(found, NAMED, home),))
    return replace(fewer, decided=(told(found, "", home),))


def worth_of(placement: Placement, basis: PredictionInputs) -> tuple[str, ...]:
    """The worth of the machines of a placed topology as a line. () without islands, or on one
    machine."""
    if not outer_server_of(placement.topology):
        return ()
    home = home_of(placement, basis)
    if not home.compares:
        return ()
    return (told(worths(home.machines, home.run), WOULD, home),)


def told(found: Sequence[Worth], kept: str, home: Home) -> str:
    """The worth of all machines of `home` as one line. `kept`: why those below zero are used."""
    paying = ", ".join(str(one) for one in found if one.used)
    rest = [one for one in found if not one.used]
    basis = "" if home.linked else BARE
    line = f"the worth of each machine{basis}, in what is learned in a second: {paying}"
    for one in rest:
        line += f"; {one}: {kept or 'left out'} ({one.why})"
    return line


def _home(topology: Topology, inputs: PlanInputs) -> Home | None:
    """The machines of cluster.toml. None if there are no several, or if nothing is known of their
    speeds. Raises ConfigError."""
    names = {machine.name for machine in inputs.config.machine}
    placement = place(topology, inputs.config)
    basis = basis_of(inputs.config, placement, Wanted())
    if basis is None and not inputs.train.strategy.options.get("speeds"):
        return None
    home = home_of(placement, basis)
    return home if home.compares and home.ranks.keys() <= names else None
