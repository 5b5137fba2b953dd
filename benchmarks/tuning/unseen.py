"""Tasks for which the tuner's constants were never chosen: a residual net with BatchNorm, and a net
without it, on CIFAR-10."""

from __future__ import annotations

from pathlib import Path

from benchmarks.presets.runs import Data
from benchmarks.tuning.runs import SOLVER, Task

INPUT = """layer {
  name: "data" type: "Data" top: "data" top: "label"
  transform_param { scale: 0.0078125 mirror: true mean_value: 128 } data_param { batch_size: 64 }
}
"""
BLOCK = """layer {{
  name: "conv{n}" type: "Convolution" bottom: "{below}" top: "conv{n}"
  convolution_param {{
    num_output: {channels} kernel_size: 3 pad: 1 weight_filler {{ type: "msra" }}
  }}
}}
layer {{ name: "relu{n}" type: "ReLU" bottom: "conv{n}" top: "conv{n}" }}
layer {{
  name: "pool{n}" type: "Pooling" bottom: "conv{n}" top: "pool{n}"
  pooling_param {{ pool: MAX kernel_size: 2 stride: 2 }}
}}
"""
HEAD = """layer {
  name: "ip1" type: "InnerProduct" bottom: "pool4" top: "ip1"
  inner_product_param { num_output: 128 weight_filler { type: "msra" } }
}
layer { name: "relu5" type: "ReLU" bottom: "ip1" top: "ip1" }
layer {
  name: "drop" type: "Dropout" bottom: "ip1" top: "ip1" dropout_param { dropout_ratio: 0.25 }
}
layer {
  name: "ip2" type: "InnerProduct" bottom: "ip1" top: "ip2"
  inner_product_param { num_output: 10 weight_filler { type: "msra" } }
}
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip2" bottom: "label" top: "loss" }
"""
CHANNELS = (16, 32, 48, 64)


def residual(data: Data, folder: Path, iterations: int, loss: float) -> Task:
    """ResNet-20 at its published rate, 64 images an iteration."""
    return _task("resnet20", "resnet20", data, folder, iterations, loss, rate=0.1, decay=0.0001)


def plain(data: Data, folder: Path, iterations: int, loss: float) -> Task:
    """Four 3 x 3 convolutions and two FC layers with dropout, without normalisation, 64 images an
    iteration."""
    below = ["data", *(f"pool{n}" for n in range(1, len(CHANNELS)))]
    blocks = (
        BLOCK.format(n=n, below=name, channels=channels)
        for n, (name, channels) in enumerate(zip(below, CHANNELS, strict=True), start=1)
    )
    path = folder / "plain.prototxt"
    path.write_text('name: "plain"\n' + INPUT + "".join(blocks) + HEAD)
    return _task(str(path), "plain net", data, folder, iterations, loss, rate=0.01, decay=0.0005)


def _task(
    net: str,
    name: str,
    data: Data,
    folder: Path,
    iterations: int,
    loss: float,
    *,
    rate: float,
    decay: float,
) -> Task:
    path = net if net.endswith(".prototxt") else f"{net}.prototxt"
    solver = folder / f"{Path(net).stem}_solver.prototxt"
    text = SOLVER.replace("{net}.prototxt", "{net}")
    solver.write_text(text.format(net=path, rate=rate, decay=decay, tests=""))
    options = data.cifar_quick({}, iterations, 64)
    only = {key: value for key, value in options["data"].items() if key != "test"}
    made = {**options, "data": only, "net": net, "solver": str(solver), "precision": "fast"}
    return Task(name, made, iterations, loss=loss, usual=rate)
