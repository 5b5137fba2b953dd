"""The best model so far, and the decisions to end training early and to lower the rate, by the
tests of the first test net. Decisions only, no I/O.

The history of tests is in every checkpoint of such a run. A run that resumes from it decides as the
unbroken run would.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nets import NetError
from nets.files import checkpoint

FILE = "best.safetensors"  # in the run directory
KEY = "tests"  # the key in a checkpoint's metadata

Scores = Mapping[str, float]


@dataclass(frozen=True)
class Watch:
    """A score of the first test net, and whether a larger one is better. "" watches nothing."""

    score: str = ""
    rises: bool = False

    def best(self, values: Sequence[float], by: float = 0.0) -> int:
        """The index of the best value; -1 if all values are NaN.

        In order, a value becomes the best if it is better than the best before it by more than
        `by`. NaN is never better.
        """
        found = -1
        kept = math.nan
        for at, value in enumerate(values):
            if self.better(value, kept, by):
                found = at
                kept = value
        return found

    def better(self, value: float, kept: float, by: float) -> bool:
        """Is the value better than `kept` by more than `by`? NaN is never better, and every number
        is better than NaN."""
        gain = value - kept if self.rises else kept - value
        return not math.isnan(value) and (math.isnan(kept) or gain > by)


NO_SCORE = Watch()


@dataclass(frozen=True)
class Plateau:
    """The rule that lowers the rate: after `patience` tests in a row without improvement in `watch`
    by more than `min_delta`, the base_lr becomes `factor` times as large, but at least `least`."""

    watch: Watch = NO_SCORE
    patience: int = 10
    min_delta: float = 0.0
    factor: float = 0.1
    least: float = 0.0

    def reductions(self, values: Sequence[float]) -> int:
        """The number of times that the rate falls in tests with these values, in order. After each
        fall, `patience` further tests are waited for."""
        found = waited = 0
        kept = math.nan
        for value in values:
            if self.watch.better(value, kept, self.min_delta):
                kept = value
                waited = 0
                continue
            waited += 1
            if waited == self.patience:
                found += 1
                waited = 0
        return found


NO_PLATEAU = Plateau()


@dataclass(frozen=True)
class Watched:
    """The rules of cluster.toml for tests. The best model by `best` is kept. `shown`: the score
    whose best value the lead's last report has.

    Training ends after `patience` tests in a row (0: never) if none of them was better in `stop`
    than the best before them by more than `min_delta`. The rate falls as `plateau` says.
    """

    best: Watch = NO_SCORE
    stop: Watch = NO_SCORE
    patience: int = 0
    min_delta: float = 0.0
    plateau: Plateau = NO_PLATEAU
    shown: Watch = NO_SCORE


NOTHING = Watched()


@dataclass(frozen=True)
class Verdict:
    """The consequences of a test. `best`: its model is the best so far. `stop`: fields of the event
    that ends the run; empty if it goes on. `reductions`: how often the rate has fallen by now."""

    best: bool = False
    stop: Mapping[str, float] = field(default_factory=dict)
    reductions: int = 0


class History:
    """The watched scores of the tests so far.

    A run that resumes from iteration `first` takes over the history in its checkpoint (`known`).
    The test that it begins with is ignored: it was made before the checkpoint, or the unbroken run
    would not have made it.
    """

    def __init__(self, watched: Watched, first: int = -1, known: str = "") -> None:
        self.watched = watched
        self._first = first
        self._names = tuple(
            dict.fromkeys(
                watch.score
                for watch in (watched.best, watched.stop, watched.plateau.watch)
                if watch.score
            )
        )
        self._heard: list[tuple[int, dict[str, float]]] = (
            _read(known, self._names) if self._names else []
        )

    def __repr__(self) -> str:
        return f"<history of {len(self._heard)} tests of {', '.join(self._names) or 'nothing'}>"

    def hear(self, iteration: int, scores: Scores) -> Verdict:
        """Add the test of the model of an iteration. Tests of the same and of later iterations are
        removed."""
        if not self._names or iteration == self._first:
            return Verdict(reductions=self.reductions)
        self._heard = [one for one in self._heard if one[0] < iteration]
        self._heard.append(
            (iteration, {name: scores[name] for name in self._names if name in scores})
        )
        best = self.watched.best
        is_best = bool(best.score) and self.best_iteration == iteration
        return Verdict(is_best, self.stop(), self.reductions)

    @property
    def reductions(self) -> int:
        """The number of times that the rate has fallen in the tests so far."""
        plateau = self.watched.plateau
        return plateau.reductions([value for _, value in self._values(plateau.watch)])

    def stop(self) -> Mapping[str, float]:
        """The reason to end the run now: the score, the best value, its iteration, the number of
        tests since. Empty if the run is not to end."""
        watch = self.watched.stop
        patience = self.watched.patience
        values = self._values(watch)
        at = watch.best([value for _, value in values], self.watched.min_delta)
        since = len(values) - 1 - at
        if not patience or at < 0 or since < patience:
            return {}
        iteration, best = values[at]
        return {
            watch.score: values[-1][1],
            "best": best,
            "best_iteration": iteration,
            "tests_since": since,
        }

    @property
    def best_iteration(self) -> int:
        """The iteration of the best model that was tested; -1 before the first test."""
        return self._best[0]

    @property
    def best_value(self) -> float:
        """The score of the best model; NaN if there is none."""
        return self._best[1]

    @property
    def _best(self) -> tuple[int, float]:
        """The iteration and the score of the best model."""
        values = self._values(self.watched.best)
        at = self.watched.best.best([value for _, value in values])
        return values[at] if at >= 0 else (-1, math.nan)

    def facts(self, iteration: int) -> dict[str, str]:
        """The metadata for the checkpoint of that iteration; empty if no score is watched."""
        heard = [one for one in self._heard if one[0] <= iteration]
        return {KEY: json.dumps(heard)} if self._names else {}

    def _values(self, watch: Watch) -> list[tuple[int, float]]:
        """(iteration, score) of each test that has this score. A resumed run may have watched
        another score before."""
        return [(at, scores[watch.score]) for at, scores in self._heard if watch.score in scores]


def _read(known: str, names: Sequence[str]) -> list[tuple[int, dict[str, float]]]:
    """The tests that `facts` wrote. A text of another form gives an empty list."""
    try:
        said = [(int(iteration), dict(scores)) for iteration, scores in json.loads(known or "[]")]
        return [
            (at, {name: float(scores[name]) for name in names if name in scores})
            for at, scores in said
        ]
    except (ValueError, TypeError, RecursionError):
        return []


def taken_over(resumed: Path, iteration: int, run: Path) -> bool:
    """Take over the best model of the resumed run if it is the model of this iteration. Returns
    False if it is another one or cannot be read."""
    before = resumed.parent / FILE
    try:
        if checkpoint.metadata(before).get("iteration") != str(iteration):
            return False
        same(before, run / FILE)
    except (NetError, OSError):
        return False
    return True


def same(source: Path, target: Path) -> None:
    """Make `target` the same file as `source`, by a link or, where links fail, by a copy. An
    existing `target` is replaced. Raises OSError."""
    temporary = target.with_name(f".{target.name}.link.tmp")
    temporary.unlink(missing_ok=True)
    try:
        temporary.hardlink_to(source)
    except OSError:
        shutil.copyfile(source, temporary)
    temporary.replace(target)
    temporary.unlink(missing_ok=True)  # a rename does nothing if both are one file already
