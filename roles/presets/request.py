"""The request that every preset gets, the declaration of a preset, and the coordinator that all
presets have."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from roles.coordination.coordinator import CoordinatorOptions
from roles.coordination.regroup import FIXED, Live
from roles.coordination.schedule import Timetable
from roles.exchange.chosen_exchange import Chosen, exchange_called
from roles.exchange.exchange import TREE, Between, Home, Layout, Members
from roles.learning.batch_split import Cutting
from roles.learning.job import InputShape, Job
from roles.learning.local_steps import LocalSteps
from roles.options import Strategy
from roles.tuning.compensation import Compensation
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
)  # the keys of [train.strategy] that only some presets use


@dataclass(frozen=True)
class Request:
    """The input of a preset's layout: the job, the strategy's options, and the facts on net and
    data.

    `layers`: the number of parameters of each layer of the part that the workers compute, in net
    order. `exchange`: the name of the exchange for workers with replicas. `options`: the preset's
    own (`Preset.options`). `hosts`: the hosts of the topology's actors, in the order of the
    machines; a single host of all actors, or none, where sums do not depend on hosts. `between`:
    the ways of sums from host to host. `heals`: if a worker dies, the run goes on from the memory
    of another worker, which has the whole model. `compensation`: the way in which momentum follows
    the number of groups; None: it does not. `speeds`: the speed of each worker's machine in the
    order of ranks, which decides on the sizes of groups; () if they are equally large. `expected`:
    worker -> this speed, where it decides on the first shares of a batch. `spared`: the ranks of
    workers that the plan leaves out, for presets whose workers learn apart.
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
    compensation: Compensation | None = None
    speeds: tuple[float, ...] = ()
    expected: Mapping[str, float] = field(default_factory=dict)
    spared: frozenset[int] = frozenset()

    @property
    def cutting(self) -> Cutting:
        """How batches are cut among the members of a group."""
        said = Cutting(**self.strategy.cutting)
        if not self.expected:
            return said
        return replace(said, in_proportion=True, expected=tuple(self.expected.items()))

    @property
    def workers(self) -> int:
        """The number of workers."""
        return self.strategy.workers

    @cached_property
    def homes(self) -> dict[str, str]:
        """Actor -> the host where it will live; empty where there is one host."""
        return (
            {name: host.name for host in self.hosts for name in host.actors}
            if len(self.hosts) > 1
            else {}
        )

    def exchanged(self, names: Sequence[str], server: str = "accumulator") -> tuple[Chosen, Layout]:
        """The exchange of the workers of these names: their options, and the servers and links that
        it needs.

        `server`: the name of the actor that adds up for all, if the exchange has one.
        """
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
        """The hosts of these workers. The host of the first worker comes first."""
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
    """A strategy: its layout, and its demands on the net.

    `uses`: the keys of `SHAPE` that it uses. Other keys are refused, and so are those of
    `uses_live` where groups cannot be changed. `part`: the part of the net that its workers
    compute. `joint`: the norm of all gradients of an iteration is known where parameters are
    updated: by one actor with all layers, or by actors that share it. `groups`: the
    number of groups of workers. `servers`: the number of model servers that share the layers; 0
    where it cannot be chosen. `shards`: the number of servers that share the FC phase by output
    units; 0 if they do not. `averages`: its workers train separate models, and all of them meet
    before a test. `races`: updates race. `alone`: it has one worker, whatever `workers` is.
    `exchange`: the default exchange of its workers, which hold replicas. `options`: a dataclass for
    the keys of [train.strategy.options]; None: it has none. Its method `check(strategy)`, if it has
    one, raises ValueError for keys that do not suit the strategy.

    `compensates`: the solver's momentum is lowered where asynchronous groups act like momentum,
    unless cluster.toml sets a momentum. Presets that stand for other systems leave it as it is.

    `equals_single`: with one group and without `variable_batch` it computes the same as the preset
    `single`. Every update is then the gradient of a whole batch at the parameters before it. Only
    such a preset may be chosen by `preset = "auto"`.

    `scatters`: consecutive batches go to different workers, so that recurrent layers could not hand
    on their states.
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
    compensates: bool = False
    scatters: bool = False

    def groups_in_all(self, strategy: Strategy) -> int:
        """The number of groups that do not wait for one another. A pipeline multiplies them."""
        return self.groups(strategy) * strategy.pipeline


def keys(names: str) -> frozenset[str]:
    """A set of keys of `SHAPE`, written one after the other."""
    return frozenset(names.split())


def as_many_as_workers(strategy: Strategy) -> int:
    """One group for each worker."""
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
    local: LocalSteps | None = None,
    outer: str = "",
) -> ActorSpec:
    """The coordinator, which is the lead.

    `updates`: the number of model servers that report an iteration. `servers`: the actors that hold
    the state to save. `holders`: the actors that hold parameters; by default the same. `live`: the
    groups that the run may change to. `replicas`: the actors that have the whole model after whole
    iterations. `local`: how many iterations a worker does between two exchanges. `outer`: the
    server of workers that come and go; "": none do.
    """
    options = CoordinatorOptions(
        job=request.job,
        timetable=request.timetable,
        groups=tuple(tuple(members) for members in groups),
        updates=updates,
        servers=tuple(servers),
        display=request.display,
        image_shape=request.image_shape,
        holders=tuple(servers if holders is None else holders),
        shares=request.cutting,
        live=live,
        replicas=tuple(replicas),
        compensation=request.compensation,
        local=local,
        outer=outer,
    )
    return ActorSpec(COORDINATOR, "coordinator", options)
