"""A picture that is damaged while a run reads it ends the run in words, and the run is not started
again: it would meet the picture again."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.helpers.support import environment, runtime_command

NET = """
name: "tiny"
layer { name: "data" type: "Data" top: "data" top: "label" data_param { batch_size: 6 } }
layer { name: "scores" type: "InnerProduct" bottom: "data" top: "scores"
  inner_product_param { num_output: 2 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "scores" bottom: "label" top: "loss" }
"""
SOLVER = """
net: "net.prototxt"
base_lr: 0.00001
lr_policy: "fixed"
max_iter: 1000000
display: 20
"""
CLUSTER = """
program = "roles"
[train]
net = "net.prototxt"
solver = "solver.prototxt"
[train.data]
train = { format = "images", source = "pictures" }
[train.strategy]
preset = "single"
[recovery]
restarts = 2
"""


def test_a_picture_that_is_cut_while_a_run_goes_on_ends_it_with_its_name(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    rng = np.random.default_rng(1)
    for at in range(12):
        path = tmp_path / "pictures" / f"class{at % 2}" / f"{at}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        image.fromarray(rng.integers(0, 256, (12, 12, 3), dtype=np.uint8)).save(path)
    for name, text in (("net.prototxt", NET), ("solver.prototxt", SOLVER)):
        (tmp_path / name).write_text(text)
    cluster = tmp_path / "cluster.toml"
    cluster.write_text(CLUSTER)
    with subprocess.Popen(
        runtime_command("up", cluster.name),
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as run:
        assert run.stdout is not None
        while "iteration 20/" not in (line := run.stdout.readline()):
            assert line, run.communicate()
        path.write_bytes(path.read_bytes()[:200])
        said, wrong = run.communicate(timeout=60)
    assert run.returncode == 1, said + wrong
    assert f"{path}: damaged" in wrong
    assert "remove it from its folder" in wrong
    assert "Traceback" not in said + wrong
    assert len(list((tmp_path / "runs").glob("*/run.json"))) == 1
