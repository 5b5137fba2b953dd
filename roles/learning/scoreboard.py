"""The sums behind a run's reports: loss, speed and staleness since the last report, and the last
test."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from roles.messages import TEST

ITERATION = "iteration"  # the label of the seconds from the end of one iteration to the next end
HELD = "held"  # events: work between these two is not work of the run
RELEASED = "released"

Scores = dict[str, float]
Part = tuple[int, Scores]  # rows, means over them


@dataclass
class Iteration:
    """The facts on one iteration in reports.

    `loss`: None until the loss of the whole batch is known. `exposed`: for each worker, the seconds
    in which no process computed for it. `staleness`: the largest one; None if no server reported
    it. `scores`: those of the training net on the batch.
    """

    loss: float | None = None
    exposed: list[float] = field(default_factory=list)
    staleness: int | None = None
    scores: Scores = field(default_factory=dict)


def mean_scores(parts: Sequence[Part]) -> Scores:
    """Means over the rows of all parts. If all parts report equal scores, these are the scores of
    the whole batch, and the result."""
    first = parts[0][1]
    if all(scores == first for _, scores in parts):
        return first
    rows = sum(count for count, _ in parts)
    return {name: sum(count * scores[name] for count, scores in parts) / rows for name in first}


class Scoreboard:
    """Collects the numbers between two reports.

    Times are loop time in seconds. The loss is the mean since the last report, or of the last
    `average` iterations (Caffe's average_loss). `accuracies`: the scores of the training net that
    reports have, of the batch of their last iteration. A mean since the last report would differ in
    a resumed run.
    """

    def __init__(self, average: int | None = None, accuracies: Sequence[str] = ()) -> None:
        self._average = average
        self._accuracies = accuracies
        self._batch: Scores = {}  # those scores of the last iteration
        self._images = self._reported_images = 0
        self._started = self._began = self._reported_at = self._paused_at = self._lap = 0.0
        self._losses: deque[float] = deque(maxlen=average)
        self._staleness: list[int] = []
        self._exposed: list[float] = []
        self._tests: dict[str, list[Part]] = {}  # by phase: the batches of the present test
        self._accuracy: dict[str, float] = {}
        self._last_rate = self._learning_rate = 0.0

    @property
    def losses(self) -> list[float]:
        """The losses that the next report is made of."""
        return list(self._losses)

    def begin(self, now: float, losses: Sequence[float] = ()) -> None:
        """Start training. The next report includes these `losses` of the earlier run."""
        self._losses.extend(losses)
        self._started = self._began = self._reported_at = now

    def pause(self, now: float) -> None:
        """Stop the clock of images per second for work that is not training."""
        self._paused_at = now

    def resume(self, now: float) -> None:
        """Start the clock again: training goes on."""
        self._reported_at += now - self._paused_at
        self._began += now - self._paused_at

    def kept(self, seconds: float) -> None:
        """Count seconds of training in which the clock stood still: an iteration of a probe that is
        kept."""
        self._began -= seconds
        self._reported_at -= seconds
        self._lap += seconds

    def undone(self) -> None:
        """Forget the losses since the last report: their iterations were undone."""
        self._losses.clear()
        self._staleness.clear()
        self._exposed.clear()

    def lap(self, now: float) -> float:
        """Seconds of training since the last lap, or since training started."""
        before = self._lap
        self._lap = now - self._began
        return self._lap - before

    def trained(self, iteration: Iteration, images: int, rate: float) -> None:
        """Note that an iteration of `images` images, with learning rate `rate`, has ended."""
        self._learning_rate = rate
        self._images += images
        if iteration.loss is not None:
            self._losses.append(iteration.loss)
        if iteration.staleness is not None:
            self._staleness.append(iteration.staleness)
        self._exposed += iteration.exposed
        found = iteration.scores
        self._batch = {f"train_{name}": found[name] for name in self._accuracies if name in found}

    def tested(self, phase: str, rows: int, scores: Scores) -> None:
        """Note the scores of a batch of a test net: means over its `rows` rows."""
        self._tests.setdefault(phase, []).append((rows, scores))

    def test_result(self, phase: str = TEST) -> Scores:
        """The scores of a whole test of a net, as means over its images. The next test starts
        afresh. Reports show the scores of the first test net."""
        parts = self._tests.pop(phase, [])
        total = sum(rows for rows, _ in parts)
        found = {
            name: sum(rows * scores[name] for rows, scores in parts) / total
            for name in (parts or [(0, {})])[0][1]
        }
        if phase == TEST:
            self._accuracy = {name: value for name, value in found.items() if name != "loss"}
        return found

    def progress(
        self,
        completed: int,
        last: int,
        now: float,
        *,
        epoch: float | None = None,
        between: bool = False,
    ) -> dict[str, Any]:
        """The fields of a progress report: means since the last one, and the learning rate of the
        last iteration.

        `epoch`: the epochs in these iterations, if they are known. `elapsed_seconds` have passed
        since training started, including tests and checkpoints.
        `between`: an additional report between two regular ones; it does not change the loss of the
        next one.
        """
        seconds = now - self._reported_at
        images = self._images - self._reported_images
        self._last_rate = images / seconds if seconds > 0 else 0.0
        fields = {
            "iteration": completed,
            "max_iter": last,
            **({} if epoch is None else {"epoch": epoch}),
            "loss": _mean(self._losses),
            **self._batch,
            **self._accuracy,
            "learning_rate": self._learning_rate,
            "elapsed_seconds": now - self._started,
            "images_per_second": self._last_rate,
            "staleness": _mean(self._staleness),
        }
        if any(self._exposed):
            fields["exposed_seconds"] = _mean(self._exposed)
        if self._average is None and not between:
            self._losses.clear()
        self._staleness = []
        self._exposed = []
        self._reported_at = now
        self._reported_images = self._images
        return fields

    def summary(self, completed: int, now: float) -> dict[str, Any]:
        """The fields of the last report, over the whole run."""
        seconds = now - self._began
        return {
            "iterations": completed,
            **self._accuracy,
            "seconds": seconds,
            "images_per_second": self._images / seconds if seconds > 0 else 0.0,
        }


def _mean(values: Collection[float]) -> float:
    return sum(values) / len(values) if values else 0.0
