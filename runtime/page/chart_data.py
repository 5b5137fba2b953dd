"""The data of a page's charts, as JSON for its script.

    {"unit": ["minutes", 60.0],
     "runs": [{"name": "one", "colour": "#2563eb", "epochs": [[0, 100], [0.0, 2.5]]}],
     "charts": [{"title": "Loss", "log": true, "steps": false, "zero": false,
                 "marks": [{"iteration": 40, "seconds": 4.1, "text": "resumed"}],
                 "curves": [{"run": 0, "key": "progress loss", "label": "training",
                             "colour": "#2563eb", "dashed": false, "dots": false,
                             "x": [10, 20], "t": [1.0, 2.1], "y": [2.3, 1.9]}]}],
     "thinned": 100000,
     "live": {"every": 5, "read": 48213, "since": 0.0}}

A run whose tests count classes has "confusion": [{"net": "", "iteration": 40, "classes": ["0",
"1"], "counts": [[9, 1], [0, 10]]}], with a row for each label and a column for each class that was
found; `net` is "" for the only test net.

A run with histograms has "histograms", as in `histograms`.

`x` are iterations, `t` seconds and `y` values. `epochs` are points of the line from iterations to
epochs. `thinned` is the largest number of points of a curve before some were left out; 0 if every
point is there. `live` is there for a run that goes on: its script asks `every` so many seconds for
the lines of the journal after the `read` bytes that are in this page, and adds `since` to their
times.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from runtime.page.colours import COLOURS
from runtime.page.confusion import matrices
from runtime.page.curves import EPOCH, PROGRESS, Chart, Curve, charts, time_unit
from runtime.page.histograms import MOST, heat_maps
from runtime.page.run_history import RunHistory
from runtime.page.series import thinned

ALL_POINTS = 100_000  # of a page: about 2 MB as JSON
MOST_POINTS = 2000  # of a curve
LEAST_POINTS = 100
EPOCH_POINTS = 100  # of the line from iterations to epochs


def chart_data(stories: Sequence[RunHistory], every: int = 0) -> dict[str, Any]:
    """The data of all charts. Points are left out so that the page stays small: each stretch of a
    curve keeps its least and its greatest value. The script asks for new points of a single run
    `every` so many seconds; 0 means never."""
    chosen = charts(stories)
    count = sum(len(chart.curves) for chart in chosen)
    most = max(LEAST_POINTS, min(MOST_POINTS, ALL_POINTS // max(count, 1)))
    longest = max((len(curve.series) for chart in chosen for curve in chart.curves), default=0)
    first = stories[0]
    live = {"live": {"every": every, "read": first.read_to, "since": first.offset}}
    return (live if every else {}) | {
        "unit": time_unit(stories),
        "runs": [_run(number, story, MOST // len(stories)) for number, story in enumerate(stories)],
        "charts": [_chart(chart, most) for chart in chosen],
        "thinned": longest if longest > most else 0,
    }


def as_script(data: object) -> str:
    """The data as JSON that can stand in a `script` element: no character in it ends the
    element."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _run(number: int, story: RunHistory, room: int) -> dict[str, Any]:
    found: dict[str, Any] = {"name": story.label, "colour": COLOURS[number % len(COLOURS)]}
    if confusion := [matrix.plain() for matrix in matrices(story)]:
        found["confusion"] = confusion
    if story.histograms:
        found["histograms"] = heat_maps(story.histograms, room)
    epochs = story.series.get((PROGRESS, EPOCH))
    if epochs is None or not len(epochs):
        return found
    iterations, _, values = thinned(epochs, EPOCH_POINTS)
    return {**found, "epochs": [_short(iterations), _short(values)]}


def _chart(chart: Chart, most: int) -> dict[str, Any]:
    return {
        "title": chart.title,
        "log": chart.log,
        "steps": chart.steps,
        "zero": chart.from_zero,
        "marks": [
            {"iteration": mark.iteration, "seconds": mark.seconds, "text": mark.text}
            for mark in chart.marks
        ],
        "curves": [_curve(curve, most) for curve in chart.curves],
    }


def _curve(curve: Curve, most: int) -> dict[str, Any]:
    iterations, seconds, values = thinned(curve.series, most)
    return {
        "run": curve.run,
        "key": f"{curve.kind} {curve.field}",
        "label": curve.label,
        "colour": curve.colour,
        "dashed": curve.broken,
        "dots": curve.dots,
        "x": _short(iterations),
        "t": _short(seconds),
        "y": _short(values),
    }


def _short(numbers: Iterable[float]) -> list[float]:
    """The numbers with seven digits; whole numbers as such, which are shorter in JSON."""
    rounded = (float(f"{number:.7g}") for number in numbers)
    return [int(n) if n.is_integer() and abs(n) < 1e15 else n for n in rounded]
