"""The live table as lines that fit the terminal in number and width.

Pure functions of the run's state. An example:

    iteration 300/2000 (15%)   epoch 3.2   ━━━╌╌╌╌   elapsed 0:12   about 1:08 left
    loss 0.4031   ▇▆▅▄▃▂▂▁▁
    accuracy 0.9713   ▁▃▅▆▇█
    images/s 5123   learning rate 0.01   staleness 0.98
    predicted 12.1 ms, measured 12.3 ms an iteration; busiest: fc 92%

    actor     process   doing          waits for        handled  inbox
    conv-0    conv-0    conv forward                        812      0
    and 27 more: 20 waiting, 7 idle

Every line is there from the start, so that the table never changes its height.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from runtime.report.columns import Column, bar, brief, clock, cut, packed, sparkline, spoken, table
from runtime.report.run_state import CURVES, RunState

HEAD = 6  # lines above the actors' titles, including the empty line
# fields of `progress` that are shown elsewhere
PLACED = ("iteration", "max_iter", "epoch", "elapsed_seconds", *CURVES)
COLUMNS = (
    Column("actor", least=12, name=True),
    Column("process", rank=2, name=True),
    Column("doing", least=12),
    Column("waits for", least=12),
    Column("handled", right=True, rank=1),
    Column("inbox", right=True),
)


def screen(picture: RunState, now: float, width: int, height: int) -> list[str]:
    """The live table at the time `now`, as many lines as `height_of` allows."""
    rows = height_of(picture, height) - HEAD - 1
    lines = [cut(line, width) for line in _head(picture, now, width)]
    names = picture.chosen(rows if len(picture.actors) <= rows else rows - 1)
    seen = [(name, picture.actors[name]) for name in names]
    cells = [
        (name, at.process, at.doing, at.waits, str(at.handled), str(at.inbox)) for name, at in seen
    ]
    lines += ["", *table(COLUMNS, cells, width)]
    if others := picture.others(names):
        lines.append(cut(others, width))
    return lines


def height_of(picture: RunState, height: int) -> int:
    """The number of lines of the table on a terminal of `height` lines. It holds all actors if
    there is room; two lines are left for messages."""
    return max(HEAD + 3, min(HEAD + 1 + len(picture.actors), height - 2))


def final(picture: RunState, now: float, width: int) -> list[str]:
    """The lines that stay when the run is over: the values that it ended with."""
    return [cut(line, width) for line in _head(picture, now, width) if line.strip()]


def _head(picture: RunState, now: float, width: int) -> Iterator[str]:
    """The first HEAD - 1 lines."""
    yield _first(picture, now, width)
    for name in CURVES:
        yield _curve(picture, name, width)
    rest = {name: value for name, value in picture.progress.items() if name not in PLACED}
    yield packed((f"{name.replace('_', ' ')} {value}" for name, value in spoken(rest)), width)
    yield picture.predicted


def _first(picture: RunState, now: float, width: int) -> str:
    done, last = picture.iterations
    elapsed = f"elapsed {clock(now)}"
    if picture.began is None and done is None and not picture.stage:
        return packed((_start(picture), elapsed), width)
    if done is None:
        return packed((picture.stage or "running", elapsed, *_plain(picture.progress)), width)
    count = f"iteration {done}" + (f"/{last} ({done / last:.0%})" if last else "")
    epoch = picture.progress.get("epoch")
    if isinstance(epoch, int | float):
        count += f"   epoch {epoch:.1f}"
    left = picture.remaining(now)
    ahead = picture.stage or (f"about {clock(left)} left" if left is not None else "")
    without = packed((count, elapsed, ahead), width)
    room = width - len(without) - 3
    if not last or room < 10:
        return without
    return packed((count, bar(done / last, min(40, room)), elapsed, ahead), width)


def _plain(fields: dict[str, Any]) -> Iterator[str]:
    return (f"{name} {brief(value)}" for name, value in fields.items())


def _curve(picture: RunState, name: str, width: int) -> str:
    curve = picture.curves.get(name)
    if curve is None:
        return ""
    text = f"{name} {brief(curve.last)}"
    return f"{text:<18} {sparkline(curve.values, min(60, width - max(18, len(text)) - 1))}"


def _start(picture: RunState) -> str:
    """The preparation of one process, and how many more processes are preparing."""
    processes = {seen.process for seen in list(picture.actors.values())}
    at = [what for what in list(picture.preparing.values()) if what]
    heard = f"starting: {len(picture.preparing)} of {len(processes)} processes are up"
    if not at:
        return heard
    return f"preparing: {at[0]}" + (f" and {len(at) - 1} more" if len(at) > 1 else "")
