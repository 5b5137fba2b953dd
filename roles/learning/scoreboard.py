"""What the numbers of a run say: loss, speed, staleness since the last report, the last test. Sums
only."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from roles.messages import TEST

ITERATION = "iteration"  # what the seconds from the end of one to that of the next are noted as
HELD = "held"  # events: between them nothing that is done is work of the run
RELEASED = "released"

Scores = dict[str, float]
Part = tuple[int, Scores]  # rows, means over them


@dataclass
class Iteration:
    """What reports say of one: its loss, None until the whole batch's is known; the seconds of each
    worker in which nobody computed for it; its staleness where it was stalest, None if no server
    told it."""

    loss: float | None = None
    exposed: list[float] = field(default_factory=list)
    staleness: int | None = None


def mean_scores(parts: Sequence[Part]) -> Scores:
    """Means over the rows of all parts. Parts that were told the same scores of the whole batch
    give just those."""
    first = parts[0][1]
    if all(scores == first for _, scores in parts):
        return first
    rows = sum(count for count, _ in parts)
    return {name: sum(count * scores[name] for count, scores in parts) / rows for name in first}


class Scoreboard:
    """Collects the numbers between two reports. Times are loop time in seconds. The loss is the
    mean since the last report, or of the last `average` iterations (Caffe's average_loss)."""

    def __init__(self, average: int | None = None) -> None:
        self._average = average
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
        """Those that the next report is made of."""
        return list(self._losses)

    def begin(self, now: float, losses: Sequence[float] = ()) -> None:
        """Training starts; the next report is made of these `losses` of the run before, too."""
        self._losses.extend(losses)
        self._started = self._began = self._reported_at = now

    def pause(self, now: float) -> None:
        """Something other than training begins: its time does not count for images a second."""
        self._paused_at = now

    def resume(self, now: float) -> None:
        """Training goes on."""
        self._reported_at += now - self._paused_at
        self._began += now - self._paused_at

    def lap(self, now: float) -> float:
        """Seconds of training since the last lap, or since it started."""
        before = self._lap
        self._lap = now - self._began
        return self._lap - before

    def trained(self, iteration: Iteration, images: int, rate: float) -> None:
        """An iteration of so many images, with this learning rate, has ended."""
        self._learning_rate = rate
        self._images += images
        if iteration.loss is not None:
            self._losses.append(iteration.loss)
        if iteration.staleness is not None:
            self._staleness.append(iteration.staleness)
        self._exposed += iteration.exposed

    def tested(self, phase: str, rows: int, scores: Scores) -> None:
        """The scores of a batch of a test net, means over its `rows` rows."""
        self._tests.setdefault(phase, []).append((rows, scores))

    def test_result(self, phase: str = TEST) -> Scores:
        """The scores of the whole test of a net, means over its images; the next test starts
        afresh. Reports show those of the first test net."""
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
        self, completed: int, last: int, now: float, *, between: bool = False
    ) -> dict[str, Any]:
        """Fields of a progress report: means since the last one; the learning rate of the last
        iteration. `elapsed_seconds` have passed since training started, tests and checkpoints among
        them. `between` two whose turn it is: the next one's loss is as it would be without this
        one."""
        seconds = now - self._reported_at
        images = self._images - self._reported_images
        self._last_rate = images / seconds if seconds > 0 else 0.0
        fields = {
            "iteration": completed,
            "max_iter": last,
            "loss": _mean(self._losses),
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
        """Fields of the last report: the whole run."""
        seconds = now - self._began
        return {
            "iterations": completed,
            **self._accuracy,
            "seconds": seconds,
            "images_per_second": self._images / seconds if seconds > 0 else 0.0,
        }


def _mean(values: Collection[float]) -> float:
    return sum(values) / len(values) if values else 0.0
