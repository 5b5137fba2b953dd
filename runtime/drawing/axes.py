"""Fields with logarithmic axes and their contents, as self-contained SVG that needs no colours. The
axes are logarithmic since choices are doubled, and times grow by similar factors."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

Point = tuple[float, float]

# px between the edges of a field and its first and last choice, so that no dot sits on an axis
INSIDE = 20.0
WORD = 5  # characters that fit to the left of the upper end of an axis
TITLE_CHARACTER = 7.9  # px
STYLE = """
text { font: 12px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #1e293b }
.title { font-size: 13px }
.note { fill: #475569 }
.middle { text-anchor: middle }
.end { text-anchor: end }
.axis { stroke: #475569; fill: none }
.grid { stroke: #e2e8f0; fill: none }
.curve { stroke: #1e293b; fill: none; stroke-width: 1.8 }
.predicted { fill: #1e293b }
.measured { fill: #ffffff; stroke: #1e293b; stroke-width: 1.6 }
.mark { stroke: #475569; fill: none; stroke-dasharray: 5 4 }
"""


@dataclass(frozen=True)
class Edges:
    """The edges of a field, in px."""

    left: float
    right: float
    top: float
    bottom: float


class Field:
    """The area of a chart. `xs` span its width, and the ticks around `ys` span its height. All
    values must be above 0."""

    def __init__(self, edges: Edges, xs: Iterable[float], ys: Sequence[float]) -> None:
        self.edges = edges
        self.xs = list(dict.fromkeys(xs))
        self.ticks = ticks(min(ys), max(ys))
        self._left = math.log(min(self.xs))
        self._right = math.log(max(self.xs))
        self._bottom = math.log(self.ticks[0])
        self._top = math.log(self.ticks[-1])

    def at(self, x: float, y: float) -> Point:
        """The position of a value, in px."""
        edges = self.edges
        right = (math.log(x) - self._left) / (self._right - self._left or 1)
        up = math.log(y) - self._bottom
        wide = edges.right - edges.left - 2 * INSIDE
        high = edges.bottom - edges.top
        return edges.left + INSIDE + right * wide, edges.bottom - up / (
            self._top - self._bottom
        ) * high

    def axes(self, across: str, up: str) -> Iterator[str]:
        """Both axes with ticks. `across` and `up` are their titles. A long `up` begins further to
        the left."""
        left = self.edges.left
        right = self.edges.right
        top = self.edges.top
        bottom = self.edges.bottom
        for tick in self.ticks:
            _, y = self.at(self.xs[0], tick)
            yield f'<path class="grid" d="M{left:.1f} {y:.1f}L{right:.1f} {y:.1f}"/>'
            yield text(left - 8, y + 4, f"{tick:g}", "end")
        yield (
            f'<path class="axis" d="M{left:.1f} {top:.1f}L{left:.1f} '
            f'{bottom:.1f}L{right:.1f} {bottom:.1f}"/>'
        )
        for number in self.xs:
            x, _ = self.at(number, self.ticks[0])
            yield f'<path class="axis" d="M{x:.1f} {bottom:.1f}L{x:.1f} {bottom + 5:.1f}"/>'
            yield text(x, bottom + 20, f"{number:g}", "middle")
        yield text((left + right) / 2, bottom + 42, across, "middle")
        yield (
            text(left, top - 10, up, "end")
            if len(up) < WORD
            else text(left - 40, top - 10, up, "note")
        )

    def mark(self, x: float, said: str) -> Iterator[str]:
        """A broken line at a choice, with words next to it."""
        edges = self.edges
        at, _ = self.at(x, self.ticks[0])
        yield f'<path class="mark" d="M{at:.1f} {edges.bottom:.1f}L{at:.1f} {edges.top:.1f}"/>'
        side, beside = (
            ("end note", at - 6) if at > (edges.left + edges.right) / 2 else ("note", at + 6)
        )
        yield text(beside, edges.top + 28, said, side)


def ticks(low: float, high: float) -> list[float]:
    """The numbers 1, 2 and 5 times powers of ten that enclose the range; at least two."""
    # one power more at each end, since logarithms are rounded
    powers = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 2)
    every = [step * 10.0**power for power in powers for step in (1, 2, 5)]
    below = max(tick for tick in every if tick <= low)
    above = min(tick for tick in every if tick >= high and tick > below)
    return [below, *(tick for tick in every if below < tick < above), above]


def drawing(width: float, height: float, parts: Iterable[str]) -> str:
    """The whole SVG file."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}">'
    )
    ground = '<rect width="100%" height="100%" fill="#ffffff"/>'
    return "\n".join([head, f"<style>{STYLE}</style>", ground, *parts, "</svg>\n"])


def curve(points: Sequence[Point], dash: str = "") -> str:
    """A line through points given in px."""
    way = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    broken = f' stroke-dasharray="{dash}"' if dash else ""
    return f'<path class="curve" d="{way}"{broken}/>'


def dot(at: Point, about: str = "", kind: str = "predicted") -> str:
    """A round point; `about` is its tooltip."""
    return (
        f'<circle class="{kind}" cx="{at[0]:.1f}" cy="{at[1]:.1f}" r="3.5"{_ended("circle", about)}'
    )


def square(at: Point, about: str = "", kind: str = "measured") -> str:
    """A square point; `about` is its tooltip."""
    box = f'x="{at[0] - 4.5:.1f}" y="{at[1] - 4.5:.1f}" width="9" height="9"'
    return f'<rect class="{kind}" {box}{_ended("rect", about)}'


def cross(at: Point, about: str = "") -> str:
    """A cross for a missing value; `about` is its tooltip."""
    (x, y), arm = at, 4.5
    strokes = ((x - arm, y - arm, x + arm, y + arm), (x - arm, y + arm, x + arm, y - arm))
    way = "".join(f"M{a:.1f} {b:.1f}L{c:.1f} {d:.1f}" for a, b, c, d in strokes)
    return f'<path class="curve" d="{way}"{_ended("path", about)}'


def text(x: float, y: float, said: str, kind: str) -> str:
    """A line of text at a point in px."""
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}">{escape(said)}</text>'


def cut(title: str, width: float) -> str:
    """The title, cut to `width` px."""
    most = int(width / TITLE_CHARACTER)
    return title if len(title) <= most else f"{title[: most - 3]}..."


def _ended(tag: str, about: str) -> str:
    return f"><title>{escape(about)}</title></{tag}>" if about else "/>"
