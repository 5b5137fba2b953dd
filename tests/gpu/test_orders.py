"""Pieces of the backend in drawn orders of their work: a missing wait gives a wrong number in some
order."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.fake_cuda.processes import command, on_fake_cuda, script
from tests.gpu.test_backend import READ_AHEAD
from tests.gpu.test_optimizers import STEPS
from tests.gpu.test_repeats import BEGIN, ELSEWHERE, PASSES
from tests.gpu.test_stand_in import BESIDE_NUMPY

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

SEEDS = (1, 2, 3)
REPLAYED = """
from tests.gpu.replays import compared
for train in (lambda one: one.train(range(16)), lambda one: one.unread(range(16))):
    assert all(found.as_wanted for found in compared(train))
"""
PIECES = {
    "CuPy itself": BESIDE_NUMPY,
    "passes that are repeated": BEGIN + PASSES,
    "arrays that move": BEGIN + ELSEWHERE,
    "rows that were read ahead": READ_AHEAD,
    "optimizers": STEPS,
    "replayed steps": REPLAYED,
}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("piece", PIECES)
def test_the_order_of_the_work_changes_no_number(
    piece: str, seed: int, stand_in: Path, tmp_path: Path
) -> None:
    done = script(PIECES[piece], on_fake_cuda(stand_in, devices=2, seed=seed), tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("seed", SEEDS)
def test_a_step_of_training_asks_for_the_same_work_in_every_order(
    seed: int, stand_in: Path
) -> None:
    in_order, drawn = (
        command(["-m", "tests.gpu.steps", "lenet", "28", "3"], on_fake_cuda(stand_in, seed=one))
        for one in (0, seed)
    )
    assert drawn.returncode == 0, drawn.stderr
    assert json.loads(drawn.stdout) == json.loads(in_order.stdout)
