"""Charts of predicted seconds per step over the choices, and of the steps and time to a target."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from runtime.drawing.axes import Edges, Field, curve, cut, dot, drawing, square, text
from runtime.drawing.panels import Curve, Panel, panels
from runtime.plan.prospects import NEAR, Prospects

WIDTH = 640.0
HEIGHT = 400.0
LEFT = 78.0  # px around the field
RIGHT = 24.0
TOP = 48.0
BOTTOM = 56.0


def chart(found: Prospects) -> str:
    """A chart of seconds per step over the choices. Predictions are a line with dots, measurements
    are open squares. A broken line marks the choice above which more of them gain almost nothing.
    Raises ValueError unless at least two choices take some time."""
    points = [(float(choice.number), choice.seconds) for choice in found.choices]
    if len(points) < 2 or any(y <= 0 for _, y in points):
        raise ValueError("no curve can be drawn: expected at least two choices with times above 0")
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
        yield from field.mark(
            best.number, (f"from {best.number} on more gain {100 * NEAR - 100:.0f} % at most")
        )


def _legend(measured: bool) -> Iterator[str]:
    x = WIDTH - RIGHT - 150
    y = TOP + 8
    yield curve([(x, y), (x + 26, y)])
    yield dot((x + 13, y))
    yield text(x + 34, y + 4, "predicted", "note")
    if measured:
        yield square((x + 13, y + 18))
        yield text(x + 34, y + 22, "measured", "note")


def beside(found: Sequence[Prospects]) -> str:
    """A chart of panels with one curve for each kind of machine. With a target, further panels show
    the steps to the target and the seconds, which are the product (Omnivore, Figure 7). An open dot
    is interpolated between two runs. Raises ValueError with the reason if there is nothing to
    draw."""
    first = found[0]
    names = {one.kind if len(found) > 1 else "": one for one in found}
    pace = tuple(
        Curve(name, tuple((c.number, c.seconds) for c in one.choices))
        for name, one in names.items()
    )
    measured = (Curve("measured", tuple(first.measured), joined=False),) if first.measured else ()
    of = [
        Panel(
            "hardware efficiency" if first.target else "", f"s per {first.step}", (*pace, *measured)
        )
    ]
    if first.target:
        of += _to_target(first, names)
    title = f"to {first.target}" if first.target else f"seconds per {first.step}"
    about = f": {first.basis}" if len(found) == 1 else ""
    return panels(f"{title}{about}", of, first.varies, opened="between two runs")


def _to_target(first: Prospects, names: Mapping[str, Prospects]) -> Iterator[Panel]:
    """The panels of statistical efficiency, which is the same on all machines, and of the
    product."""
    known = [choice for choice in first.choices if choice.needed.steps]
    doubtful = frozenset(float(choice.number) for choice in known if not choice.needed.seen)
    lacking = {
        float(choice.number): choice.needed.why for choice in first.choices if choice not in known
    }
    counted = tuple((float(choice.number), float(choice.needed.steps or 0)) for choice in known)
    yield Panel(
        "statistical efficiency", f"{first.step}s", (Curve("", counted, doubtful),), lacking
    )
    product = [
        Curve(
            name,
            tuple((float(c.number), c.to_target) for c in one.choices if c.to_target),
            doubtful,
        )
        for name, one in names.items()
    ]
    mark = first.fastest.number if first.fastest and len(names) == 1 else None
    yield Panel("their product", "s", tuple(product), lacking, mark, "the fastest")
