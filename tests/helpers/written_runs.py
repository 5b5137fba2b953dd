"""Run directories with made-up contents: a reader can count by hand the figures that their reports
show.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

BEGAN = 1_700_000_000.0

Said = tuple[float, str, str, dict[str, Any]]  # t, actor, event, fields


def run(
    directory: Path, said: Iterable[Said], usage: Iterable[Mapping[str, Any]] = (), end: str = ""
) -> Path:
    """Write a run directory with this journal and the text `end` after it."""
    directory.mkdir(parents=True, exist_ok=True)
    lines = [
        json.dumps({"t": t, "unix_seconds": BEGAN + t, "actor": actor, "event": event, **fields})
        for t, actor, event, fields in said
    ]
    (directory / "events.jsonl").write_text("".join(f"{line}\n" for line in lines) + end)
    if usage:
        (directory / "usage.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in usage))
    return directory


def progress(t: float, iteration: int, loss: float, **more: Any) -> Said:
    fields = {
        "iteration": iteration,
        "max_iter": 100,
        "loss": loss,
        "learning_rate": 0.1,
        "images_per_second": 64.0,
    }
    return t, "coordinator", "progress", {**fields, **more}


def a_test(t: float, iteration: int, accuracy: float) -> Said:
    return (
        t,
        "coordinator",
        "test",
        {"iteration": iteration, "accuracy": accuracy, "loss": 1 - accuracy},
    )


BEGUN: Said = (0.1, "supervisor", "began", {"processes": 2})
ENDED: Said = (9.0, "supervisor", "ended", {})
FAILED: Said = (
    9.0,
    "supervisor",
    "failed",
    {"error": ("conv-0 (process conv-0) was killed by SIGKILL"), "exit_code": 4},
)


def usage(t: float, process: str, **actors: Mapping[str, Any]) -> dict[str, Any]:
    """A line of usage.jsonl. An actor has its role, work {label: [pieces, seconds]}, waited and
    received.
    """
    told = {
        name: {
            "role": actor["role"],
            "handled": 0,
            "steps": 0,
            "waited_seconds": actor.get("waited", {}),
            "received_bytes": actor.get("received", {}),
            "work": {
                label: [pieces, seconds, seconds**2 / max(pieces, 1)]
                for label, (pieces, seconds) in actor.get("work", {}).items()
            },
        }
        for name, actor in actors.items()
    }
    return {"t": t, "process": process, "actors": told}


def histograms(
    directory: Path, iterations: Iterable[int], layers: Iterable[str] = ("conv1",)
) -> Path:
    """Add histograms of a run to its directory: four bins, whose range grows with the iteration."""
    with (directory / "histograms.jsonl").open("a") as file:
        for iteration in iterations:
            for layer in layers:
                array = {
                    "low": -1.0 - iteration,
                    "high": 1.0 + iteration,
                    "mean": 0.5,
                    "deviation": 0.25,
                    "zeros": 0.125,
                    "infinite": 0,
                    "counts": [0, 1, 4, 2],
                }
                arrays = [
                    {"name": "weight", "of": kind, **array} for kind in ("values", "gradients")
                ]
                line = {"t": 1.0, "actor": "model", "iteration": iteration, "layer": layer}
                file.write(json.dumps({**line, "arrays": arrays}) + "\n")
    return directory
