"""The benchmark of the parts of today's recipes, at a small size."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from benchmarks import additions
from benchmarks.additions import BARE, PLAIN, SIDES, Side


def test_the_net_without_norms_has_the_other_layers_of_the_zoos_net() -> None:
    given = argparse.Namespace(threads=1, precision="exact", batch=2)
    bare, plain, smooth = (
        additions.net_of(side, given)
        for side in (SIDES[BARE], SIDES[PLAIN], Side(PLAIN, smoothing=0.5))
    )
    assert {*plain.params} - {*bare.params} == {
        layer for layer in plain.params if layer.endswith(("_bn", "_scale"))
    }
    assert len(bare.params) == 22  # 19 convolutions, two projections and the inner product
    assert plain.params == smooth.params


@pytest.mark.slow
def test_every_part_has_a_time_and_its_memory(tmp_path: Path) -> None:
    given = ["--threads", "1", "--batch", "2", "--seconds", "0", "--results", str(tmp_path)]
    additions.main(given)  # the bar is meant for two threads and 128 images
    (as_json,) = tmp_path.glob("additions-*.json")
    (table,) = json.loads(as_json.read_text())["parts"]["resnet20"]["tables"]
    rows = {row[0]: row for row in table["rows"]}
    assert rows.keys() == SIDES.keys()
    assert min(row[1] for row in rows.values()) > 0
    more = {name: row[5] for name, row in rows.items()}
    megabytes = sum(
        4 * parameters / 1e6
        for parameters in (272_474, 19 * 2 * 32)  # about: weights and norms
    )
    assert more["average of the weights"] == pytest.approx(megabytes, rel=0.05)
    assert more["AdamW"] == pytest.approx(megabytes, rel=0.05)
    assert more["clipping"] == more["Nesterov"] == 0
