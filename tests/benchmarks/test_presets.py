"""The benchmark of the presets: the differences that its part `equality` accepts and those that it
rejects."""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from benchmarks.helpers.report import Record
from benchmarks.helpers.turns import Turns
from benchmarks.presets import presets, schemes
from benchmarks.presets.runs import DOUBLE
from runtime.runs.checking import check

Arrays = dict[str, Any]


def parameters(difference: float = 0.0) -> Arrays:
    return {
        "conv1.0": np.array([1.0 + difference, -0.5]),
        "conv1.0.history": np.array([1.0 + 100 * difference]),
    }


@pytest.mark.parametrize(
    ("itself", "float32", "one_step", "bits", "float64", "status"),
    [
        (1e-6, 1e-6, 1e-8, 0, 1e-12, "running"),
        (1e-6, 1e-4, 1e-8, 0, 1e-12, "failed"),
        (1e-6, 1e-6, 1e-6, 0, 1e-12, "failed"),  # its solver histories differ by 1e-4
        (1e-6, 1e-6, 1e-8, 0, 1e-4, "failed"),
        (1e-6, math.nan, 1e-8, 0, 1e-12, "failed"),
        (1e-6, 1e-4, 1e-8, 0, 1e-4, "failed"),
        (1e-6, 1e-6, 1e-8, 1e-9, 1e-12, "failed"),  # the bits differ
        # a maximum was taken at another position, also within one process; the comparison still
        # fails
        (1e-4, 1e-4, 1e-8, 0, 1e-12, "failed"),
    ],
)
def test_a_difference_above_the_bar_fails_wherever_it_is_seen(
    monkeypatch: pytest.MonkeyPatch,
    itself: float,
    float32: float,
    one_step: float,
    bits: float,
    float64: float,
    status: str,
) -> None:
    def arrays_of(options: dict[str, Any]) -> Arrays:
        if options["strategy"] == {"preset": "single"}:
            return parameters()
        if options["strategy"].get("reproducible"):
            return parameters(
                itself if options["strategy"]["preset"] == "single" else itself + bits
            )
        return parameters(float64 if options["precision"] == DOUBLE["precision"] else float32)

    monkeypatch.setattr(presets, "arrays_of", arrays_of)
    monkeypatch.setattr(
        presets, "one_step", lambda options, strategy, at: (parameters(one_step), parameters())
    )
    monkeypatch.setattr(Record, "save", lambda record: None)
    record = Record("equality", status="running")
    lenet = SimpleNamespace(
        lenet=lambda of, count: {"strategy": of, "precision": "exact"}, cifar=None
    )
    presets.equality(record, lenet, argparse.Namespace(presets=["sync"]))
    assert record.status == status
    alone, (net, preset, *differences) = record.tables[0].rows
    assert alone[2:4] == pytest.approx([itself, 100 * itself], rel=1e-3, nan_ok=True)
    assert (net, preset) == ("LeNet", "sync")
    expected = [float32, 100 * float32, 100 * one_step, 100 * bits, float64]
    assert differences == pytest.approx(expected, rel=1e-3, nan_ok=True)
    assert (presets.PARTED in record.notes) == (itself > presets.NEAR)


@pytest.mark.parametrize(("b", "status"), [(9.6, "running"), (9.4, "failed")])
def test_a_scheme_is_judged_by_its_speed_of_that_with_scheme_a(
    monkeypatch: pytest.MonkeyPatch, b: float, status: str
) -> None:
    turns = {"a": Turns([100], [10.0]), "b": Turns([int(10 * b)], [10.0]), "c": Turns([99], [10.0])}
    monkeypatch.setattr(schemes, "measured", lambda net, lives, rounds: turns)
    record = Record("r")
    given = argparse.Namespace(nets=["alexnet_owt"], lives=1, rounds=1)
    schemes.schemes(record, SimpleNamespace(), given)
    assert record.status == status
    assert record.tables[0].rows[0][-2:] == [b / 10, 0.99]


@pytest.mark.parametrize("net", schemes.NETS)
def test_each_scheme_of_a_net_has_a_plan(tmp_path: Path, net: str) -> None:
    for scheme in schemes.SCHEMES:
        found = check(schemes.written(tmp_path / scheme, net, scheme), starts=False)
        shards = [each for each in found.placement.topology.actors if each.role == "fc_shard"]
        assert [shard.options.scheme for shard in shards] == [scheme] * schemes.WORKERS


def test_a_turn_ends_with_the_first_line_of_progress_after_its_seconds() -> None:
    now = time.monotonic()
    lines = iter([now - 5, now + 1, now + 2, now + 1000, now + 2000])
    run = SimpleNamespace(told=lambda pattern, timeout: (next(lines), "progress iteration 1"))
    schemes.whole(SimpleNamespace(run=run), 100.0)
    assert next(lines) == now + 2000  # the lines before it are read
