"""The actor that holds up the others, in one sentence. A pure function of the rows of `top`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from runtime.cli.watch.rates import Row
from runtime.data_waits import DATA

BUSY = 0.8  # of the time: such an actor has no time for more work
MATTERS = 0.1  # seconds of waiting in each second; less explains nothing


def bottleneck(rows: Sequence[Row]) -> str:
    """A sentence that names the bottleneck. It is the busy actor, or else the actor at the end of
    the chain of longest waits, which itself waits for no other. Data that an actor waits for come
    first: they are read meanwhile, so a wait means that nothing else is slower."""
    silent = sorted({row.process for row in rows if row.state.startswith("no answer")})
    if silent:
        more = f" and {len(silent) - 1} more" if len(silent) > 1 else ""
        return (
            f"process {silent[0]}{more} does not answer: it is stuck or stopped (`stack` "
            "shows where)"
        )
    measured = [row for row in rows if row.computing is not None]
    if not measured:
        return "nothing is measured yet"
    hungry = max(measured, key=lambda row: row.waits.get(DATA, 0.0))
    if (part := hungry.waits.get(DATA, 0.0)) >= MATTERS:
        return (
            f"the reader is the bottleneck: {hungry.actor} waits for its data {part:.0%} of the "
            "time (reading, decoding and changing them takes longer than computing)"
        )
    busiest = max(measured, key=lambda row: (row.computing or 0.0, row.actor))
    share = busiest.computing or 0.0
    waiting: defaultdict[str, float] = defaultdict(float)
    for row in measured:
        for peer, part in row.waits.items():
            waiting[peer] += part
    if share >= BUSY:
        others = (
            f"; the others wait for it {waiting[busiest.actor]:.1f} s of each second in all"
        ) * (waiting[busiest.actor] >= MATTERS)
        return f"{busiest.actor} is the bottleneck: it computes {share:.0%} of the time{others}"
    if not waiting or max(waiting.values()) < MATTERS:
        return f"no actor holds up others: {busiest.actor} computes most, {share:.0%} of the time"
    return _followed({row.actor: row for row in measured}, waiting, busiest)


def _followed(rows: dict[str, Row], waiting: dict[str, float], busiest: Row) -> str:
    """A sentence about the longest waits: from the actor that others wait for most, to the actor it
    waits for, and so on."""
    chain = [max(sorted(waiting), key=waiting.__getitem__)]
    while (row := rows.get(chain[-1])) is not None and row.waits:
        peer = max(row.waits, key=lambda name: row.waits[name])
        if peer in chain or row.waits[peer] < max(MATTERS, row.computing or 0.0):
            break
        chain.append(peer)
    root = rows.get(chain[-1])
    by = " -> ".join(chain)
    how = (
        (f", which computes {root.computing:.0%} of the time")
        if root is not None and root.computing
        else ""
    )
    text = f"the others wait for {by}{how}: {waiting[chain[0]]:.1f} s of each second in all"
    if (busiest.computing or 0.0) < 0.5:
        most = f"{busiest.actor} most, {busiest.computing:.0%}"
        text += f"; no actor computes half of the time ({most}): messages or reading take it"
    return text
