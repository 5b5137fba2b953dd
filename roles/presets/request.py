"""What every preset is: what it is asked, what it says of itself, and the coordinator that all of
them have."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from roles.coordination.coordinator import CoordinatorOptions
from roles.coordination.regroup import FIXED, Live
from roles.coordination.schedule import Timetable
from roles.exchange.chosen_exchange import Chosen, exchange_called
from roles.exchange.exchange import TREE, Between, Home, Layout, Members
from roles.learning.batch_split import Cutting
from roles.learning.job import InputShape, Job
from roles.options import Strategy
from runtime.plan.host_map import Host
from runtime.plan.topology import ActorSpec, Topology

COORDINATOR = "coordinator"
CONV_MODEL = "conv_model"
FC_SERVER = "fc_server"
SHAPE = frozenset(
    (
        "workers",
        "groups",
        "servers",
        "fan_in",
        "tau",
        "shares",
        "live",
        "pipeline",
        "scheme",
        "variable_batch",
        "exchange",
        "between",
    )
)  # the keys of [train.strategy] that say something to some presets and nothing to others


@dataclass(frozen=True)
class Request:
    """What a preset is asked to lay out: the job, the strategy's options, and what is known of net
    and data.

    `layers` are the numbers of parameters of each layer of the part that the workers compute, in
    net order. `exchange` is the name of the one that workers with replicas use; `options` are those
    of the preset (`Preset.options`). `hosts` are those where actors of it will live, in the order
    of the machines; one of all, or none, where sums need not know. `between`: which way sums shall
    take from host to host. `heals`: should a worker die, the run goes on from the memory of another
    that has the whole model.
    """

    job: Job
    timetable: Timetable
    display: int
    image_shape: InputShape
    strategy: Strategy
    layers: Mapping[str, int]
    exchange: str = ""
    options: Any = None
    hosts: tuple[Host, ...] = ()
    between: Between = TREE
    heals: bool = False

    @property
    def workers(self) -> int:
        """How many."""
        return self.strategy.workers

    @cached_property
    def homes(self) -> dict[str, str]:
        """Actor -> the host where it will live, where there are several."""
        return (
            {name: host.name for host in self.hosts for name in host.actors}
            if len(self.hosts) > 1
            else {}
        )

    def exchanged(self, names: Sequence[str], server: str = "accumulator") -> tuple[Chosen, Layout]:
        """What workers of these names are told of their exchange, and what it needs besides.
        `server`: the name of an actor that adds up for all, should there be one."""
        homes = self._homes_of(names)
        members = Members(
            tuple(names),
            self.strategy.fan_in,
            kernels=self.job.kernels,
            dtype=self.job.dtype.name,
            server=server,
            cores=homes[0].cores if len(homes) == 1 else None,
            hosts=homes if len(homes) > 1 else (),
            between=self.between,
        )
        kind = (exchange_called(self.exchange).over_hosts if members.hosts else "") or self.exchange
        layout = exchange_called(kind).laid_out(members)
        return Chosen(kind, layout.options), layout

    def _homes_of(self, names: Sequence[str]) -> tuple[Home, ...]:
        """The hosts of these, that of the first of them first."""
        if len(self.hosts) == 1:
            return (Home(tuple(names), self.hosts[0].cores),)
        here = {
            host.name: tuple(name for name in names if self.homes[name] == host.name)
            for host in self.hosts
        }
        found = [Home(here[host.name], host.cores) for host in self.hosts if here[host.name]]
        return tuple(sorted(found, key=lambda home: names.index(home.members[0])))


@dataclass(frozen=True)
class Preset:
    """A strategy: how it is laid out, and what it asks of the net.

    `uses`: the keys of `SHAPE` that it looks at; others are refused, and so are those of
    `uses_live` where groups cannot be changed. `part` of the net is what its workers compute.
    `joint`: somebody holds the gradients of all layers of a pass at once. `groups`: how many groups
    of workers it makes. `servers`: how many model servers share the layers; 0 where that is not to
    be chosen. `shards`: over how many servers it shares out the FC phase by output units, if it
    does. `averages`: its workers learn apart, and before a test all of them meet. `races`: updates
    race. `alone`: one worker, whatever `workers` says. `exchange`: the one that its workers, which
    hold replicas, use if no other is named. `options`: a dataclass for the keys of
    [train.strategy.options]; None: it has none. `equals_single`: with one group, and without
    `variable_batch`, it computes what the preset `single` does: every update is the gradient of a
    whole batch at the parameters before it. Then `preset = "auto"` may choose it.
    """

    layout: Callable[[Request], Topology]
    uses: frozenset[str] = SHAPE
    uses_live: frozenset[str] = frozenset()
    part: str = "conv"
    joint: bool = False
    groups: Callable[[Strategy], int] = lambda strategy: 1
    servers: Callable[[Strategy], int] = lambda strategy: 0
    averages: bool = False
    races: bool = False
    alone: bool = False
    shards: Callable[[Strategy], int] = lambda strategy: 0
    exchange: str = ""
    options: type[Any] | None = None
    equals_single: bool = False


def keys(names: str) -> frozenset[str]:
    """Keys of `SHAPE`, written one after the other."""
    return frozenset(names.split())


def as_many_as_workers(strategy: Strategy) -> int:
    """Every worker a group of its own."""
    return strategy.workers


def as_chosen(strategy: Strategy) -> int:
    """As many groups as the key says."""
    return strategy.groups


def coordinator(
    request: Request,
    groups: Sequence[Sequence[str]],
    *,
    updates: int,
    servers: Sequence[str],
    holders: Sequence[str] | None = None,
    live: Live = FIXED,
    replicas: Sequence[str] = (),
) -> ActorSpec:
    """The lead. `updates`: how many model servers report an iteration; `servers`: who holds the
    state to save; `holders`: who holds parameters (none named: the same); `live`: what the run can
    become; `replicas`: who has the whole model after whole iterations."""
    options = CoordinatorOptions(
        job=request.job,
        timetable=request.timetable,
        groups=tuple(tuple(members) for members in groups),
        updates=updates,
        servers=tuple(servers),
        display=request.display,
        image_shape=request.image_shape,
        holders=tuple(servers if holders is None else holders),
        shares=Cutting(**request.strategy.cutting),
        live=live,
        replicas=tuple(replicas),
    )
    return ActorSpec(COORDINATOR, "coordinator", options)
