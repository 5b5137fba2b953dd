"""The results of a run's tests: reported and measured here, judged in `checkpoints.best`."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path

from nets.predict import Seen
from roles.checkpoints.best import KEY, History, Verdict, Watched, taken_over
from roles.coordination.schedule import Timetable
from roles.learning.confusion import Confusion
from roles.learning.resume import Kept, kept_of
from roles.learning.scoreboard import Scoreboard, Scores
from roles.messages import TEST
from runtime import Actor


class Tests:
    """The tests of one coordinator's run. `confusion` has the counts of the present test. The data
    that were `seen` give the names of the classes, if they are known."""

    def __init__(
        self, actor: Actor, table: Timetable, watched: Watched, seen: Seen | None = None
    ) -> None:
        self.confusion = Confusion()
        self._classes = () if seen is None else seen.classes
        self._actor = actor
        self._table = table
        self._history = History(watched)
        self._best_here = (
            -1,
            math.nan,
        )  # of this run: iteration and value of the score that is shown

    def __repr__(self) -> str:
        return f"<tests of {len(self._table.tests)} nets, {self._history!r}>"

    def start(self) -> None:
        """Make the gauges."""
        gauge = self._actor.gauge
        self._gauges = {
            test.phase: {
                "loss": gauge(
                    "loss",
                    "Loss of the last test (`test`; `test 1`, ... for further test nets).",
                    split=test.phase.lower(),
                ),
                "accuracy": gauge(
                    "accuracy_ratio", "Accuracy of the last test.", split=test.phase.lower()
                ),
            }
            for test in self._table.tests
        }

    async def resumed(self, path: str, facts: dict[str, str]) -> Verdict:
        """Take over the tests in this checkpoint, and the best model so far. Returns the verdict of
        those tests."""
        kept = kept_of(facts)
        first = -1 if kept is not None and self.due(kept) else self._table.first
        self._history = History(self._history.watched, first, facts.get(KEY, ""))
        iteration = self._history.best_iteration
        before = Path(path if kept is None else kept.run)
        here = self._actor.run_directory
        if kept is not None:
            before /= before.name  # like a checkpoint, its parent is the run directory
        if iteration >= 0 and not await asyncio.to_thread(taken_over, before, iteration, here):
            text = (
                "the best model so far, of iteration %d, is not next to %s: if the file still "
                "exists elsewhere, it stays there"
            )
            self._actor.log.warning(text, iteration, before.name)
        return Verdict(stop=self._history.stop(), reductions=self._history.reductions)

    def due(self, kept: Kept) -> bool:
        """Did the run that died still have to test the model that this run begins with?"""
        return kept.due(self._table.first, self._table.test_interval, self._table.last)

    def report(self, scoreboard: Scoreboard, iteration: int) -> Verdict:
        """Report a test that is over. Returns its consequences."""
        verdict = Verdict()
        for test in self._table.tests:
            scores = scoreboard.test_result(test.phase)
            for name, gauge in self._gauges[test.phase].items():
                if name in scores:
                    gauge.set(scores[name])
            named = {"net": test.name} if test.name else {}
            self._actor.emit("test", iteration=iteration, **named, **scores)
            if (counts := self.confusion.take(test.phase)) is not None:
                names = {"classes": list(self._classes)} if self._classes else {}
                self._actor.emit("confusion", iteration=iteration, **named, **names, counts=counts)
            if test.phase == TEST:
                verdict = self._history.hear(iteration, scores)
                self._note(iteration, scores)
        return verdict

    def _note(self, iteration: int, scores: Scores) -> None:
        watch = self._history.watched.shown
        value = scores.get(watch.score, math.nan)
        if watch.better(value, self._best_here[1], 0.0):
            self._best_here = iteration, value

    @property
    def best_test(self) -> dict[str, float]:
        """The best value of the score that is shown, and its iteration, for the lead's last report:
        of the tests of this run, or, if the best model is kept, also of the runs that it resumes.
        Empty if nothing was tested."""
        watched = self._history.watched
        kept = self._history.best_iteration, self._history.best_value
        iteration, value = kept if watched.best.score else self._best_here
        if iteration < 0:
            return {}
        return {f"best_{watched.shown.score}": value, "best_iteration": iteration}

    def facts(self, iteration: int) -> dict[str, str]:
        """The metadata for the checkpoint of that iteration."""
        return self._history.facts(iteration)

    @property
    def best(self) -> dict[str, float]:
        """The score of the best model so far, by its name."""
        return {self._history.watched.best.score: self._history.best_value}
