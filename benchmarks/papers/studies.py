"""Figures of the studies in `benchmarks.tuning`: the FC phase, rate and batch, lazy pulls, the
published schedule, and warm starts."""

from __future__ import annotations

from benchmarks.helpers.report import Record
from benchmarks.papers.headline import Source, cell, shown, table_of


def _fc_phase(record: Record) -> str:
    """HE, SE and both of an unmerged FC phase, times those of a merged one, with the most groups."""
    _, *ratios = table_of(record, "Unmerged / merged").rows[-1]
    return ", ".join(map(shown, ratios))


def _singa(record: Record) -> str:
    """The seconds of the best groups without a merged FC phase, times those with one."""
    table = record.tables[0]
    seconds = {
        phase: [
            cell(table, {table.headers[0]: name}, "seconds")
            for name, *_ in table.rows
            if name.endswith(f", {phase}")
        ]
        for phase in ("merged", "unmerged")
    }
    merged, unmerged = (
        min(took for took in found if not isinstance(took, str)) for found in seconds.values()
    )
    return shown(unmerged / merged)


def _passes(record: Record) -> str:
    """The passes over the data of the largest batch, times those of the smallest."""
    table = table_of(record, "The best rate of each batch")
    first, *_, last = (cell(table, {"batch": row[0]}, "passes over the data") for row in table.rows)
    return shown(last / first)


def _rates(record: Record) -> str:
    """The best rate of the largest batch, compared with that of the smallest."""
    table = table_of(record, "The best rate of each batch")
    batches = [row[0] for row in table.rows]
    rates = [cell(table, {"batch": batch}, "base_lr") for batch in batches]
    more, larger = (values[-1] / values[0] for values in (rates, batches))
    return f"{shown(more)} times the rate at {shown(larger)} times the batch"


def _lazy(record: Record) -> str:
    """The iterations that lazy pulls save, for each kind of staleness."""
    rows = table_of(record, "Whole / layer by layer").rows
    return ", ".join(f"{stale}: {shown(100 * (1 - 1 / more))} %" for stale, more, _ in rows)


def _schedule(record: Record) -> str:
    """The seconds with the published schedule, times those with the tuner."""
    published, tuned = table_of(record, "Seconds to a mean loss").rows[0]
    return shown(published / tuned)


def _steady(record: Record) -> str:
    """The iterations of the most groups, times those of one, from either start."""
    groups, cold, warm = table_of(record, "Iterations, times those of one group").rows[-1]
    return f"{groups} groups: {shown(warm)} times those of one; from a cold start {shown(cold)}"


FC_PHASE = Source("tuning", "fc-phase", _fc_phase)
SINGA = Source("tuning", "fc-phase", _singa)
PASSES = Source("tuning", "rate-batch", _passes)
RATES = Source("tuning", "rate-batch", _rates)
LAZY = Source("tuning", "lazy-pull", _lazy)
SCHEDULE = Source("tuning", "schedule", _schedule)
STEADY = Source("tuning", "steady", _steady)
