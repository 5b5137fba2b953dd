"""Curves over the same choices side by side, one panel for each measure: hardware efficiency,
statistical efficiency and their product (Omnivore, Figure 7)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from runtime.drawing.axes import Edges, Field, Point, cross, curve, cut, dot, drawing, square, text

WIDTH = 310.0  # px of a panel
HEIGHT = 340.0
LEFT = 66.0  # px around its field
RIGHT = 10.0
TOP = 70.0
BOTTOM = 62.0
LINE = 18.0  # px of a line of the legend, below all panels
DASHES = ("", "7 4", "2 3", "9 3 2 3")  # for the curves, in turn


@dataclass(frozen=True)
class Curve:
    """One curve. `points` are pairs (choice, value), all above 0; the tuple may be empty. Points at
    the choices in `open` are open dots. If not `joined`, all points are open squares without a
    line."""

    name: str
    points: tuple[Point, ...]
    open: frozenset[float] = frozenset()
    joined: bool = True


@dataclass(frozen=True)
class Panel:
    """The curves of one measure, with a `title` and the `unit` of its values. `lacking` maps
    choices without a value to the reason, which a cross at the upper edge shows. `mark` is a choice
    at which a broken line stands; `why` is its label."""

    title: str
    unit: str
    curves: tuple[Curve, ...]
    lacking: Mapping[float, str] = field(default_factory=dict)
    mark: float | None = None
    why: str = ""


def panels(
    title: str, of: Sequence[Panel], varies: str, *, opened: str = "", lacking: str = "not known"
) -> str:
    """All panels as one SVG, over the same choices. `varies` names the quantity that is chosen.
    `opened` and `lacking` explain open dots and crosses in the legend. Raises ValueError if a panel
    has no points, or a point that is not above 0."""
    for panel in of:
        points = [point for one in panel.curves for point in one.points]
        if not points or any(min(point) <= 0 for point in points):
            raise ValueError(f"there is no curve to draw: {panel.title}")
    xs = sorted(
        {
            x
            for panel in of
            for x in [*(x for one in panel.curves for x, _ in one.points), *panel.lacking]
        }
    )
    known = {one.name: one for panel in of for one in panel.curves}
    named = (name for name in known if name and known[name].joined)
    dashes = {"": DASHES[0], **dict(zip(named, itertools.cycle(DASHES), strict=False))}
    legend = list(_legend(known, dashes, any(one.open for one in known.values()) and opened))
    legend += [(cross((13, 0)), lacking)] if any(panel.lacking for panel in of) else []
    parts = [text(LEFT, 18, cut(title, len(of) * WIDTH - LEFT), "title")]
    for number, panel in enumerate(of):
        parts += _panel(panel, number * WIDTH, xs, dashes, varies)
    for number, (sample, said) in enumerate(legend):
        y = HEIGHT + number * LINE
        parts += [
            (f'<g transform="translate({LEFT:.0f} {y:.0f})">{sample}</g>'),
            text(LEFT + 36, y + 4, said, "note"),
        ]
    return drawing(len(of) * WIDTH, HEIGHT + len(legend) * LINE, parts)


def _panel(
    panel: Panel, left: float, xs: Sequence[float], dashes: Mapping[str, str], varies: str
) -> Iterator[str]:
    edges = Edges(left + LEFT, left + WIDTH - RIGHT, TOP, HEIGHT - BOTTOM)
    field = Field(edges, xs, [y for one in panel.curves for _, y in one.points])
    yield text((edges.left + edges.right) / 2, TOP - 30, panel.title, "middle")
    yield from field.axes(varies, panel.unit)
    if panel.mark is not None:
        yield from field.mark(panel.mark, panel.why)
    for one in panel.curves:
        points = sorted(one.points)
        if one.joined and len(points) > 1:
            yield curve([field.at(*point) for point in points], dashes[one.name])
        for x, y in points:
            about = f"{one.name}, {x:g}: {y:.4g} {panel.unit}".removeprefix(", ")
            yield _drawn(field.at(x, y), one, x, about)
    for x, reason in panel.lacking.items():
        yield cross((field.at(x, field.ticks[-1])[0], edges.top), f"{x:g}: {reason}")


def _drawn(at: Point, one: Curve, x: float, about: str = "") -> str:
    if not one.joined:
        return square(at, about)
    return dot(at, about, "measured" if x in one.open else "predicted")


def _legend(
    known: Mapping[str, Curve], dashes: Mapping[str, str], opened: str | bool
) -> Iterator[tuple[str, str]]:
    """Yield (sample around the point (13, 0), its meaning) for each curve with a name, and for open
    dots."""
    for name, one in known.items():
        if name and one.joined:
            yield curve([(0, 0), (26, 0)], dashes[name]) + dot((13, 0)), name
        elif name:
            yield square((13, 0)), name
    if opened:
        yield dot((13, 0), kind="measured"), str(opened)
