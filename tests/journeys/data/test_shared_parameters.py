"""A net whose layers share a parameter, and Caffe's files: training, conversion, and further
training."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nets.files import checkpoint
from nets.files.caffemodel import read_caffemodel
from runtime.cli.main import main
from tests.helpers.support import configure, train

TIED = """
layer { name: "data" type: "Data" top: "data" transform_param { scale: 0.0039 } data_param { batch_size: 8 } }
layer { name: "flat" type: "Flatten" bottom: "data" top: "flat" }
layer { name: "encode" type: "InnerProduct" bottom: "flat" top: "code" param { name: "w" }
  inner_product_param { num_output: 12 weight_filler { type: "xavier" } } }
layer { name: "decode" type: "InnerProduct" bottom: "code" top: "decode" param { name: "w" share_mode: PERMISSIVE }
  inner_product_param { num_output: 784 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SigmoidCrossEntropyLoss" bottom: "decode" bottom: "flat" top: "loss" }
"""


def configured(directory: Path, more: str = "") -> Path:
    cluster = configure(directory, "replicas", workers=2, iterations=1)
    (directory / "own.prototxt").write_text(TIED)
    text = cluster.read_text().replace("[train]\n", f'[train]\nnet = "own.prototxt"\n{more}', 1)
    cluster.write_text(text)
    return cluster


@pytest.mark.parametrize("suffix", ["caffemodel", "caffemodel.h5"])
def test_a_checkpoint_goes_to_caffe_whole_and_starts_a_run_from_there(
    tmp_path: Path, suffix: str
) -> None:
    cluster = configured(tmp_path / "a")
    trained = train(cluster).arrays
    saved = tmp_path / "a" / "checkpoint-0000001.safetensors"
    weights = tmp_path / f"w.{suffix}"
    assert checkpoint.load(saved)[1]["shares"] == "yes"
    state = tmp_path / "w.solverstate"
    assert (
        main(["convert", str(saved), str(weights), "--state", str(state), "--file", str(cluster)])
        == 0
    )
    if suffix == "caffemodel":
        found = read_caffemodel(weights)
        assert [array.shape for array in found["decode"]] == [(784, 12), (784,)]
        assert np.array_equal(found["decode"][0].reshape(12, 784), trained["encode.0"])
    again = configured(tmp_path / "b", f'weights = "../w.{suffix}"\n')
    (tmp_path / "b" / "solver.prototxt").write_text(
        'base_lr: 1e-30 lr_policy: "fixed" max_iter: 1 snapshot: 0'
    )
    kept = train(again).arrays
    for name in ("encode.0", "encode.1", "decode.0"):
        assert np.array_equal(kept[name], trained[name])
