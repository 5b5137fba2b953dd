"""The benchmark of frozen layers at a small size."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.frozen import TASKS, WHOLE, layers_of, measured


@pytest.mark.parametrize("task", TASKS, ids=lambda task: str(task.net))
def test_the_last_layer_learns_in_every_way(task) -> None:
    ways = task.ways(layers_of(task))
    whole, half, below = ways.values()
    assert ways[WHOLE] == whole == []
    assert 0 < len(half) < len(below)
    assert set(half) < set(below)
    assert [layer for layer in layers_of(task) if layer not in below] == [task.last]


@pytest.mark.slow  # compiles the kernels of a residual net
def test_frozen_layers_save_the_memory_that_plan_leaves_out(tmp_path: Path) -> None:
    task = replace(TASKS[0], batch=8)
    record = measured(task, tmp_path, argparse.Namespace(threads=1, rounds=1))
    rows = record.tables[0].rows
    assert [row[0] for row in rows] == [*task.ways(layers_of(task))]
    held, foreseen = ([row[at] for row in rows] for at in (5, 6))
    assert held == sorted(held, reverse=True)
    saved, left_out = (values[0] - values[-1] for values in (held, foreseen))
    assert saved == pytest.approx(left_out, rel=0.05)
