"""The choice of curves that a report shows, for one run or for several in comparison."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from runtime.page.charts import COLOURS, Chart, Curve, drawn
from runtime.page.run_history import RunHistory
from runtime.page.series import Series
from runtime.records.journal_reading import is_number

ACROSS = "iteration"
# least seconds of the run, the unit for it, seconds of the unit
UNITS = ((3 * 3600.0, "hours", 3600.0), (600.0, "minutes", 60.0), (0.0, "seconds", 1.0))
PROGRESS = "progress"
TEST = "test"
PREDICTION = "prediction"
LOSS = "loss"
# field of a progress report -> title, and how it is drawn
KNOWN = {
    "learning_rate": ("Learning rate", "steps"),
    "images_per_second": ("Images a second", "from zero"),
    "staleness": ("Staleness: updates by others in between", "from zero"),
    "exposed_seconds": ("Exposed communication of an iteration, s", "from zero"),
}

Found = tuple[RunHistory, str, Series]  # the run, the kind of event with the series, the series


def figures(stories: Sequence[RunHistory]) -> list[str]:
    """The charts as HTML, one text each. Raises ConvoyError, with the command to install it, if
    matplotlib is missing."""
    return [figure for chart in _charts(stories) if (figure := drawn(chart))]


def _charts(stories: Sequence[RunHistory]) -> Iterator[Chart]:
    losses = list(_found(stories, LOSS, (PROGRESS, TEST)))
    yield _chart(stories, "Loss over iterations", losses, steep=True)
    yield _chart(stories, "Loss over time", losses, time=True, steep=True)
    tested = _names(stories, TEST) - {LOSS}
    for score in sorted(tested):
        told = list(_found(stories, score, (TEST,)))
        title = score.replace("_", " ").capitalize()
        yield _chart(stories, f"{title} of tests over iterations", told)
        yield _chart(stories, f"{title} of tests over time", told, time=True)
    reported = _names(stories, PROGRESS) - tested - {LOSS}
    for name in [*(name for name in KNOWN if name in reported), *sorted(reported - KNOWN.keys())]:
        title, how = KNOWN.get(name, (name.replace("_", " ").capitalize(), ""))
        told = list(_found(stories, name, (PROGRESS,)))
        if name in KNOWN and not any(value for _, _, series in told for value in series.values):
            continue  # all values are 0, such as the staleness of a synchronous run
        yield _chart(stories, title, told, steps=how == "steps", from_zero=name in KNOWN)
    yield from _predicted(stories)


def _predicted(stories: Sequence[RunHistory]) -> Iterator[Chart]:
    told = [
        (story, kind, Series(series.iterations, series.seconds, series.values))
        for kind in ("predicted_seconds", "measured_seconds")
        for story, _, series in _found(stories, kind, (PREDICTION,))
    ]
    curves, (unit, second) = [], _time(stories)
    for story, kind, series in told:
        # 0: not measured yet
        at = [index for index, value in enumerate(series.values) if value > 0]
        xs = [series.seconds[index] / second for index in at]
        ys = [series.values[index] for index in at]
        said = kind.partition("_")[0]
        colour = _colour(stories, story, kind.startswith("measured"))
        curves.append(
            Curve(
                _label(stories, story, said),
                xs,
                ys,
                colour,
                kind.startswith("predicted"),
                dots=True,
            )
        )
    yield Chart("Seconds of an iteration, predicted and measured", unit, curves, from_zero=True)


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
    found: Sequence[Found],
    *,
    time: bool = False,
    steep: bool = False,
    steps: bool = False,
    from_zero: bool = False,
) -> Chart:
    several = len({kind for _, kind, _ in found}) > 1
    curves, (unit, second) = [], _time(stories)
    for story, kind, series in found:
        tests = kind != PROGRESS
        said = {PROGRESS: "training"}.get(kind, kind) if several or len(stories) == 1 else ""
        xs = [at / second for at in series.seconds] if time else series.iterations
        colour = _colour(stories, story, several and tests)
        curves.append(
            Curve(
                _label(stories, story, said),
                xs,
                series.values,
                colour,
                several and tests,
                dots=tests,
            )
        )
    marks = _marks(stories[0], second if time else None) if len(stories) == 1 else ()
    return Chart(title, unit if time else ACROSS, curves, steep, steps, marks, from_zero)


def _time(stories: Sequence[RunHistory]) -> tuple[str, float]:
    """The unit of the time axes, and its length in seconds."""
    longest = max(story.offset + story.seconds for story in stories)
    return next((unit, second) for least, unit, second in UNITS if longest >= least)


def _colour(stories: Sequence[RunHistory], story: RunHistory, second: bool) -> str:
    """The colour of a curve: one for each run. A single run has a second colour for broken
    lines."""
    number = int(second) if len(stories) == 1 else stories.index(story)
    return COLOURS[number % len(COLOURS)]


def _label(stories: Sequence[RunHistory], story: RunHistory, said: str) -> str:
    return said if len(stories) == 1 else f"{story.label} {said}".strip()


def _marks(story: RunHistory, second: float | None) -> list[tuple[float, str]]:
    """The places where the run resumed another one, or where its groups or rates changed: times in
    units of `second` seconds, or iterations if `second` is None."""
    found = [
        (
            (float(event["t"]) + story.offset) / second if second else float(event["iteration"]),
            "groups or rates change",
        )
        for event in story.decisions
        if event["event"] == "regrouped" and is_number(event.get("iteration"))
    ]
    if story.forerunners:
        found.append((story.offset / second if second else float(story.begun), "resumed"))
    return found[:40]
