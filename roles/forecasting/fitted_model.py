"""The model of a live run: its topology, its service times, and the values that only the run
itself shows.

On one machine, links are shared memory. A message then costs only its handling (the interpreter,
waking a process), which no service time includes. So the model learns the seconds of a message once
and keeps them: for other groups they are part of the prediction and are not fitted again. On
virtual time the network is known, and nothing is learnt.

Processes of one machine also share its processors. An iteration cannot take less than the processor
time of all processes divided by the number of processors (the bottleneck law: Lazowska and others,
Quantitative System Performance, 1984, section 5.2). The part of that time that is not array work is
the handling of messages. With other groups, it changes in proportion to the number of messages in
an iteration.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from roles.base.shapes import Shapes
from roles.forecasting.live_times import Labels
from roles.forecasting.prediction import Network, Prediction, Rows, predict, rows_of, shapes_of
from roles.forecasting.regrouped import regrouped, with_batch
from roles.forecasting.work_times import Times
from runtime.machine.usable_cores import usable
from runtime.plan.topology import Placement, Topology
from runtime.queueing.work_graph import DRAWS

if TYPE_CHECKING:
    from runtime.config.sections import ClusterConfig

WAYS = (" in", " out")  # the ends of the names of interfaces (`Prediction.use`)
# the difference, as a part of the predicted seconds, up to which a network is as it was declared
ENOUGH = 0.10
TRIALS = 3  # predictions that learning the time of a message may cost
MESSAGES = 4  # messages that an iteration waits for, one after the other: the first guess
PROCESSORS = "processors"  # the station that all processes of this machine share
# seconds of an iteration per second of a message: with less, no message is waited for
SLOPE = 0.1
NEAR = 0.01  # the difference, as a part of the measured seconds, at which learning ends


@dataclass(frozen=True)
class Fit:
    """A prediction for a run.

    In seconds per iteration: `work` is the part that service times alone explain (0 from
    `Fitted.of_groups`, which does not compute it), `rest` the part that is neither work nor
    messages, and `processor` is processor time divided by the number of processors. `message`:
    seconds of one message.
    """

    found: Prediction
    work: float
    rest: float
    message: float
    processor: float = 0.0

    @property
    def seconds(self) -> float:
        """Predicted seconds of an iteration; 0 if no role declares its work."""
        return max(self.found.seconds + self.rest, self.processor) if self.found.seconds else 0.0

    @property
    def use(self) -> dict[str, float]:
        """Station -> its predicted use."""
        share = self.found.seconds / self.seconds if self.seconds else 1.0
        use = {name: use * share for name, use in self.found.use.items()}
        return use | (
            {PROCESSORS: self.processor / self.seconds} if self.processor and self.seconds else {}
        )


def network_of(placement: Placement, config: ClusterConfig) -> tuple[Network, list[str]]:
    """The network of [simulation], or of [links] between several hosts, and a line for each part of
    it that is not counted."""
    # the tuner, in a role process, does without these imports and their libraries
    from runtime.plan.host_map import several

    wanted = config.simulation
    if wanted.clock == "real" and not several(config):
        return Network(), []
    if wanted.clock == "real":
        machines = {spec.name: spec.machine for spec in placement.processes}
        return Network(config.links.latency, config.links.bytes_per_second, machines), []
    machines = (
        {spec.name: spec.machine for spec in placement.processes}
        if wanted.interfaces == "machine"
        else {}
    )
    unknown = (
        [(f"simulation.links: rates of single links are not counted: {', '.join(wanted.links)}")]
        if wanted.links
        else []
    )
    if wanted.interfaces == "link" and wanted.bytes_per_second:
        unknown.append('simulation.interfaces = "link" is counted as one interface of each process')
    return Network(wanted.latency, wanted.bytes_per_second, machines), unknown


def processors_of(config: ClusterConfig) -> int:
    """The number of processors that all processes share; 0 if it is not known, or they do not share
    any."""
    from runtime.config.sections import LOCAL

    if config.simulation.clock != "real" or config.launcher.kind != LOCAL:
        return 0
    return len(usable())


class Fitted:
    """The model of one run, whose topology has typed options. `learns`: the network does not
    include the time of a message, so it is learnt."""

    def __init__(
        self, placement: Placement, network: Network, *, learns: bool, processors: int = 0
    ) -> None:
        self._topology = placement.topology
        self._home = placement.process_of()
        self._rounds = 0  # of predictions, see `predict`
        self._draws = DRAWS
        self._network = self._declared = network
        self._learns = learns
        self._processors = processors
        self._roles = {actor.name: actor.role for actor in self._topology.actors}
        self._shapes: Shapes | None = None
        # groups -> the topology and its shapes, of so many workers and such a batch
        self._by_groups: dict[int, tuple[Topology, Shapes]] = {}
        self._sizes = (0, 0)
        self._times: Times | None = None
        # (latency, bytes per second, draws) -> what these times and this topology predict
        self._found: dict[tuple[float, float | None, int], Prediction] = {}
        self._rows: Rows = {}
        self._rest: float | None = None  # None: nothing is learnt yet
        # processor seconds of a second of array work, and of a message
        self._computing = self._handling = 0.0

    def __repr__(self) -> str:
        return f"<model of {len(self._roles)} actors, {self._network.latency:g} s a message>"

    def fit(
        self,
        work: Mapping[str, Labels],
        measured: float,
        busy: float = 0.0,
        *,
        rounds: int = 0,
        draws: int = DRAWS,
    ) -> Fit:
        """Predict from sums of work, while iterations took `measured` seconds and the run kept the
        share `busy` of all processors busy. Learns the time of a message if it is not known.

        `rounds`: these were the first iterations of groups that all began at once, so many of each
        group (`predict`); 0: iterations of a long run. `draws` as for `predict`.
        """
        self._rows = self._rows or rows_of(self._topology, self._known())
        self._times = Times.measured(work, self._roles, self._rows)
        self._found = {}
        self._rounds = rounds
        self._draws = draws
        try:
            return self._made(measured, busy)
        finally:
            self._rounds = 0
            self._draws = DRAWS
            self._found = {}

    def regroup(self, workers: int, groups: int, batch: int) -> bool:
        """Change to these groups and this batch. Return False if the run has them already."""
        if self._sizes != (workers, batch):
            self._sizes = workers, batch
            self._by_groups = {}
        if groups not in self._by_groups:
            topology = with_batch(regrouped(self._topology, workers, groups), batch)
            same = topology is self._topology
            shapes = self._known() if same else shapes_of(topology, self._network)
            self._by_groups[groups] = topology, shapes
        topology, shapes = self._by_groups[groups]
        if topology is self._topology:
            return False
        self._topology = topology
        self._rows = {}
        self._shapes = shapes
        self._found = {}
        return True

    def unmeasured(self) -> Fit | None:
        """Predict for groups that have not run yet, from the times of the groups before. None if no
        times are known."""
        return None if self._times is None else self._made(None)

    def of_groups(self, groups: int, *, rounds: int = 0, draws: int = DRAWS) -> Fit | None:
        """Predict for the same workers in `groups` groups, and leave the model as it is. `rounds`
        as for `fit`, `draws` as for `predict`. None if no times are known."""
        if self._times is None:
            return None
        lead = {actor.name: actor.options for actor in self._topology.actors}[self._topology.lead]
        other = copy(self)
        other._found = {}
        other.regroup(sum(map(len, lead.groups)), groups, lead.timetable.batch)
        other._rounds = rounds
        other._draws = draws
        found = other._with(self._network.latency)
        rest = other._rest or 0.0
        processor = other._processor(found) if self._learns else 0.0
        return Fit(found, 0.0, rest, self._network.latency, processor)

    def forget(self) -> None:
        """Learn the time of a message again with the next fit, from the declared network on."""
        self._rest = None
        self._network = self._declared

    def _made(self, measured: float | None, busy: float = 0.0) -> Fit:
        if not self._learns:
            found = self._with(self._network.latency)
            return Fit(found, found.seconds, 0.0, self._network.latency)
        alone = self._with(0.0, draws=1)
        if measured is not None:
            self._spend(alone, self._processors * busy * measured)
        if self._rest is None and alone.seconds and measured is not None:
            if self._explains(measured):
                self._rest = 0.0
            else:
                self._learn(self._with(0.0), measured)
        found = self._with(self._network.latency)
        alone = found if not self._network.latency else alone
        return Fit(
            found, alone.seconds, self._rest or 0.0, self._network.latency, self._processor(alone)
        )

    def _spend(self, alone: Prediction, seconds: float) -> None:
        """Note that an iteration takes `seconds` of processor time.

        Array work that waits for a processor uses less processor time than it lasts. Without
        messages, all processor time belongs to the work.
        """
        share = seconds / alone.work if alone.work else 0.0
        self._computing = min(1.0, share) if alone.messages else share
        self._handling = (
            (seconds - self._computing * alone.work) / alone.messages if alone.messages else 0.0
        )

    def _processor(self, alone: Prediction) -> float:
        seconds = self._computing * alone.work + self._handling * alone.messages
        return seconds / self._processors if self._processors else 0.0

    def _with(self, latency: float, draws: int = 0) -> Prediction:
        """Predict with this latency, each network once. `draws`: fewer than the usual ones."""
        assert self._times is not None
        network = replace(self._network, latency=latency)
        asked = latency, network.bytes_per_second, draws or self._draws
        if asked not in self._found:
            self._found[asked] = predict(
                self._topology,
                self._times,
                network,
                self._home,
                self._known(),
                rounds=self._rounds,
                draws=draws or self._draws,
            )
        return self._found[asked]

    def _known(self) -> Shapes:
        """The shapes of the topology, made at the first call."""
        if self._shapes is None:
            self._shapes = shapes_of(self._topology, self._network)
        return self._shapes

    def _explains(self, measured: float) -> bool:
        """Whether the network that the configuration declares explains the measured seconds."""
        if self._network.bytes_per_second is None:
            return False
        seconds = self._with(self._network.latency, draws=1).seconds
        return abs(measured - seconds) <= ENOUGH * seconds

    def _learn(self, without: Prediction, measured: float) -> None:
        """Learn the time of a message by secants, so that the prediction equals the measured
        seconds.

        If an interface is the busiest station, its rate is learnt instead. Where no message is
        waited for, the difference belongs to the iteration itself. No value is ever negative.
        """
        alone = without.seconds
        before = (0.0, alone)
        latency = (measured - alone) / MESSAGES
        self._rest = 0.0
        self._network = replace(self._network, latency=0.0)
        if alone >= measured:
            return
        if without.bottleneck.endswith(WAYS) and self._network.bytes_per_second is not None:
            self._learn_rate(self._network.bytes_per_second, alone, measured)
            return
        for _ in range(TRIALS):
            seconds = self._with(latency).seconds
            slope = (seconds - before[1]) / (latency - before[0])
            if slope < SLOPE:
                self._rest = measured - alone
                return
            before = (latency, seconds)
            latency = max(0.0, latency + (measured - seconds) / slope)
            if abs(measured - seconds) < NEAR * measured or latency == before[0]:
                break
        self._network = replace(self._network, latency=latency)

    def _learn_rate(self, rate: float, alone: float, measured: float) -> None:
        """Learn the rate of the interfaces by secants. `rate` is the present one, with which an
        iteration would take `alone` seconds."""
        before = (1.0, alone)
        slower = measured / alone  # times as long as a transfer at the present rate takes
        for _ in range(TRIALS):
            self._network = replace(self._network, bytes_per_second=rate / slower)
            seconds = self._with(0.0).seconds
            slope = (seconds - before[1]) / (slower - before[0])
            if abs(measured - seconds) < NEAR * measured or slope <= 0.0:
                return
            before = (slower, seconds)
            slower = max(1.0, slower + (measured - seconds) / slope)
            if slower == before[0]:
                return
        self._network = replace(self._network, bytes_per_second=rate / slower)
