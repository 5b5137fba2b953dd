"""Charts as SVG, for pages without a script. Only this file imports matplotlib, when the first
chart is drawn. A chart is an HTML `figure` that takes the width it is given.
"""

from __future__ import annotations

import io
import itertools
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import quoteattr

from runtime.errors import ConvoyError
from runtime.page.colours import COLOURS, WAITING
from runtime.page.curves import Chart, Curve
from runtime.page.gantt import Gantt
from runtime.page.series import thinned

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK = "#334155"
GRID = "#e2e8f0"
# the colours of a drawing that follow those of the page, which may be dark
OF_THE_PAGE = {INK: "currentColor", GRID: "var(--line)"}
WIDTH = 5.5  # inches; the drawing has 72 units an inch
HEIGHT = 3.2
GANTT_WIDTH = 13.0  # inches; a row of the Gantt chart
ROW = 0.3
MOST_DOTS = 100  # of a curve; more dots would overlap
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


Points = Sequence[tuple[Curve, list[float], list[float]]]  # with the xs and the ys


def figures(charts: Sequence[Chart], unit: tuple[str, float]) -> list[str]:
    """The charts as HTML, one text each. `unit` is the unit of time axes, and its length in
    seconds. A chart with curves of tests is drawn twice: over iterations and over time. Raises
    ConvoyError, with the command to install it, if matplotlib is missing."""
    return [figure for chart in charts for figure in _figures(chart, unit)]


def _figures(chart: Chart, unit: tuple[str, float]) -> Iterator[str]:
    points = [(curve, *thinned(curve.series)) for curve in chart.curves]
    points = [found for found in points if found[3]]
    over_iterations = [(curve, iterations, values) for curve, iterations, _, values in points]
    marks = [(mark.iteration, mark.text) for mark in chart.marks]
    with _styled():
        if not any(curve.dots for curve in chart.curves):
            yield _lines(chart, chart.title, "iteration", over_iterations, marks)
            return
        name, second = unit
        over_time = [
            (curve, [at / second for at in seconds], values) for curve, _, seconds, values in points
        ]
        later = [(mark.seconds / second, mark.text) for mark in chart.marks]
        yield _lines(chart, f"{chart.title} over iterations", "iteration", over_iterations, marks)
        yield _lines(chart, f"{chart.title} over time", name, over_time, later)


def _lines(
    chart: Chart, title: str, across: str, points: Points, marks: Sequence[tuple[float, str]]
) -> str:
    figure, axes = _figure(WIDTH, HEIGHT, _plain(title))
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
    for x, said in marks:
        axes.axvline(
            x,
            color="#94a3b8",
            linestyle=":",
            linewidth=1.2,
            label="_" if said in named else _plain(said),
        )
        named.add(said)
    axes.set_xlabel(across)
    if len(points) + len(named) > 1:
        axes.legend(loc="best")
    return f"<figure class=chart>{_svg(figure, title)}</figure>"


def _scale(axes: Axes, chart: Chart, values: Sequence[float]) -> None:
    if chart.log and min(values) > 0:
        axes.set_yscale("log")
    elif chart.from_zero and min(values) >= 0:
        axes.set_ylim(0, 1.08 * max(values) or 1.0)


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
    for colour, followed in OF_THE_PAGE.items():
        body = body.replace(colour, followed)
    return (
        f'<svg role="img" aria-label={quoteattr(title)}{head.removeprefix("<svg")}>{body.strip()}'
    )
