"""A snapshot of the actors of a process, as plain data. It is taken when a client looks, from state
that exists in any case.

    {"now": loop time, "processor": seconds, "actors": {name: {...}}}
"""

from __future__ import annotations

import asyncio
import os
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from runtime.actors.cell import Cell
from runtime.actors.node import Node
from runtime.actors.router import Router
from runtime.messages.message import Envelope


def snapshot(node: Node) -> dict[str, Any]:
    """Return the snapshot of a node. Times are in seconds. Counts start with the process."""
    now = asyncio.get_running_loop().time()
    asks = defaultdict(list)
    sends = defaultdict(list)
    totals = node.totals()
    for ask in node.router.asks.values():
        asks[ask.asker].append([ask.peer, ask.said.__name__, now - ask.since])
    waited = {entry["actor"]: entry["waited"] for entry in node.status()}
    for told in _sending():
        sends[told.sender].append([told.receiver, type(told.message).__name__])
    return {
        "now": now,
        "processor": sum(os.times()[:2]),
        "actors": {
            name: {
                **_of_cell(name, cell, now, node.stations.compute_seconds(name)),
                "asks": asks.get(name, []),
                "sends": sends.get(name, []),
                **dict(
                    zip(("sent", "received", "bytes"), totals.get(name, (0, 0, 0)), strict=True)
                ),
                "waited": waited[name],
            }
            for name, cell in node.actors.items()
        },
    }


def _of_cell(name: str, cell: Cell, now: float, busy: float) -> dict[str, Any]:
    """Return the entries that come from the cell itself.

    `computing` is (label, seconds so far), `oldest` is (message kind, seconds in the inbox). The
    caller adds `asks`, a list of (peer, message kind, seconds so far), and `sends`, a list of
    (receiver, message kind).
    """
    current = cell.actor.device.current
    computing = current if current is not None and current.actor == name else None
    return {
        "role": cell.actor.role,
        "handling": "" if cell.doing == "idle" else cell.doing,
        "computing": computing and [computing.label, now - computing.since],
        "inbox": len(cell.inbox),
        "oldest": (type(cell.inbox[0][0].message).__name__, now - cell.inbox[0][2])
        if cell.inbox
        else None,
        "busy": busy + (now - computing.since if computing else 0.0),
        "handled": cell.handled,
    }


def _sending() -> list[Envelope]:
    """Return the messages that wait for the credits of their link.

    They are read from the suspended calls of `Router._send`, because no list of them is kept.
    """
    return [
        frame.f_locals["envelope"]
        for task in asyncio.all_tasks()
        for frame in _frames(task.get_coro())
        if frame.f_code is Router._send.__code__ and "place" in frame.f_locals
    ]


def _frames(waiting: Any) -> Iterator[Any]:
    """Yield the frames of a suspended coroutine, the outermost first."""
    while waiting is not None:
        if (frame := getattr(waiting, "cr_frame", None)) is not None:
            yield frame
        waiting = getattr(waiting, "cr_await", None)
