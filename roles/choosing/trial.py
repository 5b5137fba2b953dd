"""Trials of single presets: short runs that show how long an iteration takes, and what it is worth.

A `PresetTrial` measures the seconds of an iteration. A `LearningTrial` is the trial of a preset
whose groups are chosen too. Theory supposes that an iteration of g groups is worth one of one
group; whether the net bears that, only training shows. So the trial has the run's own tuner, and
ends with the tuner's first choice.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from roles.checkpoints.checkpoint_timing import NEVER
from roles.choosing.counted import Counted
from roles.choosing.iteration_worth import late_iterations
from roles.choosing.preset_candidates import as_trial
from roles.choosing.stopwatch import PROGRESS, Stopwatch, apart
from roles.coordination.coordinator import CoordinatorOptions
from roles.options import Options
from roles.planning.planner import plan
from roles.tuning.choices import Setting
from roles.tuning.tuner import TunerOptions
from runtime.config.sections import ClusterConfig
from runtime.plan.open_choice import Told
from runtime.plan.topology import Topology

CHOICE = "tuning"  # the event of a tuner; that of a choice has the time of an iteration
LEARNING_SECONDS = 30.0  # since the first report: the trial ends, whatever its tuner has found


class PresetTrial:
    """The trial of one candidate: the run as configured, but without tests, checkpoints and a
    tuner."""

    def __init__(self, config: ClusterConfig, counted: Counted) -> None:
        self.counted = counted
        self.candidate = candidate = counted.candidate
        self.predicted = counted.seconds
        self.name = candidate.name
        self.options = self._options()
        plain = (
            candidate.topology
            if self.options is candidate.options
            else plan(config, self.options, tell=False)
        )
        self.topology = _unsaved(plain, self.predicted)
        self._watch = Stopwatch()
        self.failed = False

    def __repr__(self) -> str:
        return f"<trial of {self.name}, {self._watch!r}>"

    def _options(self) -> Options:
        return as_trial(self.candidate, self.counted.groups)

    @property
    def named(self) -> str:
        """The candidate's name, with the number of groups if it has a choice of them."""
        return self.counted.named

    @property
    def seconds(self) -> float | None:
        """Measured seconds of an iteration; None if they are not known."""
        return None if self.failed else self._watch.seconds

    @property
    def source(self) -> str:
        """The source of `seconds`, in a word."""
        return "measured"

    @property
    def iterations(self) -> float:
        """The iterations that are worth one iteration of one group."""
        return self.counted.iterations

    def heard(self, event: str, fields: dict[str, Any], now: float) -> bool:
        """Note an event that an actor reported at the time `now`. Returns True when enough has been
        measured."""
        return self._watch.heard(event, fields, now)

    def ended(self, why: str) -> Told:
        """The event that reports the result. `why`: the error that ended the trial, or ""."""
        self.failed = bool(why)
        seconds = self.seconds
        tried = {"preset": self.name, **self.counted.shown_groups}
        if why or seconds is None:
            return "trial", tried | {"failed": why or "the run is too short to be measured"}
        return "trial", tried | self._found(seconds)

    def _found(self, seconds: float) -> dict[str, Any]:
        return {
            "measured_seconds": seconds,
            "predicted_seconds": self.predicted,
            "iterations": self._watch.iterations,
        }


class LearningTrial(PresetTrial):
    """The trial of a candidate whose groups, momentum and perhaps rate are chosen by a tuner: the
    run as configured, but without tests and checkpoints, until the tuner's first choice.

    Without a choice within LEARNING_SECONDS, the trial counts with its predicted seconds, and with
    as many iterations as late gradients usually need.
    """

    def __init__(self, config: ClusterConfig, counted: Counted) -> None:
        super().__init__(config, counted)
        solver = self.candidate.job.solver_spec
        self._one = Setting(1, solver.momentum, solver.base_lr)
        self._chosen: Setting | None = None
        self._seconds: float | None = None
        self._first: float | None = None

    def _options(self) -> Options:
        return self.candidate.options

    @property
    def named(self) -> str:
        """The candidate's name, with the number of groups that its tuner has chosen."""
        groups = self.counted.groups if self._chosen is None else self._chosen.groups
        return f"{self.name} with {groups} group{'s'[: groups != 1]}"

    @property
    def seconds(self) -> float | None:
        """The seconds of an iteration of the chosen groups, predicted by the tuner's model of the
        trial."""
        return None if self.failed else self._seconds

    @property
    def source(self) -> str:
        """As `PresetTrial.source`."""
        return "predicted" if self._chosen is None else "measured"

    @property
    def iterations(self) -> float:
        """The iterations with the chosen setting that are worth one iteration of one group."""
        if self._chosen is None:
            return late_iterations(self.counted.groups, 1 / self.counted.groups)
        return late_iterations(self._chosen.groups, self._chosen.step / self._one.step)

    def heard(self, event: str, fields: dict[str, Any], now: float) -> bool:
        """As `PresetTrial.heard`: enough is known when the tuner has chosen."""
        if event == CHOICE and "predicted_seconds" in fields:
            self._seconds = float(fields["predicted_seconds"])
            chosen = {
                key: fields[key] for key in ("groups", "momentum", "base_lr") if key in fields
            }
            self._chosen = self._one.but(**chosen)
            return True
        if event != PROGRESS:
            return False
        self._first = now if self._first is None else self._first
        if now - self._first < LEARNING_SECONDS:
            return False
        self._seconds = self.predicted
        return True

    def _found(self, seconds: float) -> dict[str, Any]:
        worth = f"{self.iterations:.3g} of its iterations are worth one of one group"
        predicted = {"predicted_seconds": self.predicted}
        if self._chosen is None:
            why = f"its tuner chose nothing within {LEARNING_SECONDS:.0f} s; usually {worth}"
            return {**predicted, "learns": why}
        return {"measured_seconds": seconds, **predicted, "learns": f"{self._chosen}: {worth}"}


def _unsaved(topology: Topology, predicted: float) -> Topology:
    """The same topology, with a lead that only trains, and reports as often as a stopwatch needs,
    and a tuner that saves no checkpoint."""

    def changed(options: CoordinatorOptions) -> CoordinatorOptions:
        table = options.timetable
        table = dataclasses.replace(
            table,
            tests=(),
            test_interval=0,
            test_first=False,
            snapshot_interval=0,
            snapshot_last=False,
        )
        return dataclasses.replace(
            options,
            timetable=table,
            timing=NEVER,
            display=apart(predicted, table.last - table.first),
        )

    def of_trial(name: str, options: Any) -> Any:
        if name == topology.lead:
            return changed(options)
        if isinstance(options, TunerOptions):
            return dataclasses.replace(options, saves=False)
        return options

    actors = [
        dataclasses.replace(actor, options=of_trial(actor.name, actor.options))
        for actor in topology.actors
    ]
    return dataclasses.replace(topology, actors=tuple(actors))
