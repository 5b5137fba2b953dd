"""The choice of a preset where `preset = "auto"`. The time of an iteration is predicted for each
candidate, the two fastest are tried, and the faster one is chosen."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from roles.checkpoints.checkpoint_timing import NEVER
from roles.choosing.preset_candidates import Candidate, as_trial, candidates, mistakes
from roles.choosing.speeds import Speed, speeds
from roles.choosing.stopwatch import Stopwatch, apart
from roles.coordination.coordinator import CoordinatorOptions
from roles.forecasting.prediction_error import spoken
from roles.options import AUTO, Options
from roles.planning.measured_runs import options_of_run
from roles.planning.planner import plan
from runtime.config.sections import ClusterConfig
from runtime.errors import ConfigError
from runtime.plan.open_choice import Chosen, Told
from runtime.plan.topology import Topology

TRIED = 2  # candidates that are tried: the fastest by prediction


def choice(config: ClusterConfig, options: Options) -> PresetChoice:
    """The choice that `up` has to make, with its trials. Raises ConfigError if no preset can train
    this."""
    if wrong := [
        config.raw.problem(("train", *keys), text).text for text, keys in mistakes(options.train)
    ]:
        raise ConfigError(wrong)
    found, left = candidates(config, options)
    told = [("left out", {"preset": name, "why": why}) for name, why in left.items()]
    if (before := _of_checkpoint(config, options)) is not None:
        run, name = before
        same = next((candidate for candidate in found if candidate.name == name), None)
        if same is not None:
            return PresetChoice(
                told, (), _chosen(same, (f"the preset of {run}, whose checkpoint is resumed"))
            )
        told.append(
            (
                "left out",
                {
                    "preset": name,
                    "why": (f"{run} had it, but it does not compute the same as 'single'"),
                },
            )
        )
    if len(found) == 1:
        return PresetChoice(
            told,
            (),
            _chosen(found[0], ("no other preset that computes the same can train this here")),
        )
    known, unpredicted = speeds(config, found)
    told += [("left out", {"preset": name, "why": why}) for name, why in unpredicted.items()]
    best = sorted(
        (candidate for candidate in found if candidate.name in known),
        key=lambda c: known[c.name].seconds,
    )
    if not best:
        raise ConfigError([next(iter(unpredicted.values()))])
    told += [("candidate", _told(candidate.name, known[candidate.name])) for candidate in best]
    if known[best[0].name].seconds <= 0:
        return PresetChoice(
            told, (), _chosen(best[0], ("array work takes no time here, so all are equally fast"))
        )
    trials = tuple(PresetTrial(config, each, known[each.name].seconds) for each in best[:TRIED])
    return PresetChoice(
        told, trials if len(trials) > 1 else (), _chosen(best[0], _expected(trials))
    )


class PresetTrial:
    """The trial of one candidate: the run as configured, but without tests, checkpoints and a
    tuner."""

    def __init__(self, config: ClusterConfig, candidate: Candidate, predicted: float) -> None:
        self.candidate = candidate
        self.predicted = predicted
        self.name = candidate.name
        self.options = as_trial(candidate.options)
        plain = (
            candidate.topology
            if self.options is candidate.options
            else plan(config, self.options, tell=False)
        )
        self.topology = _unsaved(plain, predicted)
        self._watch = Stopwatch()
        self.failed = False

    def __repr__(self) -> str:
        return f"<trial of {self.name}, {self._watch!r}>"

    @property
    def seconds(self) -> float | None:
        """Measured seconds of an iteration; None if they are not known."""
        return None if self.failed else self._watch.seconds

    def heard(self, event: str, fields: dict[str, Any], now: float) -> bool:
        """Note an event that an actor reported at the time `now`. Returns True when enough has been
        measured."""
        return self._watch.heard(event, fields, now)

    def ended(self, why: str) -> Told:
        """The event that reports the result. `why`: the error that ended the trial, or ""."""
        self.failed = bool(why)
        seconds = self.seconds
        if why or seconds is None:
            return "trial", {
                "preset": self.name,
                "failed": why or "the run is too short to be measured",
            }
        measured = {
            "measured_seconds": seconds,
            "predicted_seconds": self.predicted,
            "iterations": self._watch.iterations,
        }
        return "trial", {"preset": self.name, **measured}


@dataclasses.dataclass(frozen=True)
class PresetChoice:
    """The choice among the candidates, as `runtime.plan.open_choice.Choice` describes it."""

    told: Sequence[Told]
    trials: tuple[PresetTrial, ...]
    expected: Chosen

    def chosen(self) -> Chosen:
        """The fastest preset that was measured; the expected one if none was."""
        measured = sorted(
            (trial.seconds, at) for at, trial in enumerate(self.trials) if trial.seconds is not None
        )
        if measured:
            seconds, at = measured[0]
            others = (_compared(trial) for trial in self.trials if trial is not self.trials[at])
            return _chosen(
                self.trials[at].candidate,
                (f"measured {spoken(seconds)} an iteration, {', '.join(others)}"),
            )
        if self.trials:
            return _chosen(
                self.trials[0].candidate,
                ("predicted to be the fastest; the run is too short to measure"),
            )
        return self.expected


def _compared(trial: PresetTrial) -> str:
    told = "not measured" if trial.seconds is None else spoken(trial.seconds)
    return f"{trial.name} {told if not trial.failed else 'failed'}"


def _chosen(candidate: Candidate, why: str) -> Chosen:
    fields = {
        "preset": candidate.name,
        "workers": candidate.options.train.strategy.workers,
        "why": why,
    }
    return Chosen(candidate.options, candidate.topology, ("choice", fields))


def _expected(trials: Sequence[PresetTrial]) -> str:
    if len(trials) < TRIED:
        return "no other preset can be predicted"
    names = " and ".join(trial.name for trial in trials)
    return f"predicted; `up` measures {names} before it begins, and takes the faster"


def _told(name: str, speed: Speed) -> dict[str, Any]:
    return {
        "preset": name,
        "predicted_seconds": speed.seconds,
        "busiest": f"{speed.busiest} {speed.use:.0%}",
    }


def _unsaved(topology: Topology, predicted: float) -> Topology:
    """The same topology, with a lead that only trains, and reports as often as a stopwatch
    needs."""

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

    actors = [
        dataclasses.replace(actor, options=changed(actor.options))
        if actor.name == topology.lead
        else actor
        for actor in topology.actors
    ]
    return dataclasses.replace(topology, actors=tuple(actors))


def _of_checkpoint(config: ClusterConfig, options: Options) -> tuple[str, str] | None:
    """The run whose checkpoint is resumed, and its preset; None if they are not known."""
    if not options.train.resume:
        return None
    directory = config.raw.path.resolve().parent / Path(options.train.resume).parent
    try:
        run = options_of_run(directory)
    except ConfigError:
        return None
    return (
        None
        if run is None or run.train.strategy.preset == AUTO
        else (directory.name, run.train.strategy.preset)
    )
