"""Heartbeats as a process sends them."""

from __future__ import annotations

from typing import Any

from runtime.cluster.lifecycle import Heartbeat


def beat(process: str = "p1", **actors: dict[str, Any]) -> Heartbeat:
    return Heartbeat(
        period=0.5,
        process=process,
        progress=0,
        busy_seconds=0.0,
        usual_seconds=0.0,
        busy_with="",
        loop_lag=0.0,
        actors=actors,
    )


def status(**changes: Any) -> dict[str, Any]:
    return {
        "actor": "",
        "role": "",
        "doing": "idle",
        "waiting_for": "",
        "waited": {},
        "handled": 0,
        "inbox": 0,
        **changes,
    }
