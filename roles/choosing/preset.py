"""The choice of a preset where `preset = "auto"`. The time of an iteration is predicted for each
candidate, the fastest are tried, and the one that learns soonest is chosen."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from roles.choosing.counted import Counted, counted, in_words
from roles.choosing.island_candidate import islands
from roles.choosing.iteration_worth import Worth, worth_of
from roles.choosing.preset_candidates import Candidate, candidates, mistakes
from roles.choosing.speeds import speeds
from roles.choosing.trial import LearningTrial, PresetTrial
from roles.options import AUTO, Options, Train, is_auto
from roles.planning.auto_settings import after_choice
from roles.planning.measured_runs import options_of_run
from runtime.config.sections import ClusterConfig
from runtime.durations import duration
from runtime.errors import ConfigError
from runtime.plan.open_choice import Chosen, Told

ONLY = "no other preset that computes the same can train this here"
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
    apart, more = islands(config, options)
    told += more
    chosen = partial(_chosen, options.train, {})
    if (before := _of_checkpoint(config, options)) is not None:
        run, name = before
        known_here = [*found, *([apart.candidate] if apart is not None else [])]
        same = next((candidate for candidate in known_here if candidate.name == name), None)
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
    if len(found) == 1 and apart is None:
        return PresetChoice(told, (), chosen(found[0], ONLY), chosen)
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
    if apart is not None and (why := apart.sooner(best[0])):
        return PresetChoice(told, (), chosen(apart.candidate, why), chosen)
    if len(found) == 1:
        return PresetChoice(told, (), chosen(found[0], ONLY), chosen)
    if is_auto(options.train.strategy.groups):
        chosen = partial(_chosen, options.train, _compared_by(best, worth))
    if best[0].seconds <= 0:
        why = "array work takes no time here, so all are equally fast"
        return PresetChoice(told, (), chosen(best[0].candidate, why), chosen)
    trials = tuple(
        (LearningTrial if _supposed(each, worth) else PresetTrial)(config, each)
        for each in _tried(best, worth)
    )
    expected = chosen(best[0].candidate, _expected(trials))
    return PresetChoice(told, trials if len(trials) > 1 else (), expected, chosen)


@dataclass(frozen=True)
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
            (trial.iterations * trial.seconds, trial.seconds, at)
            for at, trial in enumerate(self.trials)
            if trial.seconds is not None
        )
        if measured:
            _, seconds, at = measured[0]
            best = self.trials[at]
            others = ", ".join(_measured(trial) for trial in self.trials if trial is not best)
            with_groups = best.named.removeprefix(best.name)
            why = f"{best.source} {duration(seconds)} an iteration{with_groups}, {others}"
            return self.choose(best.candidate, why)
        if self.trials:
            why = "predicted to be the fastest; the run is too short to measure"
            return self.choose(self.trials[0].candidate, why)
        return self.expected


def _tried(best: Sequence[Counted], worth: Worth) -> list[Counted]:
    """The candidates that are tried, of all in the order of their predictions: the two fastest.
    After one whose worth is only supposed comes the fastest whose worth is sure, since a net that
    does not bear late gradients bears them in no preset."""
    first, *others = best
    if not _supposed(first, worth):
        return list(best[:TRIED])
    sure = [each for each in others if not _supposed(each, worth)]
    return [first, *(sure or others)[: TRIED - 1]]


def _supposed(counted: Counted, worth: Worth) -> bool:
    return worth.supposed(counted.candidate, counted.groups)


def _measured(trial: PresetTrial) -> str:
    if trial.failed or trial.seconds is None:
        return f"{trial.named} {'failed' if trial.failed else 'not measured'}"
    times = "" if trial.iterations == 1 else f" x {trial.iterations:.3g}"
    return f"{trial.named} {duration(trial.seconds)}{times}"


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
    names = " and ".join(trial.named for trial in trials)
    return f"predicted; `up` measures {names} before it begins, and takes the faster"


def _told(counted: Counted) -> dict[str, Any]:
    speed = counted.speed
    return {
        "preset": counted.candidate.name,
        **counted.shown_groups,
        "predicted_seconds": speed.seconds,
        "busiest": f"{speed.busiest} {speed.use:.0%}",
        **({"by_groups": counted.by_groups} if counted.candidate.regroups else {}),
    }


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
