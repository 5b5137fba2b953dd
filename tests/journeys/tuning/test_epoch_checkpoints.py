"""The checkpoint at the end of each epoch of the tuner, on virtual time."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.support import Simulated, configure, train

NET = """
name: "small"
layer { name: "images" type: "Data" top: "data" top: "label" data_param { batch_size: 16 }
        transform_param { scale: 0.00390625 } }
layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip"
        inner_product_param { num_output: 10 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }
"""
TUNING = """[train.tuning]
budget = 0.5
probe_iterations = 10
epoch_iterations = 100
momenta = [0.3, 0.9]
"""


def tuned(folder: Path, *, solver: str = "", resume: str = "") -> Simulated:
    cluster = configure(folder, "single", iterations=400)
    (folder / "lenet.prototxt").write_text(NET)
    settings = f'momentum = "auto"\n{resume}[train.data]\n'
    text = cluster.read_text().replace("[train.data]\n", settings)
    cluster.write_text(text + TUNING)
    path = folder / "solver.prototxt"
    path.write_text(path.read_text() + solver)
    return train(cluster, service_time=lambda actor, label: 0.01, checkpoint=not solver)


def test_each_epoch_leaves_a_checkpoint_from_which_another_run_goes_on(tmp_path: Path) -> None:
    first = tuned(tmp_path / "first")
    searches = [each["iteration"] for each in first.journal.of("tuning") if "momentum" in each]
    saved = first.journal.of("checkpoint")
    assert len(searches) >= 2
    assert [each["iteration"] for each in saved] == [*searches[1:], 400]
    file = tmp_path / "first" / saved[0]["file"]
    again = tuned(tmp_path / "again", resume=f'resume = "{file}"\n')
    (resumed,) = again.journal.of("resumed")
    assert resumed["iteration"] == searches[1]
    assert again.journal.of("finished")[0]["iterations"] == 400


@pytest.mark.parametrize("solver", ["snapshot_after_train: false\n"])
def test_a_solver_that_saves_no_model_saves_none_at_epochs(tmp_path: Path, solver: str) -> None:
    run = tuned(tmp_path, solver=solver)
    assert len([each for each in run.journal.of("tuning") if "momentum" in each]) >= 2
    assert run.journal.of("checkpoint") == []
