"""A chart of predicted and measured times as SVG that needs nothing beside it, and is read without colours.

Both axes are logarithmic: choices are doubled, and times differ by as much.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from xml.sax.saxutils import escape

from runtime.plan.prospects import NEAR, Prospects

WIDTH, HEIGHT = 640.0, 400.0
LEFT, RIGHT, TOP, BOTTOM = 78.0, 24.0, 48.0, 56.0  # px around the field
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

Point = tuple[float, float]


def chart(found: Prospects) -> str:
    """Seconds per step over what varies: a line with dots is predicted, open squares are measured, a broken line stands
    at the choice from which on more change next to nothing. ValueError unless there are two choices at least that take
    some time."""
    points = [(float(choice.number), choice.seconds) for choice in found.choices]
    if len(points) < 2 or any(y <= 0 for _, y in points):
        raise ValueError("there is no curve to draw")
    field = _Field([*points, *((float(x), y) for x, y in found.measured)])
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH:.0f}" height="{HEIGHT:.0f}" '
        f'viewBox="0 0 {WIDTH:.0f} {HEIGHT:.0f}">',
        f"<style>{STYLE}</style>",
        '<rect width="100%" height="100%" fill="#ffffff"/>',
        _text(LEFT, 18, _cut(f"seconds per {found.step}: {found.basis}"), "title"),
        *_axes(field, found),
        *_saturation(field, found),
        f'<path class="curve" d="{_path([field.at(*point) for point in points])}"/>',
        *(_dot(field, *point) for point in points),
        *(_square(field, *point) for point in found.measured),
        *_legend(bool(found.measured)),
    ]
    return "\n".join([*parts, "</svg>\n"])


class _Field:
    """Where values lie, in px."""

    def __init__(self, points: Sequence[Point]) -> None:
        xs, ys = [x for x, _ in points], [y for _, y in points]
        self.low_x, self.high_x = min(xs), max(xs)
        self.ticks = _ticks(min(ys), max(ys))
        self._left, self._right = math.log(self.low_x), math.log(self.high_x)
        self._bottom, self._top = math.log(self.ticks[0]), math.log(self.ticks[-1])

    def at(self, x: float, y: float) -> Point:
        """A little inside, so that no dot sits on an axis."""
        right, up = (math.log(x) - self._left) / (self._right - self._left or 1), (math.log(y) - self._bottom)
        wide, high = WIDTH - LEFT - RIGHT - 40, HEIGHT - TOP - BOTTOM
        return LEFT + 20 + right * wide, HEIGHT - BOTTOM - up / (self._top - self._bottom) * high


def _ticks(low: float, high: float) -> list[float]:
    """1, 2 and 5 times powers of ten around these; at least two."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    every = [step * 10.0**power for power in range(first, last + 1) for step in (1, 2, 5)]
    inside = [tick for tick in every if low < tick < high]
    below = max(tick for tick in [*every, 10.0**first] if tick <= low)
    above = min(tick for tick in [*every, 10.0 ** (last + 1)] if tick >= high and tick > below)
    return [below, *inside, above]


def _axes(field: _Field, found: Prospects) -> Iterator[str]:
    left, right, bottom = LEFT, WIDTH - RIGHT, HEIGHT - BOTTOM
    for tick in field.ticks:
        _, y = field.at(field.low_x, tick)
        yield f'<path class="grid" d="M{left:.1f} {y:.1f}L{right:.1f} {y:.1f}"/>'
        yield _text(left - 8, y + 4, f"{tick:g}", "end")
    yield f'<path class="axis" d="M{left:.1f} {TOP:.1f}L{left:.1f} {bottom:.1f}L{right:.1f} {bottom:.1f}"/>'
    for number in dict.fromkeys([*(choice.number for choice in found.choices), *(x for x, _ in found.measured)]):
        x, _ = field.at(number, field.ticks[0])
        yield f'<path class="axis" d="M{x:.1f} {bottom:.1f}L{x:.1f} {bottom + 5:.1f}"/>'
        yield _text(x, bottom + 20, str(number), "middle")
    yield _text((left + right) / 2, HEIGHT - 14, found.varies, "middle")
    yield _text(left, TOP - 10, "s", "end")


def _saturation(field: _Field, found: Prospects) -> Iterator[str]:
    best = found.saturated
    if best is None:
        return
    x, _ = field.at(best.number, best.seconds)
    yield f'<path class="mark" d="M{x:.1f} {HEIGHT - BOTTOM:.1f}L{x:.1f} {TOP:.1f}"/>'
    side, at = ("end note", x - 6) if x > WIDTH / 2 else ("note", x + 6)
    yield _text(at, TOP + 28, f"from {best.number} on more gain {100 * NEAR - 100:.0f} % at most", side)


def _dot(field: _Field, x: float, y: float) -> str:
    at, up = field.at(x, y)
    return f'<circle class="predicted" cx="{at:.1f}" cy="{up:.1f}" r="3.5"><title>{x:g}: {y:.4g} s</title></circle>'


def _square(field: _Field, x: float, y: float) -> str:
    at, up = field.at(x, y)
    box = f'x="{at - 4.5:.1f}" y="{up - 4.5:.1f}" width="9" height="9"'
    return f'<rect class="measured" {box}><title>{x:g}: {y:.4g} s measured</title></rect>'


def _legend(measured: bool) -> Iterator[str]:
    x, y = WIDTH - RIGHT - 150, TOP + 8
    yield f'<path class="curve" d="M{x:.1f} {y:.1f}L{x + 26:.1f} {y:.1f}"/>'
    yield f'<circle class="predicted" cx="{x + 13:.1f}" cy="{y:.1f}" r="3.5"/>'
    yield _text(x + 34, y + 4, "predicted", "note")
    if measured:
        yield f'<rect class="measured" x="{x + 8.5:.1f}" y="{y + 13.5:.1f}" width="9" height="9"/>'
        yield _text(x + 34, y + 22, "measured", "note")


def _cut(title: str) -> str:
    """As much of a title as there is room for."""
    most = int((WIDTH - LEFT) / TITLE_CHARACTER)
    return title if len(title) <= most else f"{title[: most - 3]}..."


def _path(points: Sequence[Point]) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)


def _text(x: float, y: float, text: str, kind: str) -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}">{escape(text)}</text>'
