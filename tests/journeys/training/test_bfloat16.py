"""Training with `precision = "bf16"` on CPUs: the loss compared with float32's, the checkpoint's
type, and the same bits with any number of workers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import ops
from tests.helpers.support import Simulated, configure, train

LACKING = ops.lacking("cpu", "bf16")
pytestmark = [
    pytest.mark.usefixtures("one_thread"),
    pytest.mark.skipif(LACKING is not None, reason=str(LACKING)),
]


def run(cluster: Path, precision: str, strategy: str = "") -> Simulated:
    text = cluster.read_text(encoding="utf-8").replace('"exact"', f'"{precision}"')
    cluster.write_text(text + strategy, encoding="utf-8")
    return train(cluster)


@pytest.mark.slow
def test_lenet_learns_as_in_float32_and_its_checkpoint_stays_float32(tmp_path: Path) -> None:
    options = {"iterations": 100, "batch": 64}
    found = {
        precision: run(configure(tmp_path / precision, "single", **options), precision)
        for precision in ("fast", "bf16")
    }
    losses = {precision: float(np.mean(each.losses())) for precision, each in found.items()}
    assert losses["bf16"] == pytest.approx(losses["fast"], rel=0.02)
    assert losses["bf16"] != losses["fast"]
    assert {array.dtype for array in found["bf16"].arrays.values()} == {np.dtype(np.float32)}


def test_a_reproducible_run_in_bfloat16_has_the_bits_of_one_process(tmp_path: Path) -> None:
    """Micro-batches of 32 rows, so that products are large enough for bfloat16."""
    found = []
    for preset, workers in (("single", 1), ("sync", 2), ("replicas", 2)):
        cluster = configure(tmp_path / preset, preset, workers=workers, iterations=2, batch=256)
        found.append(run(cluster, "bf16", "reproducible = true\n").arrays)
    plain = run(
        configure(tmp_path / "fast", "single", iterations=2, batch=256),
        "fast",
        "reproducible = true\n",
    )
    for name, array in found[0].items():
        assert all(each[name].tobytes() == array.tobytes() for each in found), name
    assert any(found[0][name].tobytes() != array.tobytes() for name, array in plain.arrays.items())
