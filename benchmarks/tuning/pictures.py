"""The pictures of docs/tuning.md that are drawn from the tables of `benchmarks.tuning`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from runtime.drawing.axes import drawing, text
from runtime.drawing.panels import Curve, Panel, panels

WIDTH = 760.0  # px
LEFT = 190.0
TOP = 44.0
LINE = 46.0
MOST = 330.0  # px of the longest bar


def tradeoff(rows: Sequence[Sequence[Any]], title: str) -> str:
    """Draw Omnivore's Figure 7 as SVG from the table of `tradeoff`, with a point for each number of
    groups. Rows with other names are left out."""
    counted = [(int(row[0]), row) for row in rows if str(row[0]).isdecimal()]
    measures = (
        ("hardware efficiency", "ms an iteration", 3),
        ("statistical efficiency", "iterations", 4),
        ("both", "s", 5),
    )
    found = []
    for name, unit, column in measures:
        known = tuple(
            (float(groups), float(row[column]))
            for groups, row in counted
            if not isinstance(row[column], str)
        )
        lacking = {
            float(groups): str(row[column])
            for groups, row in counted
            if isinstance(row[column], str)
        }
        found.append(Panel(name, unit, (Curve("", known),), lacking))
    return panels(title, found, "groups", lacking="not reached")


def lesion(rows: Sequence[Sequence[Any]], title: str) -> str:
    """Draw Omnivore's Figure 31 as SVG from the table of `lesion`: the seconds to the target, a bar
    for each row."""
    longest = max((row[7] for row in rows if not isinstance(row[7], str)), default=1.0)
    parts = [text(16, 22, title, "title")]
    for number, row in enumerate(rows):
        parts += _bar(TOP + number * LINE, row, longest)
    return drawing(WIDTH, TOP + len(rows) * LINE + 10, parts)


def _bar(top: float, row: Sequence[Any], longest: float) -> Iterator[str]:
    chosen, preset, groups, momentum, rate, pace, iterations, seconds = row[:8]
    yield text(LEFT - 12, top + 14, f"{'' if chosen == 'nothing' else '+ '}{chosen}", "end")
    yield text(LEFT - 12, top + 29, preset, "end note")
    setting = f"{groups} groups, momentum {momentum:g}, base_lr {rate:g}"
    if isinstance(seconds, str):
        yield text(LEFT, top + 14, f"{seconds}", "")
        yield text(LEFT, top + 29, setting, "note")
        return
    width = MOST * seconds / longest
    yield (
        f'<rect class="predicted" x="{LEFT:.1f}" y="{top + 3:.1f}" width="{width:.1f}" '
        'height="13"/>'
    )
    yield text(LEFT + width + 8, top + 14, f"{seconds:.3g} s", "")
    yield text(LEFT, top + 29, f"{iterations:.0f} iterations of {pace:.3g} ms; {setting}", "note")
