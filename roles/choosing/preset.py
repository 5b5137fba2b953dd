"""The choice of a preset where `preset = "auto"`. The time of an iteration is predicted for each
candidate, the two fastest are tried, and the faster one is chosen."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from roles.checkpoints.checkpoint_timing import NEVER
from roles.choosing.counted import Counted, counted, in_words
from roles.choosing.iteration_worth import Worth, worth_of
from roles.choosing.preset_candidates import Candidate, as_trial, candidates, mistakes
from roles.choosing.speeds import speeds
from roles.choosing.stopwatch import Stopwatch, apart
from roles.coordination.coordinator import CoordinatorOptions
from roles.forecasting.prediction_error import spoken
from roles.options import AUTO, Options, Train, is_auto
from roles.planning.auto_settings import after_choice
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
    chosen = partial(_chosen, options.train, {})
    if (before := _of_checkpoint(config, options)) is not None:
        run, name = before
        same = next((candidate for candidate in found if candidate.name == name), None)
        if same is not None:
            why = f"the preset of {run}, whose checkpoint is resumed"
            return PresetChoice(told, (), chosen(same, why), chosen)
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
        why = "no other preset that computes the same can train this here"
        return PresetChoice(told, (), chosen(found[0], why), chosen)
    known, unpredicted = speeds(config, found)
    told += [("left out", {"preset": name, "why": why}) for name, why in unpredicted.items()]
    worth = worth_of(config, options.train, found[0])
    best = sorted(
        (counted(each, known[each.name], worth) for each in found if each.name in known),
        key=lambda each: each.iterations * each.seconds,
    )
    if not best:
        raise ConfigError([next(iter(unpredicted.values()))])
    told += [("candidate", _told(each)) for each in best]
    if is_auto(options.train.strategy.groups):
        chosen = partial(_chosen, options.train, _compared_by(best, worth))
    if best[0].seconds <= 0:
        why = "array work takes no time here, so all are equally fast"
        return PresetChoice(told, (), chosen(best[0].candidate, why), chosen)
    trials = tuple(PresetTrial(config, each) for each in best[:TRIED])
    expected = chosen(best[0].candidate, _expected(trials))
    return PresetChoice(told, trials if len(trials) > 1 else (), expected, chosen)


class PresetTrial:
    """The trial of one candidate: the run as configured, but without tests, checkpoints and a
    tuner."""

    def __init__(self, config: ClusterConfig, counted: Counted) -> None:
        self.counted = counted
        self.candidate = candidate = counted.candidate
        self.predicted = counted.seconds
        self.name = candidate.name
        self.options = as_trial(candidate, counted.groups)
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
        tried = {"preset": self.name, **_groups_of(self.counted)}
        if why or seconds is None:
            return "trial", tried | {"failed": why or "the run is too short to be measured"}
        measured = {
            "measured_seconds": seconds,
            "predicted_seconds": self.predicted,
            "iterations": self._watch.iterations,
        }
        return "trial", tried | measured


@dataclasses.dataclass(frozen=True)
class PresetChoice:
    """The choice among the candidates, as `runtime.plan.open_choice.Choice` describes it.
    `choose`: makes a candidate the choice, for a reason."""

    told: Sequence[Told]
    trials: tuple[PresetTrial, ...]
    expected: Chosen
    choose: Callable[[Candidate, str], Chosen]

    def chosen(self) -> Chosen:
        """The fastest preset that was measured; the expected one if none was."""
        measured = sorted(
            (trial.counted.iterations * trial.seconds, trial.seconds, at)
            for at, trial in enumerate(self.trials)
            if trial.seconds is not None
        )
        if measured:
            _, seconds, at = measured[0]
            best = self.trials[at]
            others = ", ".join(_measured(trial) for trial in self.trials if trial is not best)
            with_groups = best.counted.named.removeprefix(best.name)
            why = f"measured {spoken(seconds)} an iteration{with_groups}, {others}"
            return self.choose(best.candidate, why)
        if self.trials:
            why = "predicted to be the fastest; the run is too short to measure"
            return self.choose(self.trials[0].candidate, why)
        return self.expected


def _measured(trial: PresetTrial) -> str:
    told = "not measured" if trial.seconds is None else spoken(trial.seconds)
    return f"{trial.counted.named} {told if not trial.failed else 'failed'}"


def _chosen(asked: Train, about: Mapping[str, str], candidate: Candidate, why: str) -> Chosen:
    """The candidate as the choice. `about`: further fields of the event that reports it."""
    strategy = candidate.options.train.strategy
    fields: dict[str, Any] = {"preset": candidate.name, "workers": strategy.workers}
    if is_auto(asked.strategy.groups):
        fields["groups"] = strategy.groups
        why = f"{why}; {_of_groups(asked, candidate)}"
    return Chosen(
        candidate.options, candidate.topology, ("choice", {**fields, "why": why, **about})
    )


def _of_groups(asked: Train, candidate: Candidate) -> str:
    """The meaning of groups = "auto" for the chosen preset."""
    if candidate.regroups:
        return "the run begins with 1 group, and the tuner chooses"
    [groups] = candidate.counts
    one = candidate.options.train.strategy.workers == 1
    text = (
        "1 worker is 1 group"
        if one
        else f"'{candidate.name}' cannot regroup, so groups = 'auto' is {groups}"
    )
    unused = after_choice(asked.tuning) != candidate.options.train.tuning
    return f"{text}, and [train.tuning] has no effect" if unused else text


def _compared_by(best: Sequence[Counted], worth: Worth) -> dict[str, str]:
    """The comparison of presets whose groups are chosen too: the predictions, and the assumption
    behind them."""
    return {"predicted": in_words(best), "assumed": worth.assumed}


def _expected(trials: Sequence[PresetTrial]) -> str:
    if len(trials) < TRIED:
        return "no other preset can be predicted"
    names = " and ".join(trial.counted.named for trial in trials)
    return f"predicted; `up` measures {names} before it begins, and takes the faster"


def _told(counted: Counted) -> dict[str, Any]:
    speed = counted.speed
    return {
        "preset": counted.candidate.name,
        **_groups_of(counted),
        "predicted_seconds": speed.seconds,
        "busiest": f"{speed.busiest} {speed.use:.0%}",
        **({"by_groups": counted.by_groups} if counted.candidate.regroups else {}),
    }


def _groups_of(counted: Counted) -> dict[str, int]:
    """The number of groups by which a candidate is compared, if it has a choice of them."""
    return {"groups": counted.groups} if counted.candidate.regroups else {}


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
    directory = config.raw.base / Path(options.train.resume).parent
    try:
        run = options_of_run(directory)
    except ConfigError:
        return None
    return (
        None
        if run is None or run.train.strategy.preset == AUTO
        else (directory.name, run.train.strategy.preset)
    )
