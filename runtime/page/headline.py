"""The figures that people look for first: how far a run is, how good it is, and the time left."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from runtime.durations import duration
from runtime.page.run_history import RunHistory
from runtime.page.series import Series
from runtime.records.journal_reading import is_number
from runtime.report.run_summary import is_better

RECENT = 20  # progress reports from which the speed of a run is taken
NO_SCORES = ("loss", "epoch")


@dataclass(frozen=True)
class Figure:
    """One figure. `key` names it for the page's script, which renews the figures of a live run;
    `value` is the number, for sorting."""

    key: str
    label: str
    text: str
    value: float


def headline(story: RunHistory) -> list[Figure]:
    """The figures of a card, in order."""
    return [*_position(story), *_scores(story), *_speed(story), *_times(story)]


def best(scores: Series, name: str) -> tuple[float, float]:
    """The best value of a score that has values, and its iteration: the earliest of equals."""
    at = 0
    for place, value in enumerate(scores.values):
        if is_better(name, value, scores.values[at]):
            at = place
    return scores.values[at], scores.iterations[at]


def seconds_left(story: RunHistory) -> float | None:
    """The seconds until the last iteration, at the speed of the last reports. None if the run has
    ended or its speed is not known."""
    last = story.last.get("progress", {}).get("max_iter")
    times, done = story.marks
    if not story.lives or not is_number(last) or len(done) < 2:
        return None
    first = max(0, len(done) - 1 - RECENT)
    iterations = done[-1] - done[first]
    if iterations <= 0:
        return None
    return max(0.0, last - done[-1]) * (times[-1] - times[first]) / iterations


def _position(story: RunHistory) -> Iterator[Figure]:
    progress = story.last.get("progress", {})
    if is_number(done := progress.get("iteration")):
        last = progress.get("max_iter")
        whole = last == done or not is_number(last)
        text = f"{done:,}" if whole else f"{done:,} of {last:,}"
        yield Figure("iterations", "iterations", text, done)
    if is_number(epoch := progress.get("epoch")):
        yield Figure("epoch", "epochs", f"{epoch:.4g}", epoch)


def _scores(story: RunHistory) -> Iterator[Figure]:
    for (kind, name), scores in story.series.items():
        if kind != "test" or name in NO_SCORES or not len(scores):
            continue
        said = name.replace("_", " ")
        last = scores.values[-1]
        yield Figure(f"test {name}", f"{said} of the last test", f"{last:.4g}", last)
        value, iteration = best(scores, name)
        text = f"{value:.4g}"
        yield Figure(f"best {name}", f"best {said}, iteration {iteration:,.0f}", text, value)


def _speed(story: RunHistory) -> Iterator[Figure]:
    progress = story.last.get("progress", {})
    for name, said in (("loss", "training loss"), ("images_per_second", "images a second")):
        source = story.ended or progress if name == "images_per_second" else progress
        if is_number(value := source.get(name)):
            yield Figure(name, said, f"{value:,.0f}" if value >= 1000 else f"{value:.4g}", value)


def _times(story: RunHistory) -> Iterator[Figure]:
    seconds = story.offset + story.seconds
    yield Figure("seconds", "so far" if story.lives else "lasted", duration(seconds), seconds)
    if (left := seconds_left(story)) is not None:
        yield Figure("left", "left, about", duration(left), left)
