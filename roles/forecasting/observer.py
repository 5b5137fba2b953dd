"""Predicted beside measured, while a run goes on: its observer (docs/programs.md). What it says is in docs/tuning.md.

From the service times of the first seconds it predicts the time of an iteration, and again now and then from those of
the last seconds. What no service time explains (messages, waking, the interpreter) it learns once, as seconds a message
takes, and keeps: for other groups it is predicted, not fitted. A prediction that does not hold is told with its cause,
and replaced by one from the times of now.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from roles.forecasting.live_times import LiveTimes
from roles.forecasting.miss import TOLERATED, Miss, Patience, difference, spoken
from roles.forecasting.prediction import Network, Prediction, Rows, predict, rows_of
from roles.forecasting.regrouped import regrouped
from roles.forecasting.times import Times
from runtime.compute.work_sums import Sums
from runtime.config.sections import ClusterConfig
from runtime.plan.topology import Placement

FIRST_SECONDS, FIRST_ITERATIONS = 2.0, 5  # of training, before anything is predicted from them
EVERY = 3.0  # seconds between two events at least
CHANGED = 0.03  # of the seconds told last: what is worth another event
AGAIN = 10.0  # seconds until it is predicted anew; then twice as many, and so on
TRIALS = 3  # predictions that learning what a message takes may cost
TRIAL = 1e-4  # seconds that a message takes, in the first of them

MakeGauge = Callable[..., Any]
Told = Iterator[tuple[str, dict[str, Any]]]


def observer(placement: Placement, config: ClusterConfig, gauge: MakeGauge) -> Forecaster:
    """What the runtime asks of a program, see docs/programs.md."""
    wanted = config.simulation
    if wanted.clock == "real":
        return Forecaster(placement, Network(), gauge, learns=True)
    interfaces = {}
    if wanted.interfaces == "machine":
        interfaces = {spec.name: spec.machine for spec in placement.processes}
    network = Network(wanted.latency, wanted.bytes_per_second, interfaces)
    unknown = [f"simulation.links: their own rates are not counted: {', '.join(wanted.links)}"] if wanted.links else []
    if wanted.interfaces == "link" and wanted.bytes_per_second:
        unknown.append('simulation.interfaces = "link": counted as one interface per process')
    return Forecaster(placement, network, gauge, learns=False, notes=unknown)


@dataclass(frozen=True)
class _Held:
    """A prediction that holds until it is seen to be wrong: `work` is what service times alone explain of it, `rest`
    what is neither work nor messages; all are seconds an iteration."""

    found: Prediction
    work: float
    rest: float

    @property
    def seconds(self) -> float:
        """Predicted, of an iteration."""
        return self.found.seconds + self.rest


class Forecaster:
    """Of one run. `learns`: the time that messages take is not in the network, but learnt from the run. Loop time."""

    hears = frozenset({"regrouped"})

    def __init__(
        self, placement: Placement, network: Network, gauge: MakeGauge, *, learns: bool, notes: list[str] | None = None
    ) -> None:
        self._topology, self._home = placement.topology, placement.process_of()
        self._network, self._learns, self._notes = network, learns, notes or []
        self._roles = {actor.name: actor.role for actor in self._topology.actors}
        self._emulated = {actor.name for actor in self._topology.actors if actor.emulated is not None}
        self._live, self._patience = LiveTimes(self._topology.lead), Patience()
        self._rows: Rows = {}
        self._rest: float | None = None  # seconds an iteration, once it is learnt
        self._held: _Held | None = None
        self._times: Times | None = None  # of which it was made
        self._due = self._period = 0.0
        self._told: tuple[float, float, float, str] = (
            float("-inf"),
            0.0,
            0.0,
            "",
        )  # when, predicted, measured, busiest
        self._gauge = gauge

    def __repr__(self) -> str:
        return f"<forecaster of {len(self._roles)} actors, {self._live!r}>"

    def worked(self, sums: Sums, now: float) -> Told:
        """See Observer."""
        self._live.hear(sums, now)
        measured = self._live.iteration_seconds
        if self._live.iterations < FIRST_ITERATIONS or self._live.iterations * measured < FIRST_SECONDS:
            return
        held = self._held
        if held is None:
            held = self._predict(measured)
        elif self._patience.lasted(held.seconds, measured, now):
            miss = self._missed(held, measured)
            if self._patience.is_news(miss):
                yield "misprediction", {"station": miss.station or "none", "why": miss.why}
            self._rest = None if not miss.station else self._rest
            self._patience.since = None
            held = self._predict(measured)
        elif now >= self._due and abs(measured - held.seconds) <= TOLERATED * held.seconds:
            held = self._predict(measured)
        if held is not self._held:
            self._period = 2 * self._period if self._held is not None else AGAIN
            self._due, self._held = now + self._period, held
        yield from self._say(held, measured, now)

    def event(self, actor: str, event: str, fields: dict[str, Any], now: float) -> Told:
        """See Observer. Other groups: predicted at once from the times that were measured with those before."""
        topology = regrouped(self._topology, fields["workers"], fields["groups"])
        self._live.begin_anew()
        if topology is self._topology:
            return
        self._topology, self._patience, self._rows = topology, Patience(), {}
        if self._times is not None:
            found = predict(topology, self._times, self._network, self._home)
            self._held = _Held(found, found.seconds, self._rest or 0.0)
            self._due = self._period = 0.0
            yield from self._say(self._held, 0.0, now)

    def _predict(self, measured: float) -> _Held:
        """From the times of the window. What messages take is learnt if it is not known."""
        self._rows = self._rows or rows_of(self._topology)
        times = self._times = Times.measured(self._live.work(), self._roles, self._rows)
        if not self._learns:
            found = predict(self._topology, times, self._network, self._home)
            return _Held(found, found.seconds, 0.0)
        alone = self._with(times, 0.0)
        if self._rest is None:
            self._learn(times, alone.seconds, measured)
        found = self._with(times, self._network.latency) if self._network.latency else alone
        return _Held(found, alone.seconds, self._rest or 0.0)

    def _learn(self, times: Times, alone: float, measured: float) -> None:
        """What a message takes, by secants: so long that the prediction is what was measured. Where no message is
        waited for, what is missing is the iteration's own. Neither is ever negative."""
        before, latency, self._rest = (0.0, alone), TRIAL, 0.0
        self._network = replace(self._network, latency=0.0)
        if alone >= measured:
            return
        for _ in range(TRIALS):
            seconds = self._with(times, latency).seconds
            slope = (seconds - before[1]) / (latency - before[0])
            if slope <= 0:
                self._rest = measured - alone
                return
            before, latency = (latency, seconds), max(TRIAL / 100, latency + (measured - seconds) / slope)
            if abs(measured - seconds) < CHANGED / 3 * measured or latency == before[0]:
                break
        self._network = replace(self._network, latency=latency)

    def _with(self, times: Times, latency: float) -> Prediction:
        return predict(self._topology, times, replace(self._network, latency=latency), self._home)

    def _use(self) -> dict[str, float]:
        """Station -> its measured use: actors of one process share its device."""
        alone = self._live.use()
        device = {name: name if name in self._emulated else f"{self._home[name]}//" for name in alone}
        shared: dict[str, float] = {}
        for name, use in alone.items():
            shared[device[name]] = shared.get(device[name], 0.0) + use
        return {name: shared[device[name]] for name in alone}

    def _missed(self, held: _Held, measured: float) -> Miss:
        expected = {name: use * held.found.seconds for name, use in held.found.use.items()}
        found = {name: use * measured for name, use in self._use().items()}
        return difference(held.seconds, measured, expected, found)

    def _say(self, held: _Held, measured: float, now: float) -> Told:
        """`measured` 0: nothing yet."""
        share = held.found.seconds / held.seconds if held.seconds else 1.0
        predicted = {name: use * share for name, use in held.found.use.items()}
        found = {name: use for name, use in self._use().items() if name in predicted} if measured else {}
        busiest = max(found or predicted, key=(found or predicted).__getitem__, default="")
        self._show(held.seconds, measured, predicted, found)
        when, *before = self._told
        worth = [abs(a - b) > CHANGED * b for a, b in zip((held.seconds, measured), before[:2], strict=True)]
        if now - when < EVERY or not (any(worth) or busiest != before[2]):
            return
        self._told = (now, held.seconds, measured, busiest)
        text = f"predicted {spoken(held.seconds)}, "
        text += f"measured {spoken(measured)} an iteration" if measured else "an iteration, not measured yet"
        text += f"; busiest: {busiest} {(found or predicted)[busiest]:.0%}" if busiest else ""
        yield (
            "prediction",
            {
                "text": text,
                "predicted s": held.seconds,
                "measured s": measured,
                "work s": held.work,
                "message s": self._network.latency,
                "rest s": held.rest,
                "busiest": busiest,
                "predicted use": {name: round(use, 4) for name, use in sorted(predicted.items())},
                "measured use": {name: round(use, 4) for name, use in sorted(found.items())},
                "notes": [*self._notes, *held.found.notes],
            },
        )

    def _show(
        self, predicted: float, measured: float, predicted_use: dict[str, float], measured_use: dict[str, float]
    ) -> None:
        """On the metrics page."""
        for kind, seconds, uses in (("predicted", predicted, predicted_use), ("measured", measured, measured_use)):
            self._gauge("iteration_seconds", "Mean seconds of a training iteration.", kind=kind).set(seconds)
            for station, use in uses.items():
                text = "Share of the time in which a station works for training."
                self._gauge("station_use_ratio", text, station=station, kind=kind).set(use)
