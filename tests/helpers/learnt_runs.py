"""Finished training runs: real gradients on the virtual clock, started as a user starts them, and
the files that they leave.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import roles
from runtime.cli.main import main
from runtime.plan.prospects import Prospects, Wanted
from runtime.runs.checking import check

SOLVER = """net: "lenet.prototxt" base_lr: 0.03 momentum: 0.9 weight_decay: 0.0005 lr_policy: "fixed"
max_iter: 20 display: 5 test_interval: 5 test_iter: 1 snapshot: 0 snapshot_after_train: false
"""
CLUSTER = """[simulation]
clock = "virtual"
latency = 0.0001
bytes_per_second = "12.5MB"
service_times = "times.json"
[[machine]]
threads = 1
[train]
solver = "solver.prototxt"
batch = 32
[train.data]
train = { format = "digits", split = "train" }
test = { format = "digits", split = "test" }
[train.strategy]
workers = 4
groups = 1
"""
TIMES = {
    "conv_compute/forward *": {"mean": 0.004, "rows": 16},
    "conv_compute/backward *": {"mean": 0.008, "rows": 16},
    "fc_server/fc TRAIN": {"mean": 0.012, "rows": 64},
    "*/*": 0,
}


def cluster_in(folder: Path) -> Path:
    """Write a cluster.toml and the files that it names."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "solver.prototxt").write_text(SOLVER)
    (folder / "times.json").write_text(json.dumps(TIMES))
    cluster = folder / "cluster.toml"
    cluster.write_text(CLUSTER)
    return cluster


def trained(cluster: Path, name: str, *settings: str) -> Path:
    """Train; return the run directory."""
    words = [
        word
        for setting in (f"run.directory={cluster.parent / name}", *settings)
        for word in ("--set", setting)
    ]
    assert main(["up", str(cluster), *words]) == 0
    return next((cluster.parent / name).iterdir())


def events(run: Path) -> list[dict[str, Any]]:
    """All events of the journal."""
    return [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]


def copied(
    run: Path, to: Path, was: str = "", now: str = "", more: tuple[dict[str, Any], ...] = ()
) -> Path:
    """Copy a run, replace a piece of its configuration, and add events."""
    shutil.copytree(run, to)
    text = (to / "config.toml").read_text()
    assert was in text
    (to / "config.toml").write_text(text.replace(was, now) if was else text)
    lines = sorted([*events(run), *more], key=lambda event: float(event["t"]))
    (to / "events.jsonl").write_text("".join(f"{json.dumps(event)}\n" for event in lines))
    return to


def found(cluster: Path, wanted: Wanted, *settings: str) -> Prospects:
    """The program's answer to a question about prospects."""
    checked = check(cluster, settings)
    assert isinstance(checked.loaded.options, roles.Options)
    return roles.prospects(checked.loaded.config, checked.loaded.options, checked.placement, wanted)


def told(capsys: pytest.CaptureFixture[str], *words: str | Path, code: int = 0) -> str:
    """The output of `plan`, or its error text."""
    assert main(["plan", *map(str, words)]) == code
    out, err = capsys.readouterr()
    return err if code else out
