"""A chart of predicted and measured seconds per step over what varies."""

from __future__ import annotations

from collections.abc import Iterator

from runtime.plan.axes import Edges, Field, curve, cut, dot, drawing, square, text
from runtime.plan.prospects import NEAR, Prospects

WIDTH, HEIGHT = 640.0, 400.0
LEFT, RIGHT, TOP, BOTTOM = 78.0, 24.0, 48.0, 56.0  # px around the field


def chart(found: Prospects) -> str:
    """Seconds per step over what varies: a line with dots is predicted, open squares are measured, a broken line stands
    at the choice from which on more change next to nothing. ValueError unless there are two choices at least that take
    some time."""
    points = [(float(choice.number), choice.seconds) for choice in found.choices]
    if len(points) < 2 or any(y <= 0 for _, y in points):
        raise ValueError("there is no curve to draw")
    measured = [(float(x), y) for x, y in found.measured]
    every = [*points, *measured]
    edges = Edges(LEFT, WIDTH - RIGHT, TOP, HEIGHT - BOTTOM)
    field = Field(edges, (x for x, _ in every), [y for _, y in every])
    parts = [
        text(LEFT, 18, cut(f"seconds per {found.step}: {found.basis}", WIDTH - LEFT), "title"),
        *field.axes(found.varies, "s"),
        *_saturation(field, found),
        curve([field.at(*point) for point in points]),
        *(dot(field.at(x, y), f"{x:g}: {y:.4g} s") for x, y in points),
        *(square(field.at(x, y), f"{x:g}: {y:.4g} s measured") for x, y in measured),
        *_legend(bool(measured)),
    ]
    return drawing(WIDTH, HEIGHT, parts)


def _saturation(field: Field, found: Prospects) -> Iterator[str]:
    if (best := found.saturated) is not None:
        yield from field.mark(best.number, f"from {best.number} on more gain {100 * NEAR - 100:.0f} % at most")


def _legend(measured: bool) -> Iterator[str]:
    x, y = WIDTH - RIGHT - 150, TOP + 8
    yield curve([(x, y), (x + 26, y)])
    yield dot((x + 13, y))
    yield text(x + 34, y + 4, "predicted", "note")
    if measured:
        yield square((x + 13, y + 18))
        yield text(x + 34, y + 22, "measured", "note")
