"""The files of runs of two workers on a net of six layers, whose passes are plain, replayed or
graphs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.helpers.fc_shards import configured

ONE = '{ "*" = "cuda:0" }'
# dropout on both sides of the cut, and running statistics
NET = """
name: "small"
layer { name: "data" type: "Data" top: "data" top: "label" data_param { batch_size: 8 } }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"
  convolution_param { num_output: 4 kernel_size: 5 stride: 2 weight_filler { type: "xavier" } } }
layer { name: "norm" type: "BatchNorm" bottom: "conv" top: "norm" }
layer { name: "scale" type: "Scale" bottom: "norm" top: "scale" scale_param { bias_term: true } }
layer { name: "relu" type: "ReLU" bottom: "scale" top: "scale" }
layer { name: "pool" type: "Pooling" bottom: "scale" top: "pool"
  pooling_param { kernel_size: 2 stride: 2 } }
layer { name: "dropped" type: "Dropout" bottom: "pool" top: "dropped"
  dropout_param { dropout_ratio: 0.3 } }
layer { name: "second" type: "Convolution" bottom: "dropped" top: "second"
  convolution_param { num_output: 6 kernel_size: 3 weight_filler { type: "xavier" } } }
layer { name: "hidden" type: "InnerProduct" bottom: "second" top: "hidden"
  inner_product_param { num_output: 16 weight_filler { type: "xavier" } } }
layer { name: "drop" type: "Dropout" bottom: "hidden" top: "hidden" }
layer { name: "scores" type: "InnerProduct" bottom: "hidden" top: "scores"
  inner_product_param { num_output: 10 weight_filler { type: "xavier" } } }
layer { name: "accuracy" type: "Accuracy" bottom: "scores" bottom: "label" top: "accuracy"
  include { phase: TEST } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "scores" bottom: "label" top: "loss" }
"""


def written(
    folder: Path,
    preset: str,
    how: str,
    iterations: int,
    lines: str = "",
    *,
    devices: str = ONE,
    **options: Any,
) -> Path:
    """Write cluster.toml of a run with tests after 25 and 50 iterations. `how`: "plain", "replay"
    or "graph"; `lines`: further ones in [train]."""
    settings = f'devices = {devices}\ncudnn = "off"\ngpu_step = "{how}"\n{lines}'
    cluster = configured(
        folder,
        preset,
        batch=8,
        iterations=iterations,
        test=True,
        net=NET,
        train_more=settings,
        **{"workers": 2, **options},
    )
    with (folder / "solver.prototxt").open("a") as solver:
        solver.write("test_interval: 25\n")
    return cluster
