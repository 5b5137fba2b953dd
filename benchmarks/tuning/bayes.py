"""The Bayesian baseline (Omnivore, F.8; Snoek et al.): optuna over the same laboratory, choices and
budget.

    bayes    probes and seconds until each search has a setting within 1 % of the best of the grid, in laboratories of
             noisy quadratics (`Quadratic`, below), whose best setting is found by trying all of
             them

    searches_of    the same search over the points of a grid whose trials were already made (`tradeoff`), as in F.8:
             each point that it asks for costs its whole trial

The Bayesian search asks for one probe after the other. Each has the usual length and starts from
the same model, as the tuner's do. The search does not prune, and knows nothing of ties or of
saturation. It minimises the loss after a fixed number of seconds. It chooses from the whole grid:
groups, momenta, and the learning rates of the cold start.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from statistics import fmean

import numpy as np

from benchmarks.helpers.report import Record
from benchmarks.tuning.runs import Setting as Point
from roles.tuning.choices import Choices, Chosen, Setting, Trial, counts_up_to
from roles.tuning.judgement import THRESHOLD, ended_in, judged, mean
from roles.tuning.search import tune
from roles.tuning.trials import Lab, SpentUp, Trials

SEEDS = 5
SEARCHES = 10  # over a grid, where trials are looked up
WITHIN = 1.01  # of the best loss
WORKERS = 8
MOMENTA = (0.0, 0.3, 0.6, 0.9)
RATES = (0.01, 0.1, 1.0, 10.0)
START = Setting(1, 0.9, 0.1)
LAST = 20_000  # iterations of the run whose tenth both searches may spend


class BayesianSearch:
    """A tree-structured Parzen estimator over groups, momenta and learning rates. It runs until the
    budget is spent."""

    def __init__(self, trials: Trials, choices: Choices, now: Setting, seed: int) -> None:
        self._trials = trials
        self._choices = choices
        self._now = now
        self._seed = seed

    async def chosen(self) -> Chosen:
        """The setting with the lowest loss after as many seconds as the shortest probe took. Raises
        ImportError if optuna (extra `tuning-peers`) is not installed."""
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=self._seed))
        asked: set[Setting] = set()
        grid = (
            max(1, len(self._choices.groups))
            * max(1, len(self._choices.momenta))
            * max(1, len(self._choices.rates))
        )
        # known settings cost nothing and could be asked for forever, so the wishes are bounded
        with_ties = 20 * grid
        for _ in range(with_ties):
            wish = study.ask()
            setting = self._now.but(
                groups=wish.suggest_categorical(
                    "groups", self._choices.groups or (self._now.groups,)
                ),
                momentum=wish.suggest_categorical(
                    "momentum", self._choices.momenta or (self._now.momentum,)
                ),
                base_lr=self._now.base_lr
                * wish.suggest_categorical("rate", self._choices.rates or (1.0,)),
            )
            try:
                trial = await self._trials.of(setting)
            except SpentUp:
                break
            asked.add(setting)
            study.tell(wish, min(1e9, self._loss(trial)))
            if len(asked) == grid:
                break
        seen = {setting: self._loss(trial) for setting, trial in self._trials.made}
        best = min(seen, key=lambda setting: seen[setting], default=self._now)
        seconds = self._trials.iteration_seconds
        return Chosen(
            best,
            "the lowest loss",
            iteration_seconds=seconds,
            spent=self._trials.spent,
            tried=tuple(self._trials.made),
        )

    def _loss(self, trial: Trial) -> float:
        seconds = min(
            made.seconds for _, made in self._trials.made if not made.diverged or made is trial
        )
        return mean(judged(trial, max(2, ended_in(trial, seconds))))


class Quadratic:
    """A laboratory: noisy SGD with Caffe's momentum on sum(h w^2) / 2 + 0.1, by g groups that take
    turns, so that a gradient is g - 1 updates old. Every probe starts from the same model and sees
    the same noise."""

    def __init__(self, seed: int) -> None:
        chance = np.random.default_rng(seed)
        self._h = np.geomspace(10.0 ** chance.uniform(-2, -1), 1.0, 8)
        self._seconds = {
            groups: chance.uniform(0.05, 0.4) + 1.0 / groups for groups in counts_up_to(WORKERS)
        }
        self._seed = seed

    async def probe(
        self,
        setting: Setting,
        iterations: int,
        seconds: float,
        *,
        kept: bool = False,
        falls: float = THRESHOLD,
    ) -> Trial:
        """Runs the probe as `Lab` says. Does not keep its training."""
        each = self._seconds[setting.groups]
        most = math.floor(seconds / each + 1e-9) if seconds else iterations
        losses = self.losses(setting, min(iterations, most))
        diverged = len(losses) < min(iterations, most)
        taken = (len(losses) + diverged) * each
        return Trial(tuple(losses), taken, diverged, taken)

    def losses(self, setting: Setting, iterations: int) -> list[float]:
        """The losses up to the first one that is not a number or is above 1e9."""
        chance = np.random.default_rng([self._seed, 1])
        w = np.ones_like(self._h)
        v = np.zeros_like(self._h)
        old = [w] * setting.groups
        losses = list[float]()
        for _ in range(iterations):
            seen = old.pop(0)
            noise = chance.normal(size=w.shape)
            loss = float(np.sum(self._h * seen * seen) / 2 * (1 + 0.1 * noise[0]) + 0.1)
            if not loss < 1e9:
                break
            losses.append(loss)
            v = setting.momentum * v - setting.base_lr * (self._h * seen + 0.01 * noise)
            w = w + v
            old.append(w)
        return losses

    def after(self, setting: Setting, seconds: float) -> float:
        """The mean loss of the last half of so many seconds; infinite if the setting diverged."""
        iterations = max(2, int(seconds / self._seconds[setting.groups]))
        losses = self.losses(setting, iterations)
        return mean(losses[iterations // 2 :]) if len(losses) == iterations else math.inf


def bayes(record: Record, cycles: int) -> None:
    """Run both searches in the same laboratories. `cycles` is not used."""
    try:
        import optuna  # noqa: F401
    except ImportError:
        record.status = "skipped"
        record.note("optuna is not installed: pip install 'convoy-runtime[tuning-peers]'")
        return
    record.table(
        "Settings that each search chose",
        "laboratory",
        "search",
        "groups",
        "momentum",
        "base_lr",
        "probes",
        "seconds spent",
        "loss / best of the grid",
        f"probes to within {WITHIN - 1:.0%}",
    )
    choices = Choices(groups=counts_up_to(WORKERS), momenta=MOMENTA, rates=RATES, last=LAST)
    for seed in range(SEEDS):
        lab = Quadratic(seed)
        seconds = choices.length(LAST) * 1.2
        grid = {
            START.but(groups=groups, momentum=momentum, base_lr=START.base_lr * rate)
            for groups in choices.groups for momentum in MOMENTA for rate in RATES
        }  # fmt: skip
        best = min(lab.after(setting, seconds) for setting in grid)
        for name, found in searched(lab, choices, seed).items():
            ratio = lab.after(found.setting, seconds) / best
            close = (
                number
                for number, (setting, _) in enumerate(found.tried, start=1)
                if lab.after(setting, seconds) <= WITHIN * best
            )
            row = (
                found.setting.groups,
                found.setting.momentum,
                found.setting.base_lr,
                len(found.tried),
                found.spent,
            )
            record.row(seed, name, *row, ratio, next(close, "never"))


def searched(lab: Lab, choices: Choices, seed: int) -> dict[str, Chosen]:
    """The choice of each search in a laboratory, by the search's name."""
    made = Trials(lab, choices, choices.last), Trials(lab, choices, choices.last)
    return {
        "Algorithm 1": asyncio.run(tune(made[0], choices, START)),
        "Bayesian": asyncio.run(BayesianSearch(made[1], choices, START, seed).chosen()),
    }


def searches_of(record: Record, points: Mapping[Point, tuple[float, float]], auto: float) -> None:
    """Count the trials, and the seconds of trials, until a trial is within 1 % of the best.
    `points`: the seconds to the target, infinite if it was not reached, and the seconds that the
    trial cost. `auto`: the seconds of a run that tunes itself."""
    try:
        import optuna
    except ImportError:
        record.note(
            "no Bayesian search: optuna is not installed: pip install "
            "'convoy-runtime[tuning-peers]'"
        )
        return
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    best = min(took for took, _ in points.values())
    if math.isinf(best):
        return
    record.table(
        (f"A Bayesian search over the same points, up to one within {WITHIN - 1:.0%} of the best"),
        "seed",
        "trials",
        "seconds of them",
        "times those of the best",
    )
    names = ("groups", "momentum", "base_lr")
    values = {name: sorted({getattr(point, name) for point in points}) for name in names}
    spent = []
    for seed in range(SEARCHES):
        study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed))
        asked = set[Point]()
        while not any(points[point][0] <= WITHIN * best for point in asked):
            wish = study.ask()
            point = Point(*(wish.suggest_categorical(name, values[name]) for name in names))
            asked.add(point)
            took = points[point][0]
            if math.isinf(took):
                study.tell(wish, state=optuna.trial.TrialState.PRUNED)
            else:
                study.tell(wish, took)
        spent.append(sum(points[point][1] for point in asked))
        record.row(seed, len(asked), spent[-1], spent[-1] / best)
    record.facts |= {
        "Bayesian search / best point": fmean(spent) / best,
        "Bayesian search / auto": fmean(spent) / auto,
    }
    record.note(
        "a trial that was cut costs the Bayesian search only the seconds until it was "
        "cut; asking again is free"
    )
