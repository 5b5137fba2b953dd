"""Lines that fit a terminal: a table with columns that shrink, sparklines, bars, times. Widths are
counted in cells as the terminal draws them: a Chinese character takes two."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any

from rich.cells import cell_len, set_cell_size

from runtime.counting import counted
from runtime.terminal_text import one_line

GAP = 2  # between columns
WHOLE = "max_iter"  # the field with the total that `iteration` counts towards
PER_SECOND = re.compile("_per_second$")
SECONDS = re.compile("_seconds$")
ASCII = re.compile("[ -~]+")  # each of these characters takes one cell
TICKS = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True)
class Column:
    """One column of a table. `least` is the smallest useful width. `rank` says which columns are
    left out first when the table is too wide: the highest rank first; rank 0 always stays. A `name`
    that is too long loses its middle, since its end distinguishes it from other names."""

    title: str
    right: bool = False
    least: int = 6
    rank: int = 0
    name: bool = False


def table(columns: Sequence[Column], rows: Collection[Sequence[str]], width: int) -> list[str]:
    """The titles and the rows as lines of at most `width` cells. The widest columns shrink first,
    down to their `least`."""
    texts = [[one_line(cell) for cell in row] for row in rows]
    shown = list(range(len(columns)))
    while sum(_least(columns[at]) + GAP for at in shown) - GAP > width and any(
        columns[at].rank for at in shown
    ):
        shown.remove(max(shown, key=lambda at: columns[at].rank))
    widths = {
        at: max(cells(text) for text in (columns[at].title, *(row[at] for row in texts)))
        for at in shown
    }
    while sum(widths.values()) + GAP * (len(shown) - 1) > width:
        wide = [at for at in shown if widths[at] > _least(columns[at])]
        if not wide:
            break
        widths[max(wide, key=lambda at: widths[at])] -= 1
    lines = []
    for row in ([column.title for column in columns], *texts):
        fitted = [_fitted(row[at], widths[at], columns[at]) for at in shown]
        lines.append(cut((" " * GAP).join(fitted).rstrip(), width))
    return lines


def cells(text: str) -> int:
    """The number of cells of a text on a terminal. Only unusual characters are looked up: looking
    up all took a third of the time of a list of a thousand runs with many keys."""
    unusual = ASCII.sub("", text)
    return len(text) - len(unusual) + cell_len(unusual)


def _least(column: Column) -> int:
    return max(column.least, cells(column.title))


def _fitted(text: str, width: int, column: Column) -> str:
    """The text, cut or padded to exactly `width` cells."""
    if column.name and cells(text) > width:
        head = set_cell_size(text, width // 2 - 1)
        tail = next(
            text[at:] for at in range(len(text) + 1) if cells(text[at:]) <= width - cells(head) - 1
        )
        text = f"{head}…{tail}"
    text = cut(text, width)
    blanks = " " * (width - cells(text))
    return blanks + text if column.right else text + blanks


def cut(text: str, width: int) -> str:
    """The text, cut to at most `width` cells."""
    if cells(text) <= width:
        return text
    return set_cell_size(text, max(0, width - 1)).rstrip() + "…" if width > 0 else ""


def wrapped(text: str, width: int, indent: int = 0) -> list[str]:
    """The text as lines of at most `width` characters, broken between words if possible. Further
    lines begin with `indent` blanks."""
    return textwrap.wrap(
        text,
        width,
        subsequent_indent=" " * indent,
        replace_whitespace=False,
        drop_whitespace=True,
        break_on_hyphens=False,
    )


def packed(parts: Iterable[str], width: int) -> str:
    """A line with as many of the parts, in their order, as fit into `width` cells."""
    line = ""
    for part in filter(None, parts):
        longer = f"{line}   {part}" if line else part
        if cells(longer) <= width:
            line = longer
    return line


def sparkline(values: Sequence[float], width: int) -> str:
    """The course of the values in at most `width` characters, the newest at the right. Each
    character stands for the mean of an equal share of the values."""
    finite = [value for value in values if math.isfinite(value)]
    if not finite or width < 1:
        return ""
    count = min(width, len(finite))
    cuts = [len(finite) * at // count for at in range(count + 1)]
    means = [sum(finite[first:last]) / (last - first) for first, last in pairwise(cuts)]
    low = min(means)
    high = max(means)
    step = (high - low) / (len(TICKS) - 1)
    return "".join(TICKS[round((mean - low) / step) if step > 0 else 0] for mean in means)


def bar(share: float, width: int) -> str:
    """A progress bar of `width` characters that is filled up to `share`."""
    full = round(max(0.0, min(1.0, share)) * width)
    return "━" * full + "╌" * (width - full)


def clock(seconds: float) -> str:
    """The time as `0:07`, `12:34` or `3:05:09`."""
    whole = max(0, round(seconds))
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"


def moment(since: float) -> str:
    """A time in seconds since 1970 as local time: 2026-11-28 06:33:26."""
    return datetime.fromtimestamp(since).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def brief(value: object) -> str:
    """The value as a short text for people. A table is only named: events.jsonl has it."""
    if isinstance(value, Mapping):
        return f"({counted(len(value), 'value')})"
    if isinstance(value, list) and value and isinstance(value[0], list):
        return f"({counted(len(value), 'row')})"
    if not isinstance(value, float):
        return str(value)
    return f"{value:.4g}" if abs(value) < 1e5 else f"{value:.0f}"


def spoken(fields: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The names and values in words for people: "images/s" for `images_per_second`, "work s" for
    `work_seconds`."""
    whole = fields.get(WHOLE) if "iteration" in fields else None
    for name, value in fields.items():
        if name == "iteration" and whole is not None:
            yield name, f"{value}/{whole}"
        elif name != WHOLE or whole is None:
            yield SECONDS.sub(" s", PER_SECOND.sub("/s", name)), brief(value)
