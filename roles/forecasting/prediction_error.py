"""Was a prediction true, and if not, which station differs? Plain decisions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

TOLERATED = 0.10  # of the predicted seconds
PATIENCE = 5.0  # seconds that a prediction must be wrong before it is told


@dataclass(frozen=True)
class PredictionError:
    """A prediction of `predicted` seconds an iteration that took `measured`. `station`: whose work
    explains half of the difference or more, with its seconds an iteration as predicted and
    measured; "": nobody's."""

    predicted: float
    measured: float
    station: str = ""
    expected: float = 0.0
    found: float = 0.0

    @property
    def why(self) -> str:
        """In words, for a line."""
        text = f"an iteration takes {spoken(self.measured)}, predicted {spoken(self.predicted)}: "
        if self.station:
            return (
                f"{text}{self.station} works {spoken(self.found)} of it, predicted "
                f"{spoken(self.expected)}"
            )
        if self.measured < self.predicted:
            return (
                f"{text}less time passes between pieces of work; nobody's work differs by as much"
            )
        text += (
            "the time passes between pieces of work (messages, waking, the interpreter, "
            "other programs); "
        )
        return f"{text}nobody's work differs by as much"


def difference(
    predicted: float, measured: float, expected: Mapping[str, float], found: Mapping[str, float]
) -> PredictionError:
    """`expected` and `found`: station -> seconds of its work in an iteration of the run, predicted
    and measured."""
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
    """Tells of a miss once it has lasted, and of each cause once."""

    since: float | None = None
    told: set[tuple[str, bool]] = field(default_factory=set)

    def lasted(self, predicted: float, measured: float, now: float) -> bool:
        """Has the prediction been wrong for long? `now` in seconds."""
        if abs(measured - predicted) <= TOLERATED * predicted:
            self.since = None
            return False
        self.since = now if self.since is None else self.since
        return now - self.since >= PATIENCE

    def is_news(self, miss: PredictionError) -> bool:
        """Was nothing of this cause told before? From now on it was."""
        cause = (miss.station, miss.measured > miss.predicted)
        if cause in self.told:
            return False
        self.told.add(cause)
        return True


def spoken(seconds: float) -> str:
    """A time for people: "12.1 ms", "3.25 s"."""
    return f"{seconds:.3g} s" if seconds >= 0.9995 else f"{seconds * 1e3:.3g} ms"
