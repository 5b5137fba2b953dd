"""Predictions of how long an iteration of each candidate takes, before any of them runs.

On an emulated cluster the times come from its profile. Otherwise layers are measured here, with the
numbers of threads and rows that the candidates' workers have.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from nets import NetError
from ops import OpsError
from roles.base.role import EMULATED
from roles.base.shapes import Shapes
from roles.choosing.preset_candidates import Candidate
from roles.forecasting.costs import Timed, loads_of
from roles.forecasting.fitted_model import PROCESSORS, network_of, processors_of
from roles.forecasting.layer_times import table_of, timed_quickly
from roles.forecasting.plan_forecast import plainly
from roles.forecasting.prediction import Network, Prediction, predict
from roles.forecasting.prediction_inputs import basis_of
from roles.forecasting.work_times import Times
from roles.learning.job import Job
from runtime.compute.threads import using
from runtime.config.sections import ClusterConfig
from runtime.errors import ConfigError
from runtime.plan.prospects import Wanted
from runtime.plan.topology import Placement

# seconds that a message takes from one process of a machine to another, and as many seconds of a
# processor: half of an ask and its answer
MESSAGE = 77e-6  # (messages-avx2)
NO_TIME = {"*/*": 0}
Way = tuple[str, int]  # device, threads


@dataclass(frozen=True)
class Speed:
    """Predicted seconds of an iteration, and the busiest station with its use from 0 to 1."""

    seconds: float
    busiest: str
    use: float

    @staticmethod
    def of(found: Prediction) -> Speed:
        """The speed that a prediction gives."""
        return Speed(found.seconds, found.bottleneck, found.use.get(found.bottleneck, 0.0))


Speeds = dict[int, Speed]  # by the number of groups


def speeds(
    config: ClusterConfig, found: Iterable[Candidate]
) -> tuple[dict[str, Speeds], dict[str, str]]:
    """The speeds of each candidate by its name, for each number of groups that it may have; and the
    reason for each candidate that cannot be predicted. Raises ConfigError if layers cannot be
    timed."""
    known: dict[str, Speeds] = {}
    left: dict[str, str] = {}
    here: list[_Measured] = []
    for candidate in found:
        measured = [_Measured(candidate, groups) for groups in candidate.counts]
        if measured[0].way[0] != EMULATED and config.simulation.clock == "real":
            here += measured
            continue
        try:
            known[candidate.name] = {
                each.groups: _emulated(config, each.placement) for each in measured
            }
        except ConfigError as error:
            left[candidate.name] = error.problems[0]
    try:
        for each, speed in _measured(config, here):
            known.setdefault(each.candidate.name, {})[each.groups] = speed
        return known, left
    except (NetError, OpsError, OSError) as error:
        raise ConfigError([f"preset 'auto': its layers cannot be timed: {error}"]) from None


class _Measured:
    """The rows, the device and the threads with which the layers of a candidate must be measured,
    for one number of groups."""

    def __init__(self, candidate: Candidate, groups: int) -> None:
        self.candidate = candidate
        self.groups = groups
        self.placement = candidate.in_groups(groups)
        self.shapes = Shapes(plainly(self.placement.topology))
        loads = loads_of(self.shapes)
        self.rows = {load.rows for of in loads.values() for load in of if load.rows}
        working = {name for name, of in loads.items() if any(load.rows for load in of)}
        jobs = {
            actor.name: actor.options.job
            for actor in candidate.topology.actors
            if hasattr(actor.options, "job")
        }
        self.job: Job = next(jobs[name] for name in [*sorted(working & jobs.keys()), *jobs])
        emulated = any(actor.emulated is not None for actor in candidate.topology.actors)
        threads = [spec.threads for spec in self.placement.processes if working & {*spec.actors}]
        self.way: Way = EMULATED if emulated else self.job.device, max(threads, default=1)

    def speed(self, times: Timed, network: Network, processors: int) -> Speed:
        """The candidate's speed with these times of layers.

        An iteration takes at least the time that its work and its messages need of all processors,
        divided by their number `processors`. 0: processes do not share processors.
        `network`: the network between hosts; a message also takes MESSAGE.
        """
        placement = self.placement
        table = Times.of_profile(table_of(self.shapes, times))
        network = replace(network, latency=network.latency + MESSAGE)
        found = predict(placement.topology, table, network, placement.process_of())
        if not processors:
            return Speed.of(found)
        busy = (
            spec.threads * max(found.use.get(name, 0.0) for name in spec.actors)
            for spec in placement.processes
        )
        least = (sum(busy) * found.seconds + found.messages * MESSAGE) / processors
        return Speed(least, PROCESSORS, 1.0) if least > found.seconds else Speed.of(found)


def _measured(config: ClusterConfig, here: list[_Measured]) -> Iterator[tuple[_Measured, Speed]]:
    """The speeds of these candidates. Each number of rows is timed once for each device and number
    of threads."""
    rows = defaultdict[Way, set[int]](set)
    jobs = dict[Way, Job]()
    for each in here:
        rows[each.way] |= each.rows
        jobs[each.way] = each.job
    for way, job in jobs.items():
        with using(way[1]), np.errstate(over="ignore"):
            times = timed_quickly(job, rows[way] or {job.batch})
        processors = processors_of(config) if job.device == "cpu" else 0
        for each in (each for each in here if each.way == way):
            network, _ = network_of(each.placement, config)
            yield each, each.speed(times, network, processors)


def _emulated(config: ClusterConfig, placement: Placement) -> Speed:
    """The speed on emulated devices or the virtual clock. Raises ConfigError if their profile does
    not have this preset's work."""
    basis = basis_of(config, placement, Wanted())
    network, _ = network_of(placement, config)
    times = Times.of_profile(NO_TIME) if basis is None else basis.times(placement)
    return Speed.of(predict(placement.topology, times, network, placement.process_of()))
