"""Training with images stored in bfloat16 on real CuPy, with the stand-in for CUDA: nearly the losses
of float32."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.fake_cuda.processes import command, on_fake_cuda


def trained(stand_in: Path, net: str, steps: int, seed: int) -> dict[str, Any]:
    arguments = ["-m", "tests.gpu.precisions", net, str(steps), str(seed)]
    done = command(arguments, on_fake_cuda(stand_in))
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_step_stores_its_images_in_bfloat16_and_has_nearly_the_loss(stand_in: Path) -> None:
    found = trained(stand_in, "lenet", 3, 1)
    assert found["full"]["narrow"] == 0 < found["bf16"]["narrow"]
    assert found["bf16"]["last"] == pytest.approx(found["full"]["last"], rel=0.02)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_after_a_hundred_steps_the_loss_is_that_of_float32(stand_in: Path) -> None:
    found = trained(stand_in, "lenet", 100, 1)
    assert found["full"]["last"] < 0.9 * found["full"]["first"]  # it has learnt
    assert found["bf16"]["last"] == pytest.approx(found["full"]["last"], rel=0.02)
