"""The decision whether a prediction was wrong, and which station explains the difference. Plain
data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from runtime.durations import duration

TOLERATED = 0.10  # of the predicted seconds
PATIENCE = 5.0  # seconds for which a prediction must be wrong before it is reported
# before a difference with the same cause is reported again: a run that swings is not news every
# few seconds
AGAIN_SECONDS = 60.0


@dataclass(frozen=True)
class PredictionError:
    """A prediction of `predicted` seconds per iteration where the iteration took `measured`.

    `station`: the station whose work explains half of the difference or more; "" if none does.
    `expected` and `found`: its predicted and measured seconds per iteration.
    """

    predicted: float
    measured: float
    station: str = ""
    expected: float = 0.0
    found: float = 0.0

    @property
    def why(self) -> str:
        """The difference and its cause in words."""
        measured, predicted = duration(self.measured), duration(self.predicted)
        text = f"an iteration takes {measured}, predicted {predicted}: "
        if self.station:
            return (
                f"{text}{self.station} works {duration(self.found)} of it, predicted "
                f"{duration(self.expected)}"
            )
        if self.measured < self.predicted:
            return (
                f"{text}less time passes between pieces of work; no station's work differs by as "
                "much"
            )
        text += (
            "the time passes between pieces of work (messages, waking, the interpreter, "
            "other programs); "
        )
        return f"{text}no station's work differs by as much"


def difference(
    predicted: float, measured: float, expected: Mapping[str, float], found: Mapping[str, float]
) -> PredictionError:
    """Find the station that explains the difference between the predicted and the measured seconds.

    `expected` and `found`: station -> seconds of its work in an iteration of the run, predicted and
    measured.
    """
    gap = measured - predicted
    more = (
        {name: (found[name] - expected[name]) / gap for name in expected.keys() & found.keys()}
        if gap
        else {}
    )
    station = max(sorted(more), key=more.__getitem__, default="")
    if not station or more[station] < 0.5:
        return PredictionError(predicted, measured)
    return PredictionError(predicted, measured, station, expected[station], found[station])


@dataclass
class Patience:
    """Decides when a difference is reported: once it has lasted, and once for each change of the
    run's speed."""

    since: float | None = None
    seconds: float = 0.0  # measured seconds of an iteration when a difference was reported last
    told: dict[tuple[str, bool], float] = field(default_factory=dict)  # cause -> time of its report

    def lasted(self, predicted: float, measured: float, now: float) -> bool:
        """True if the prediction has been wrong for PATIENCE seconds. `now` in seconds."""
        if abs(measured - predicted) <= TOLERATED * predicted:
            self.since = None
            return False
        self.since = now if self.since is None else self.since
        return now - self.since >= PATIENCE

    def is_news(self, miss: PredictionError, now: float) -> bool:
        """True if the speed of the run has changed since the last report, and no change with this
        cause was reported a short time ago. Then it counts as reported. `now` in seconds.

        Without a change the run is as it was reported, and only the prediction was wrong again.
        """
        cause = (miss.station, miss.measured > miss.predicted)
        recent = now - self.told.get(cause, float("-inf")) < AGAIN_SECONDS
        if recent or abs(miss.measured - self.seconds) <= TOLERATED * self.seconds:
            return False
        self.told[cause] = now
        self.seconds = miss.measured
        return True
