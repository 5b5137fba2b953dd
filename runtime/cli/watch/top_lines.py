"""The view of `top` as lines. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from runtime.cli.watch.bottleneck import bottleneck
from runtime.cli.watch.rates import Row
from runtime.durations import duration
from runtime.report.columns import Column, cut, packed, spoken, table, wrapped
from runtime.report.run_state import DETAILS

COLUMNS = (
    Column("actor", least=12, name=True),
    Column("doing", least=14),
    Column("computes", right=True),
    Column("predicted", right=True, rank=2),
    Column("waited for", least=24),
    Column("inbox", right=True),
    Column("oldest", right=True, rank=3),
    Column("msg/s", right=True, rank=4),
    Column("MB/s", right=True, rank=5),
)


def sheet(
    title: str,
    events: Mapping[str, Mapping[str, Any]],
    rows: Sequence[Row],
    width: int,
    height: int,
) -> list[str]:
    """The lines of the view, each at most `width` cells. `events` holds the fields of the latest
    event of each name. `height` 0 means all rows."""
    head = [
        title,
        _progress(events.get("progress", {}), width),
        str(events.get("prediction", {}).get("text", "")),
        *wrapped(bottleneck(rows), width),
        "",
    ]
    room = max(1, height - len(head) - 1) if height else len(rows)
    shown = rows if len(rows) <= room else _chosen(rows, room - 1)
    lines = [cut(line, width) for line in head] + table(
        COLUMNS, [_cells(row) for row in shown], width
    )
    if len(shown) < len(rows):
        lines.append(f"and {len(rows) - len(shown)} more; --once shows all")
    return lines


def _progress(fields: Mapping[str, Any], width: int) -> str:
    """The fields of the last progress report that fit. Details are left out first."""
    names = sorted(fields, key=lambda name: name in DETAILS)
    said = spoken({name: fields[name] for name in names})
    return packed((f"{name} {value}" for name, value in said), width)


def _chosen(rows: Sequence[Row], most: int) -> list[Row]:
    """The rows of the busiest actors and of those with the longest inboxes."""
    ranked = sorted(
        rows,
        key=lambda row: (-(row.computing or 0.0) - row.inbox - (row.computing is None), row.actor),
    )
    kept = {row.actor for row in ranked[: max(1, most)]}
    return [row for row in rows if row.actor in kept]


def _cells(row: Row) -> tuple[str, ...]:
    return (
        row.actor,
        row.state,
        _share(row.computing),
        _share(row.predicted),
        ", ".join(f"{peer} {share:.0%}" for peer, share in row.waits.items()),
        str(row.inbox),
        "" if row.oldest is None else duration(row.oldest),
        "" if row.messages is None else f"{row.messages:.0f}",
        "" if row.bytes is None else f"{row.bytes / 1e6:.1f}",
    )


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.0%}"
