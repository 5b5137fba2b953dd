"""The state of a run at one moment, gathered from its events and heartbeats for the live table.

It shows any program's events by their fields. The fields of `progress` that have a fixed place in
the table are named here; all other fields follow them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from runtime.cluster.preparing import PREPARING
from runtime.plan.growth import ENDED
from runtime.records.journal_reading import is_number
from runtime.report.run_phase import ENDS, RunPhase

if TYPE_CHECKING:
    from runtime.cluster.lifecycle import Heartbeat

HEADLINE = "progress"  # the event with the fields at the head of the table
PREDICTION = "prediction"  # the event with the `text` below them
TESTED = "test"
CONFUSION = "confusion"  # the event with the matrix of a test; no line shows it
HISTOGRAMS = "histograms"  # the event with those of a layer, which have a file of their own
CURVES = ("loss", "accuracy")  # fields that are drawn as curves
# fields that only `up --verbose` shows: the seconds in which no process computed for a worker
DETAILS = ("exposed_seconds",)
AGREES = 1.25  # a prediction that differs from the measurement by at most this factor is a detail
MOST_POINTS = 4096  # of a curve; when it gets longer, every second point is kept
SMOOTHING = 0.2  # weight of the latest beat in an actor's interest, so that rows do not jump


@dataclass
class Seen:
    """An actor as its heartbeats describe it. `interest` measures how much it has computed, and how
    much others have waited for it, of late."""

    process: str
    role: str = ""
    doing: str = "no heartbeat yet"
    waits: str = ""
    handled: int = 0
    inbox: int = 0
    interest: float = 0.0
    waited: dict[str, float] = field(default_factory=dict)


class Curve:
    """A series of values of any length, in bounded memory."""

    def __init__(self) -> None:
        self.values: list[float] = []
        self.last = float("nan")
        self._stride = 1
        self._skipped = 0

    def add(self, value: float) -> None:
        """Add the next value."""
        self.last = value
        self._skipped += 1
        if self._skipped < self._stride:
            return
        self._skipped = 0
        self.values.append(value)
        if len(self.values) > MOST_POINTS:
            self.values = self.values[::2]
            self._stride = 2 * self._stride


class RunState:
    """The state of one run, as the live table shows it. `actors` maps the expected actors to their
    processes. Times are seconds of the run's clock. The table is drawn in another thread than the
    one that updates it. `verbose`: also show details, see `DETAILS` and `AGREES`."""

    def __init__(self, actors: Mapping[str, str] | None = None, *, verbose: bool = False) -> None:
        self.actors = {actor: Seen(process) for actor, process in (actors or {}).items()}
        self._verbose = verbose
        self.progress: dict[str, Any] = {}
        self.predicted = ""
        self._course = RunPhase()
        self.curves: dict[str, Curve] = {}
        self.summary: dict[str, Any] = {}
        self.tested: dict[str, Any] = {}
        self.began: float | None = None  # when the actors began
        self.preparing: dict[str, str] = {}  # process -> its preparation, before that
        self._paces: deque[tuple[float, int]] = deque(maxlen=20)  # time, iterations done

    # -- input

    def event(self, event: str, fields: Mapping[str, Any], now: float) -> None:
        """Note an event of any actor."""
        self._course.event(event)
        if event == HEADLINE:
            self.progress = shown_fields(fields, verbose=self._verbose)
            for name in CURVES:
                self._point(name, self.progress)
            done, _ = self.iterations
            if done is not None:
                self._paces.append((now, done))
        elif event == TESTED:
            self.tested = dict(fields)
            self._point("accuracy", fields)
        elif event == PREDICTION:
            shows = self._verbose or not _agrees(fields)
            self.predicted = str(fields.get("text", "")) if shows else ""
        elif event == PREPARING:
            self.preparing[str(fields.get("process"))] = "{what}: {done} of {total}".format(
                **fields
            )
        elif event == "began":
            self.began = now
            self.preparing.clear()
        elif event == ENDED and (seen := self.actors.get(str(fields.get("name")))) is not None:
            seen.doing = "ended"
            seen.waits = ""
        elif event in ENDS:
            self.summary = dict(fields)

    def _point(self, name: str, fields: Mapping[str, Any]) -> None:
        value = fields.get(name)
        curve = self.curves.get(name)
        if not isinstance(value, int | float) or (
            name == "accuracy" and curve is not None and curve.last == value
        ):
            return  # each progress repeats the accuracy of the last test
        if curve is None:
            curve = self.curves[name] = Curve()
        curve.add(float(value))

    def beat(self, heartbeat: Heartbeat) -> None:
        """Note the heartbeat of a process."""
        if self.began is None:
            self.preparing.setdefault(heartbeat.process, heartbeat.busy_with)
        wanted: dict[str, float] = {}
        for name, status in heartbeat.actors.items():
            seen = self.actors.setdefault(name, Seen(heartbeat.process))
            spans = {
                peer: total - seen.waited.get(peer, 0.0) for peer, total in status["waited"].items()
            }
            longest = sorted(spans, key=lambda peer: -spans[peer])
            shares = {
                peer: min(1.0, spans[peer] / heartbeat.period)
                for peer in longest
                if spans[peer] > 0.01
            }
            seen.waits = (
                ", ".join(f"{peer} {share:.0%}" for peer, share in shares.items())
                or status["waiting_for"]
            )
            seen.process = heartbeat.process
            seen.role = status["role"]
            seen.doing = status["doing"]
            seen.handled = status["handled"]
            seen.inbox = status["inbox"]
            seen.waited = dict(status["waited"])
            for peer, share in shares.items():
                wanted[peer] = wanted.get(peer, 0.0) + share
            busy = float(seen.doing != "idle") + seen.inbox
            seen.interest += SMOOTHING * (busy - seen.interest)
        for peer, share in wanted.items():
            if peer in self.actors:
                self.actors[peer].interest += SMOOTHING * share

    # -- output

    @property
    def stage(self) -> str:
        """A text about a run that is ending. "" before that."""
        if self._course.result == "failed":
            return "failed"
        if self._course.state == "stopping":
            return self._course.last_word or "winding down: finishing what is under way and saving"
        return ""

    @property
    def iterations(self) -> tuple[int | None, int | None]:
        """The number of iterations done and the planned total. None for each that the program does
        not report."""
        said = self.progress.get("iteration")
        last = self.progress.get("max_iter")
        ended = self.summary.get("iterations")
        if isinstance(said, str):  # "300/2000"
            said, _, last = said.partition("/")
        try:
            done = said if ended is None else ended
            return (None if done is None else int(done)), (int(last) if last else None)
        except (TypeError, ValueError):
            return None, None

    def remaining(self, now: float) -> float | None:
        """The seconds left, by the pace of the last reports. None if unknown."""
        done, last = self.iterations
        if done is None or last is None or len(self._paces) < 2 or self._course.last_word:
            return None
        (first_at, first), (last_at, _) = self._paces[0], self._paces[-1]
        if done <= first:
            return None
        return max(0.0, (last - done) * (last_at - first_at) / (done - first) - (now - last_at))

    def chosen(self, most: int) -> list[str]:
        """The names of at most `most` actors to show, sorted: first the most interesting actor of
        each role, then the most interesting of the rest."""
        if len(self.actors) <= most:
            return sorted(self.actors)
        by_interest = sorted(
            self.actors, key=lambda name: (-round(self.actors[name].interest, 1), name)
        )
        first_of = {self.actors[name].role: name for name in reversed(by_interest)}
        kept = list(
            dict.fromkeys([*sorted(first_of.values(), key=by_interest.index), *by_interest])
        )
        return sorted(kept[:most])

    def others(self, shown: Iterable[str]) -> str:
        """One line about the actors that are not shown: how many work, wait or idle. "" if all are
        shown."""
        left = self.actors.keys() - set(shown)
        if not left:
            return ""
        waiting = sum(
            bool(self.actors[name].waits) and self.actors[name].doing == "idle" for name in left
        )
        idle = sum(
            not self.actors[name].waits and self.actors[name].doing == "idle" for name in left
        )
        told = {"at work": len(left) - waiting - idle, "waiting": waiting, "idle": idle}
        return f"and {len(left)} more: " + ", ".join(
            f"{count} {what}" for what, count in told.items() if count
        )


def shown_fields(fields: Mapping[str, Any], *, verbose: bool) -> dict[str, Any]:
    """The fields of an event that `up` shows; see `DETAILS`."""
    return {name: value for name, value in fields.items() if verbose or name not in DETAILS}


def _agrees(prediction: Mapping[str, Any]) -> bool:
    """Whether a prediction of the seconds of an iteration agrees with the measurement. False if one
    of them is not known."""
    predicted, measured = (prediction.get(f"{name}_seconds") for name in ("predicted", "measured"))
    if not (is_number(predicted) and is_number(measured)) or min(predicted, measured) <= 0:
        return False
    return max(predicted, measured) <= AGREES * min(predicted, measured)
