"""The speeds of workers whose machines have kinds: the sizes of groups, and the first shares of a
batch, follow them (Omnivore, D.1.3 and 5.1)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from roles.forecasting.catalogue import Kind, kinds_of
from roles.learning.batch_split import Shares
from roles.planning.diagnostics import Diagnostics
from roles.presets.request import Request
from runtime.config.sections import ClusterConfig
from runtime.errors import ConfigError
from runtime.plan.placement import place
from runtime.plan.topology import Topology

Lay = Callable[[Request], Topology]
Devices = Callable[[Topology], Mapping[str, str]]  # worker -> device, as far as one is named
CPU = "cpu"
MOVED = (
    "groups are equally large, although their machines have kinds of different speeds: with other "
    "sizes, [[process]] would not fit the workers"
)
TOO_LARGE = "groups are equally large, although their machines have kinds of different speeds: {}"


def noted_kinds(config: ClusterConfig, remarks: Diagnostics) -> dict[str, Kind]:
    """Machine -> its kind. Empty if cluster.toml gives no kinds. Notes unknown kinds."""
    try:
        return kinds_of(config)
    except ConfigError as error:
        remarks.problems += error.problems
        return {}


def with_speeds(
    lay: Lay,
    request: Request,
    config: ClusterConfig,
    kinds: Mapping[str, Kind],
    remarks: Diagnostics,
    devices: Devices,
) -> Request:
    """Return the request with the speeds of the workers, if their machines or their devices have
    different ones. `kinds`: machine -> its kind. `devices` finds the devices of the workers. Raises
    ConfigError as `place` does."""
    strategy = request.strategy
    different = {(kind.achieved, kind.devices) for kind in kinds.values()}
    beside = any(kind.cpu_achieved for kind in kinds.values())
    if (len(different) < 2 and not beside) or strategy.reproducible:
        return request
    found = _speeds(lay(request), config, kinds, devices)
    if len({*found.all.values()}) < 2:
        return request
    if strategy.shares != "equal" and (strategy.live or found.shared):
        request = replace(request, expected=found.all)
    if strategy.live or strategy.groups == 1:
        return request  # groups that can be changed are always as equal as possible
    sizes = found.first_turns(strategy.pipeline)
    sized = replace(request, speeds=sizes)
    topology = lay(sized)
    try:
        again = _speeds(topology, config, kinds, devices)
    except ConfigError:  # a rule names a worker that these groups do not have
        again = None
    if again is None or again.first_turns(strategy.pipeline) != sizes:
        remarks.warn(MOVED, "train", "strategy", "groups")
        return request
    shares = Shares(request.cutting)
    many = {len(members) for members in again.groups}
    if why := next(filter(None, (shares.problem(n, request.job.batch) for n in many)), ""):
        remarks.warn(TOO_LARGE.format(why), "train", "strategy", "groups")
        return request
    return replace(sized, expected=again.all if request.expected else {})


@dataclass(frozen=True)
class _Speeds:
    """The groups of a topology by rank, and the speed of each worker in this order."""

    groups: Sequence[Sequence[str]]
    all: Mapping[str, float]

    @property
    def shared(self) -> bool:
        """Whether a batch is cut among several workers."""
        return any(len(members) > 1 for members in self.groups)

    def first_turns(self, pipeline: int) -> tuple[float, ...]:
        """The speeds of one worker of each process of a pipeline, by rank."""
        return tuple(self.all[name] for members in self.groups[::pipeline] for name in members)


def groups_of(topology: Topology) -> Sequence[Sequence[str]]:
    """The workers of each group by rank, as the lead has them."""
    lead = next(actor.options for actor in topology.actors if actor.name == topology.lead)
    found: Sequence[Sequence[str]] = getattr(lead, "groups", ())
    return found


def _speeds(
    topology: Topology, config: ClusterConfig, kinds: Mapping[str, Kind], devices: Devices
) -> _Speeds:
    """The speed of a worker is its share of its machine's FLOP/s. The processes with workers on a
    machine share its devices, or, if other workers are on GPUs, its processors."""
    placement = place(topology, config)
    groups = groups_of(topology)
    workers = [name for members in groups for name in members]
    home = placement.process_of()
    machine_of = {spec.name: spec.machine for spec in placement.processes}
    at = {name: machine_of[home[name]] for name in workers}
    device = devices(topology)
    on_cpus = {name for name in workers if device.get(name, CPU) == CPU}
    with_gpus = len(on_cpus) < len(workers)
    beside = {name for name in on_cpus if with_gpus and kinds[at[name]].cpu_achieved is not None}
    crowd = Counter(
        (machine_of[process], cpu)
        for process, cpu in {(home[name], name in beside) for name in workers}
    )
    speeds = {}
    for name in workers:
        many = crowd[at[name], name in beside]
        kind = kinds[at[name]]
        speeds[name] = (kind.cpu_achieved or 0.0) / many if name in beside else kind.of_each(many)
    return _Speeds(groups, speeds)
