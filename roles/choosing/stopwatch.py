"""The time of an iteration in a trial, from its progress reports, and the decision when enough is
known. Decisions only, no I/O."""

from __future__ import annotations

from typing import Any

PROGRESS = "progress"
REPORT_SECONDS = 0.25  # predicted, between two reports: each report costs time
MOST_APART = 100  # iterations between two reports
WARM_ITERATIONS = 10  # caches are cold before
WARM_SECONDS = 0.5
ITERATIONS = 30  # measured after those: ITERATIONS and SECONDS, or MOST_ITERATIONS
SECONDS = 1.0
MOST_ITERATIONS = 300
LIMIT_SECONDS = 3.0  # since the first report: the trial ends, whatever was measured


def apart(predicted: float, iterations: int) -> int:
    """Iterations between two reports of a run of so many `iterations`. `predicted`: seconds of one
    iteration, 0 if it takes no time."""
    wanted = int(REPORT_SECONDS / predicted) if predicted else WARM_ITERATIONS
    return max(1, min(wanted, MOST_APART, iterations // 4))


class Stopwatch:
    """Measures one trial. Times are in seconds."""

    def __init__(self) -> None:
        self._marks: list[tuple[int, float]] = []  # (iterations that have ended, time)
        self._warm: tuple[int, float] | None = None

    def __repr__(self) -> str:
        return f"<stopwatch: {self.iterations} iterations>"

    def heard(self, event: str, fields: dict[str, Any], now: float) -> bool:
        """Note an event that an actor reported. Returns True when enough is known."""
        if event != PROGRESS:
            return False
        mark = int(fields["iteration"]), now
        self._marks.append(mark)
        done, passed = self._since(self._marks[0])
        if (
            self._warm is None
            and done >= WARM_ITERATIONS
            and (passed >= WARM_SECONDS or done >= MOST_ITERATIONS)
        ):
            self._warm = mark
        if passed >= LIMIT_SECONDS:
            return True
        if self._warm is None:
            return False
        done, passed = self._since(self._warm)
        return (done >= ITERATIONS and passed >= SECONDS) or done >= MOST_ITERATIONS

    @property
    def iterations(self) -> int:
        """The number of iterations that were measured."""
        return self._since(self._first)[0] if self._marks else 0

    @property
    def seconds(self) -> float | None:
        """Seconds of an iteration; None if they are not known."""
        done, passed = self._since(self._first) if self._marks else (0, 0.0)
        return passed / done if done else None

    @property
    def _first(self) -> tuple[int, float]:
        """The start of the measurement: the report at which caches were warm, if another came after
        it, else the first report."""
        return self._marks[0] if self._warm is None or self._warm == self._marks[-1] else self._warm

    def _since(self, mark: tuple[int, float]) -> tuple[int, float]:
        return self._marks[-1][0] - mark[0], self._marks[-1][1] - mark[1]
