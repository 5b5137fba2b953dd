"""The observer of a run, which compares the predicted with the measured time of an iteration.

It predicts the time of an iteration from the service times of the first seconds. From time to time
it predicts again from those of the last seconds. A wrong prediction is reported with its cause, and
replaced by one from the present times. See docs/programs.md for observers, and docs/tuning.md for
the events of this one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from roles.forecasting.fitted_model import PROCESSORS, Fit, Fitted, network_of, processors_of
from roles.forecasting.live_times import LiveTimes
from roles.forecasting.prediction import device
from roles.forecasting.prediction_error import TOLERATED, Patience, difference
from roles.learning.scoreboard import HELD, RELEASED
from runtime.compute.work_sums import Sums, processor_seconds
from runtime.config.sections import ClusterConfig
from runtime.durations import duration
from runtime.plan.topology import Placement

FIRST_SECONDS = 2.0  # of training, before anything is predicted from them
FIRST_ITERATIONS = 10
EVERY = 3.0  # seconds between two events at least
CHANGED = 0.03  # the change, of the last seconds or of use, that is worth another event
AGAIN = 10.0  # seconds until the next prediction; then twice as many, and so on
# the processor time that predictions may take, as a part of real time: the first machine trains as
# well, and it may be slow. Without this limit, `up` used a third of the core that it shared with a
# worker of eight.
SHARE = 0.01
# seconds between two looks at all stations: every process reports its work once a second, so a look
# at each report would cost a run of many processes the square of their number
LOOKS = 1.0

MakeGauge = Callable[..., Any]
Told = Iterator[tuple[str, dict[str, Any]]]
Use = Mapping[str, float]  # station -> 0 to 1
REGROUPED = "regrouped"


@dataclass(frozen=True)
class _Said:
    """The last event: its time, and the values whose change makes another event worthwhile."""

    at: float = float("-inf")
    predicted: float = 0.0
    measured: float = 0.0
    busiest: str = ""

    def is_old(self, now: _Said) -> bool:
        """True if the values of `now` are worth another event."""
        pairs = ((now.predicted, self.predicted), (now.measured, self.measured))
        changed = any(abs(after - before) > CHANGED * before for after, before in pairs)
        return now.at - self.at >= EVERY and (changed or now.busiest != self.busiest)


class Forecaster:
    """The observer of one run. Times are loop time in seconds."""

    hears = frozenset({REGROUPED, HELD, RELEASED})

    def __init__(self, placement: Placement, config: ClusterConfig, gauge: MakeGauge) -> None:
        network, self._unknown = network_of(placement, config)
        self._processors = processors_of(config)
        learns = config.simulation.clock == "real"
        self._model = Fitted(placement, network, learns=learns, processors=self._processors)
        home = placement.process_of()
        actors = placement.topology.actors
        self._device = {actor.name: device(actor, home) for actor in actors}
        self._live = LiveTimes(placement.topology.lead)
        self._patience = Patience()
        self._fit: Fit | None = None
        self._is_wrong = True  # until there is one that holds
        self._is_held = False
        self._due = self._period = 0.0
        self._is_real = learns  # predictions take no virtual time
        self._rests = self._looked = -math.inf  # nothing is predicted until then; the last look
        self._said = _Said()
        self._gauge = gauge

    def __repr__(self) -> str:
        return f"<forecaster: {self._model!r}, {self._live!r}>"

    def worked(self, sums: Sums, now: float) -> Told:
        """Take sums of work, and return the events that they give rise to."""
        self._live.hear(sums, now)
        if self._is_held or now - self._looked < LOOKS:  # work while it is held is done for probes
            return
        self._looked = now
        measured = self._live.iteration_seconds
        if (
            self._live.iterations < FIRST_ITERATIONS
            or self._live.iterations * measured < FIRST_SECONDS
        ):
            return
        fit = self._fit
        is_due = self._is_wrong or (
            now >= self._due and fit is not None and self._holds(fit, measured)
        )
        if fit is None or (is_due and now >= self._rests):
            before = processor_seconds()
            fit = self._fit = self._model.fit(self._live.work(), measured, self._busy())
            if self._is_real:
                self._rests = now + (processor_seconds() - before) / SHARE
            self._is_wrong = False
            self._period = max(AGAIN, 2 * self._period)
            self._due = now + self._period
        elif (
            not self._is_wrong and fit.seconds and self._patience.lasted(fit.seconds, measured, now)
        ):
            yield from self._missed(fit, measured, now)
            return
        yield from self._say(fit, measured, now)

    def event(self, actor: str, event: str, fields: dict[str, Any], now: float) -> Told:
        """Take an event of an actor, and return the events that it gives rise to.

        After a change of groups or batch, the time is predicted at once from the times that were
        measured before. Work while the run is held does not count as work of the run.
        """
        self._is_held = event == HELD or (self._is_held and event != RELEASED)
        self._live.begin_with_the_next()
        if event != REGROUPED:
            self._patience.since = None
            return
        if not self._model.regroup(fields["workers"], fields["groups"], fields["batch"]):
            return
        self._patience = Patience()
        self._said = _Said()
        self._period = 0.0
        self._rests = -math.inf
        self._fit = self._model.unmeasured()
        if self._fit is not None:
            yield from self._say(self._fit, 0.0, now)

    def _holds(self, fit: Fit, measured: float) -> bool:
        return abs(measured - fit.seconds) <= TOLERATED * fit.seconds

    def _missed(self, fit: Fit, measured: float, now: float) -> Told:
        """Report a wrong prediction. The next prediction uses times from now on."""
        expected = {name: use * fit.seconds for name, use in fit.use.items()}
        miss = difference(
            fit.seconds,
            measured,
            expected,
            {name: use * measured for name, use in self._use(fit).items()},
        )
        if self._patience.is_news(miss, now):
            yield "misprediction", {"station": miss.station or "none", "why": miss.why}
        if not miss.station:
            self._model.forget()
        self._is_wrong = True
        self._patience.since = None
        self._period = 0.0
        self._live.begin_anew()

    def _use(self, fit: Fit) -> dict[str, float]:
        """The measured use of the stations that are predicted. Actors of one process share its
        device."""
        alone = self._live.use()
        shared = dict.fromkeys(self._device.values(), 0.0)
        for name, use in alone.items():
            shared[self._device[name]] += use
        found = {name: shared[self._device[name]] for name in alone} | {PROCESSORS: self._busy()}
        return {name: use for name, use in found.items() if name in fit.use}

    def _busy(self) -> float:
        """The share of all processors that the run keeps busy; 0 if it is not known."""
        return self._live.processors() / self._processors if self._processors else 0.0

    def _say(self, fit: Fit, measured: float, now: float) -> Told:
        """Show the values on the metrics page, and report them if they changed. `measured` 0:
        nothing is measured yet."""
        found = self._use(fit) if measured else {}
        self._show("predicted", fit.seconds, fit.use)
        self._show("measured", measured, found)
        use = found or fit.use
        said = _Said(now, fit.seconds, measured, self._busiest(use))
        if not self._said.is_old(said):
            return
        self._said = said
        notes = [*self._unknown, *fit.found.notes]
        text = f"predicted {duration(fit.seconds)}, " if fit.seconds else "not predicted, "
        text += (
            (f"measured {duration(measured)} an iteration")
            if measured
            else "an iteration, not measured yet"
        )
        text += f"; busiest: {said.busiest} {use[said.busiest]:.0%}" if said.busiest else ""
        yield (
            "prediction",
            {
                "text": text,
                "predicted_seconds": fit.seconds,
                "measured_seconds": measured,
                "work_seconds": fit.work,
                "message_seconds": fit.message,
                "rest_seconds": fit.rest,
                "busiest": said.busiest,
                "predicted_use": _rounded(fit.use),
                "measured_use": _rounded(found),
                "notes": notes,
            },
        )

    def _busiest(self, use: Use) -> str:
        """The busiest station. The one reported before stays as long as no other is clearly busier,
        since workers take turns."""
        found = max(sorted(use), key=use.__getitem__, default="")
        before = self._said.busiest
        return before if found and use.get(before, 0.0) > use[found] - CHANGED else found

    def _show(self, kind: str, seconds: float, uses: Use) -> None:
        """Show a prediction or measurement on the metrics page."""
        self._gauge(
            "iteration_seconds",
            (
                "Mean seconds of a training iteration, `predicted` and "
                "`measured` (page of `up`; docs/tuning.md)."
            ),
            kind=kind,
        ).set(seconds)
        for station, use in uses.items():
            text = (
                "Share of the time of training in which an actor's device works for the actor; "
                "`processors`: the same share for all processes together; predictions also have "
                "network interfaces, `PROCESS in` and `PROCESS out` (page of `up`)."
            )
            self._gauge("station_use_ratio", text, station=station, kind=kind).set(use)


observer = Forecaster  # the name by which the runtime finds the observer of a program


def _rounded(use: Use) -> dict[str, float]:
    return {name: round(share, 4) for name, share in sorted(use.items())}
