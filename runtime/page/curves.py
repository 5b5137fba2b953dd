"""The choice of curves that a report shows, for one run or for several in comparison."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from runtime.page.colours import COLOURS
from runtime.page.run_history import RunHistory
from runtime.page.series import Series
from runtime.records.journal_reading import is_number

# least seconds of the run, the unit for it, seconds of the unit
UNITS = ((3 * 3600.0, "hours", 3600.0), (600.0, "minutes", 60.0), (0.0, "seconds", 1.0))
PROGRESS = "progress"
TEST = "test"
PREDICTION = "prediction"
LOSS = "loss"
EPOCH = "epoch"  # the position in the data; an axis of the charts, not a curve
# field of a progress report -> title, and how it is drawn
KNOWN = {
    "learning_rate": ("Learning rate", "steps"),
    "images_per_second": ("Images a second", "from zero"),
    "staleness": ("Staleness: updates by others in between", "from zero"),
    "exposed_seconds": ("Exposed communication of an iteration, s", "from zero"),
}
# ratio of greatest to least value above which an axis is logarithmic at first
DECADES = 100.0

Found = tuple[RunHistory, str, Series]  # the run, the kind of event with the series, the series


@dataclass(frozen=True)
class Curve:
    """One curve: the values of one field in events of one kind. `run` is the run's place in the
    page. `dots` gives each value a mark. A `broken` line distinguishes another kind of values."""

    run: int
    kind: str
    field: str
    label: str
    series: Series
    colour: str
    broken: bool = False
    dots: bool = False


@dataclass(frozen=True)
class Mark:
    """An event in the charts of a run, and the iteration and the second at which it happened."""

    iteration: float
    seconds: float
    text: str


@dataclass(frozen=True)
class Chart:
    """One chart. `log` means that the axis of the values is logarithmic at first."""

    title: str
    curves: Sequence[Curve]
    log: bool = False
    steps: bool = False
    from_zero: bool = False
    marks: Sequence[Mark] = ()


def charts(stories: Sequence[RunHistory]) -> list[Chart]:
    """The charts of these runs. Charts without points are left out."""
    return [chart for chart in _charts(stories) if any(len(curve.series) for curve in chart.curves)]


def time_unit(stories: Sequence[RunHistory]) -> tuple[str, float]:
    """The unit of the time axes, and its length in seconds."""
    longest = max(story.offset + story.seconds for story in stories)
    return next((unit, second) for least, unit, second in UNITS if longest >= least)


def _charts(stories: Sequence[RunHistory]) -> Iterator[Chart]:
    losses = list(_found(stories, LOSS, (PROGRESS, TEST)))
    yield _chart(stories, "Loss", LOSS, losses, log=_spans_decades(losses))
    tested = _names(stories, TEST) - {LOSS, EPOCH}
    for score in sorted(tested):
        told = list(_found(stories, score, (TEST,)))
        yield _chart(stories, f"{_words(score)} of tests", score, told)
    reported = _names(stories, PROGRESS) - tested - {LOSS, EPOCH}
    for name in [*(name for name in KNOWN if name in reported), *sorted(reported - KNOWN.keys())]:
        title, how = KNOWN.get(name, (_words(name), ""))
        told = list(_found(stories, name, (PROGRESS,)))
        if name in KNOWN and not any(value for _, _, series in told for value in series.values):
            continue  # all values are 0, such as the staleness of a synchronous run
        steps = how == "steps"
        yield _chart(stories, title, name, told, log=steps, steps=steps, from_zero=name in KNOWN)
    yield _predicted(stories)


def _words(name: str) -> str:
    return name.replace("_", " ").capitalize()


def _spans_decades(found: Sequence[Found]) -> bool:
    values = [value for _, _, series in found if len(series) for value in series.values]
    return bool(values) and min(values) > 0 and max(values) > DECADES * min(values)


def _predicted(stories: Sequence[RunHistory]) -> Chart:
    curves = []
    for field in ("predicted_seconds", "measured_seconds"):
        for story, kind, series in _found(stories, field, (PREDICTION,)):
            measured = Series()
            for number, value in enumerate(series.values):
                if value > 0:  # 0: not measured yet
                    measured.add(series.iterations[number], series.seconds[number], value)
            curves.append(
                Curve(
                    stories.index(story),
                    kind,
                    field,
                    _label(stories, story, field.partition("_")[0]),
                    measured,
                    _colour(stories, story, field.startswith("measured")),
                    field.startswith("predicted"),
                    dots=True,
                )
            )
    return Chart("Seconds of an iteration, predicted and measured", curves, from_zero=True)


def _found(stories: Sequence[RunHistory], name: str, events: Sequence[str]) -> Iterator[Found]:
    """The series of a field, run by run. Additional test nets have their own."""
    for story in stories:
        for (kind, field), series in sorted(story.series.items(), key=lambda told: told[0]):
            if field == name and kind.partition(" ")[0] in events:
                yield story, kind, series


def _names(stories: Sequence[RunHistory], event: str) -> set[str]:
    return {
        field
        for story in stories
        for kind, field in story.series
        if kind.partition(" ")[0] == event
    }


def _chart(
    stories: Sequence[RunHistory],
    title: str,
    field: str,
    found: Sequence[Found],
    *,
    log: bool = False,
    steps: bool = False,
    from_zero: bool = False,
) -> Chart:
    several = len({kind for _, kind, _ in found}) > 1
    curves = []
    for story, kind, series in found:
        tests = kind != PROGRESS
        said = {PROGRESS: "training"}.get(kind, kind) if several or len(stories) == 1 else ""
        curves.append(
            Curve(
                stories.index(story),
                kind,
                field,
                _label(stories, story, said),
                series,
                _colour(stories, story, several and tests),
                several and tests,
                dots=tests,
            )
        )
    marks = list(_marks(stories[0]))[:40] if len(stories) == 1 else ()
    return Chart(title, curves, log, steps, from_zero, marks)


def _colour(stories: Sequence[RunHistory], story: RunHistory, second: bool) -> str:
    """The colour of a curve: one for each run. A single run has a second colour for broken
    lines."""
    number = int(second) if len(stories) == 1 else stories.index(story)
    return COLOURS[number % len(COLOURS)]


def _label(stories: Sequence[RunHistory], story: RunHistory, said: str) -> str:
    return said if len(stories) == 1 else f"{story.label} {said}".strip()


def _marks(story: RunHistory) -> Iterator[Mark]:
    """The places where the run resumed another one, or where its groups or rates changed."""
    if story.forerunners:
        yield Mark(float(story.begun), story.offset, "resumed")
    for event in story.decisions:
        if event["event"] == "regrouped" and is_number(event.get("iteration")):
            at = float(event["t"]) + story.offset
            yield Mark(float(event["iteration"]), at, "groups or rates change")
