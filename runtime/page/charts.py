"""Charts as SVG. Only this file imports matplotlib, when the first chart is drawn.

A chart is an HTML `figure` that takes the width it is given. Next to the SVG it holds the data with
which the page's script shows the values under the pointer: the points, and the position of the axes
in the drawing.
"""

from __future__ import annotations

import io
import itertools
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import quoteattr

from runtime.errors import ConvoyError
from runtime.page.gantt import Gantt
from runtime.page.series import thinned

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#2563eb", "#d97706", "#059669", "#db2777", "#7c3aed", "#0891b2", "#65a30d", "#dc2626")
INK = "#334155"
GRID = "#e2e8f0"
WIDTH = 5.5  # inches; the drawing has 72 units an inch
HEIGHT = 3.2
WAITING = "#cbd5e1"
GANTT_WIDTH = 13.0  # inches; a row of the Gantt chart
ROW = 0.3
MOST_DOTS = 100  # of a curve; more dots would overlap
# ratio of greatest to least value above which an axis is logarithmic, if the chart allows it
DECADES = 100.0
STYLE: Any = {  # Any, since matplotlib's own type lists every existing setting
    "svg.fonttype": "none",
    "font.size": 9.5,
    "axes.edgecolor": "#94a3b8",
    "axes.labelcolor": INK,
    "axes.titlecolor": "#0f172a",
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": INK,
    "ytick.color": INK,
    "text.color": INK,
    "axes.grid": True,
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "lines.linewidth": 1.5,
    "path.simplify": False,
    "figure.constrained_layout.use": True,
}


@dataclass(frozen=True)
class Curve:
    """One curve; `xs` are ascending. `dots` gives each value a mark. A `broken` line distinguishes
    another kind of values."""

    label: str
    xs: Sequence[float]
    ys: Sequence[float]
    colour: str
    broken: bool = False
    dots: bool = False


@dataclass(frozen=True)
class Chart:
    """One chart. `marks` are pairs of x and the event at x; the first of each kind is named in the
    legend. `steep` means that the values may span decades, so that the axis may be logarithmic."""

    title: str
    across: str
    curves: Sequence[Curve]
    steep: bool = False
    steps: bool = False
    marks: Sequence[tuple[float, str]] = ()
    from_zero: bool = False


def drawn(chart: Chart) -> str:
    """The chart as a `figure` of HTML. "" if it has no points. Raises ConvoyError, with the command
    to install it, if matplotlib is missing."""
    points = [(curve, *thinned(curve.xs, curve.ys)) for curve in chart.curves]
    points = [(curve, xs, ys) for curve, xs, ys in points if xs]
    if not points:
        return ""
    with _styled():
        return _lines(chart, points)


def _lines(chart: Chart, points: Sequence[tuple[Curve, list[float], list[float]]]) -> str:
    figure, axes = _figure(WIDTH, HEIGHT, _plain(chart.title))
    for curve, xs, ys in points:
        axes.plot(
            xs,
            ys,
            color=curve.colour,
            label=_plain(curve.label),
            linestyle="--" if curve.broken else "-",
            marker="o" if (curve.dots and len(xs) <= MOST_DOTS) or len(xs) == 1 else "",
            markersize=3.2,
            drawstyle="steps-post" if chart.steps else "default",
        )
    _scale(axes, chart, [y for _, _, ys in points for y in ys])
    named = set[str]()
    for x, said in chart.marks:
        axes.axvline(
            x,
            color="#94a3b8",
            linestyle=":",
            linewidth=1.2,
            label="_" if said in named else _plain(said),
        )
        named.add(said)
    axes.set_xlabel(chart.across)
    if len(points) + len(named) > 1:
        axes.legend(loc="best")
    hover = [
        {"label": curve.label, "colour": curve.colour, "xs": xs, "ys": ys}
        for curve, xs, ys in points
    ]
    return _told(figure, axes, chart, hover)


def _scale(axes: Axes, chart: Chart, values: Sequence[float]) -> None:
    if chart.steep and min(values) > 0 and max(values) > DECADES * min(values):
        axes.set_yscale("log")
    elif chart.from_zero and min(values) >= 0:
        axes.set_ylim(0, 1.08 * max(values) or 1.0)


def _told(figure: Figure, axes: Axes, chart: Chart, hover: Iterable[dict[str, Any]]) -> str:
    svg = _svg(figure, chart.title)
    high = figure.get_figheight() * 72
    box = axes.get_position()
    width = figure.get_figwidth() * 72
    (left, right), (low, top) = axes.get_xlim(), axes.get_ylim()
    place = {
        "x": [box.x0 * width, box.x1 * width, left, right],
        "y": [high - box.y0 * high, high - box.y1 * high, low, top],
        "log": axes.get_yscale() == "log",
        "across": chart.across,
        "curves": [{**one, "xs": _short(one["xs"]), "ys": _short(one["ys"])} for one in hover],
    }
    return (
        "<figure class=chart "
        f"data-chart={quoteattr(json.dumps(place, separators=(',', ':')))}>{svg}</figure>"
    )


def _short(numbers: Iterable[float]) -> list[float]:
    return [float(f"{number:.6g}") for number in numbers]


def bars(chart: Gantt) -> str:
    """The Gantt chart: a row for each actor, with time across. Its work is drawn over its waiting.
    Raises ConvoyError, with the command to install it, if matplotlib is missing."""
    with _styled():
        return _bars(chart)


def _bars(chart: Gantt) -> str:
    figure, axes = _figure(GANTT_WIDTH, 1.3 + ROW * len(chart.actors), "")
    rows = {actor: number for number, actor in enumerate(chart.actors)}
    colours = {"": WAITING} | dict(zip(chart.kinds, itertools.cycle(COLOURS), strict=False))
    lengths: defaultdict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    for span in chart.spans:
        lengths[span.kind, span.actor].append((span.begin, span.length))
    for kind, colour in colours.items():
        for actor, place in rows.items():
            mine = lengths.get((kind, actor), [])
            label = _plain(kind) or "waits for others"
            axes.broken_barh(
                mine, (place - 0.38, 0.76), facecolors=colour, label=label, linewidth=0
            )
    axes.set_yticks(list(rows.values()), labels=[_plain(actor) for actor in rows])
    axes.invert_yaxis()
    axes.set_xlabel("ms")
    handles, labels = axes.get_legend_handles_labels()
    first = dict(zip(labels, handles, strict=True))
    figure.legend(first.values(), first.keys(), loc="outside upper left", ncols=min(12, len(first)))
    return f"<figure class=wide>{_svg(figure, 'Gantt chart')}</figure>"


def _plain(text: str) -> str:
    """The text without matplotlib's special meanings: text between dollar signs is a formula, and a
    label that begins with _ is hidden."""
    return text.replace("$", r"\$").lstrip("_")


@contextmanager
def _styled() -> Iterator[None]:
    """The context in which all parts of a chart must be made, since matplotlib reads its style as
    parts are made."""
    try:
        import matplotlib as mpl
    except ImportError:
        text = "the charts of a report are drawn by matplotlib, which is not installed"
        raise ConvoyError(f"{text}: pip install 'convoy-runtime[report]'") from None
    with mpl.rc_context(STYLE):
        yield


def _figure(width: float, height: float, title: str) -> tuple[Figure, Axes]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height))
    axes = figure.add_subplot(title=title)
    axes.set_axisbelow(True)
    return figure, axes


def _svg(figure: Figure, title: str) -> str:
    """The figure as an SVG element that takes the width of its container."""
    written = io.StringIO()
    figure.savefig(
        written, format="svg", transparent=True, metadata={"Date": None, "Creator": None}
    )
    text = written.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    head, _, body = text.partition(">")
    head = re.sub(r' (width|height|xmlns|xmlns:xlink)="[^"]*"', "", head)
    return (
        f'<svg role="img" aria-label={quoteattr(title)}{head.removeprefix("<svg")}>{body.strip()}'
    )
