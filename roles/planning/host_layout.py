"""The layout of a preset's topology on its hosts, such that each host sums before it sends.

The hosts of actors follow from their names and roles. So a first layout is placed, and a second
layout uses the hosts of the first.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from roles.exchange.exchange import TREE, Between
from roles.exchange.halving import HalvingExchange
from roles.options import Strategy
from roles.planning.devices import by_machine, named_devices
from roles.planning.diagnostics import Diagnostics
from roles.planning.job_checks import CheckedJob
from roles.planning.kind_speeds import groups_of, noted_kinds, with_speeds
from roles.planning.plan_inputs import PlanInputs
from roles.presets.norm_shares import with_norm_shares
from roles.presets.request import Request
from runtime.config.sections import ClusterConfig
from runtime.errors import ConfigError
from runtime.plan.host_map import hosts_of, only_host, several
from runtime.plan.placement import place
from runtime.plan.program import checked as with_typed_options
from runtime.plan.topology import Topology
from runtime.queueing.all_reduce import ring_from

NO_WAYS = "has no effect: the workers are on one host"
MISALIGNED = (
    "sums are not made on each host first: a reproducible run adds up pairs of neighbours by "
    "rank, and its hosts have "
    "{} workers; expected 1, 2, 4 or 8 on each"
)
NOT_IN_PAIRS = (
    "found 'ring', but among more than two hosts a ring adds up in an order of "
    "its own: expected 'halving'"
)
NOT_BY_HALVES = "found 'halving' between {} hosts, but {}: expected 'auto', 'tree' or 'ring'"


def lay_out(inputs: PlanInputs, checked: CheckedJob, diagnostics: Diagnostics) -> Topology:
    """Return the preset's topology, with the tuner if there is something to choose. Notes what
    cannot be laid out."""

    def lay(request: Request) -> Topology:
        topology = with_typed_options(inputs.preset.layout(request))
        topology = with_norm_shares(topology, request.job)
        topology = replace(topology, unused=inputs.spared.machines)
        return inputs.auto.with_tuner(diagnostics, topology, request.timetable, inputs.config)

    def devices(topology: Topology) -> Mapping[str, str]:
        unheard = Diagnostics(inputs.config.raw, inputs.train)  # the briefing tells the mistakes
        found = by_machine(inputs.train.devices, topology, inputs.config, unheard)
        return named_devices(found, topology)

    kinds = noted_kinds(inputs.config, diagnostics)

    def with_workers_speeds(request: Request) -> Request:
        return with_speeds(lay, request, inputs.config, kinds, diagnostics, devices)

    request = _request(inputs, checked)
    return _for_hosts(lay, request, inputs.config, with_workers_speeds, diagnostics)


def _request(inputs: PlanInputs, checked: CheckedJob) -> Request:
    strategy = inputs.train.strategy
    return Request(
        job=checked.job,
        timetable=checked.timetable,
        display=checked.job.solver_spec.display,
        image_shape=checked.job.all_shapes(checked.sources),
        strategy=strategy,
        layers={
            layer: sum(math.prod(shape) for shape, _ in blobs)
            for layer, blobs in checked.layers.items()
        },
        exchange=strategy.exchange or inputs.preset.exchange,
        options=checked.options,
        heals=inputs.config.heals,
        compensation=checked.compensation,
        spared=inputs.spared.ranks,
    )


def _for_hosts(
    lay: Callable[[Request], Topology],
    request: Request,
    config: ClusterConfig,
    with_workers_speeds: Callable[[Request], Request],
    remarks: Diagnostics,
) -> Topology:
    """The topology of a request whose hosts are not known yet. Notes values of `between` that are
    impossible or without effect."""
    strategy = request.strategy
    if not several(config):
        _warn_of_ways(strategy, remarks)
        with suppress(ConfigError):  # the caller places the topology next and gets this error then
            request = with_workers_speeds(request)
        return lay(replace(request, hosts=(only_host(config),)))
    try:
        request = with_workers_speeds(request)
        topology = lay(request)
        hosts = hosts_of(place(topology, config), config)
    except ConfigError:
        return lay(request)  # the caller places the topology next and gets this error then
    homes = {name: host.name for host in hosts for name in host.actors}
    groups = groups_of(topology)
    count = max((len({homes[name] for name in members}) for members in groups), default=0)
    if count < 2:
        _warn_of_ways(strategy, remarks)
    if count > 1 and strategy.reproducible:
        if wrong := next(
            (sizes for members in groups if (sizes := _not_in_pairs(members, homes))), None
        ):
            remarks.warn(
                MISALIGNED.format(", ".join(map(str, wrong))), "train", "strategy", "reproducible"
            )
            return topology
        if count > 2 and strategy.between == "ring":
            remarks.problem(NOT_IN_PAIRS, "train", "strategy", "between")
    if strategy.between == "halving" and (why := HalvingExchange.refuses(count)):
        remarks.problem(NOT_BY_HALVES.format(count, why), "train", "strategy", "between")
        return topology
    return lay(replace(request, hosts=hosts, between=_between(strategy, count, config)))


def _not_in_pairs(members: Sequence[str], homes: Mapping[str, str]) -> list[int]:
    """The number of neighbours by rank on each host, if adding these up first makes other pairs
    than one process; else []."""
    runs = [
        (home, len(list(run))) for home, run in itertools.groupby(members, key=homes.__getitem__)
    ]
    sizes = [size for _, size in runs]
    first = runs[0][1]
    apart = len({home for home, _ in runs}) == len(runs)
    pairs = (
        first.bit_count() == 1 and all(size == first for size in sizes[:-1]) and sizes[-1] <= first
    )
    return [] if apart and pairs else sizes


def _between(strategy: Strategy, hosts: int, config: ClusterConfig) -> Between:
    """The ways of sums between this number of hosts."""
    if strategy.between != "auto":
        return ((0, strategy.between),)
    if not HalvingExchange.refuses(hosts):
        return ((0, "halving"),)  # never later than a tree or a ring (`all_reduce.halving_seconds`)
    road = config.simulation if config.simulation.clock == "virtual" else config.links
    least = ring_from(hosts, road.bytes_per_second, road.latency)
    if least is None:
        return TREE
    return (*TREE, (least, "ring")) if least else ((0, "ring"),)


def _warn_of_ways(strategy: Strategy, remarks: Diagnostics) -> None:
    if strategy.between != "auto":
        remarks.warn(NO_WAYS, "train", "strategy", "between")
