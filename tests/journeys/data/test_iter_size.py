"""Caffe's iter_size: several passes over batches of the declared size, their mean gradient, and the
memory of one pass."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from nets import Net, load_net, load_solver
from nets.data import Batches, open_source
from nets.data.augmentation.transform import Transform
from nets.definition.spec import ZOO
from ops import Array, get_backend
from roles.forecasting.plan_forecast import forecast
from roles.planning.planner import plan
from runtime.config.file import load_with_program
from tests.helpers.support import ROOT, Simulated, configure, environment, train

LENET = (ZOO / "lenet.prototxt").read_text()
NORM = """
layer { name: "bn" type: "BatchNorm" bottom: "conv1" top: "conv1" batch_norm_param { moving_average_fraction: 0.5 } }
layer { name: "scale" type: "Scale" bottom: "conv1" top: "conv1" scale_param { bias_term: true } }
"""
POOL = 'layer {\n  name: "pool1"'
NORMED = LENET.replace(POOL, NORM + POOL)
WHOLE = ["replicas", "firecaffe", "mxnet-sync", "parameter-server", "sparknet"]
CUT = ["sync", "one-weird-trick", "local-fc-shards"]


def run(
    directory: Path, preset: str, iter_size: int, batch: int, *, net: str = LENET, **options: int
) -> Simulated:
    """Train for a few iterations of `iter_size` passes over `batch` rows each."""
    cluster = configured(directory, preset, iter_size, batch, net=net, **options)
    return train(cluster)


def configured(
    directory: Path, preset: str, iter_size: int, batch: int, *, net: str = LENET, **options: int
) -> Path:
    cluster = configure(directory, preset, **{"iterations": 3, "batch": batch, **options})
    (directory / "own.prototxt").write_text(net)
    with (directory / "solver.prototxt").open("a") as file:
        file.write(f"iter_size: {iter_size}")
    told = '[train]\nnet = "own.prototxt"\n'
    cluster.write_text(cluster.read_text().replace("[train]\n", told, 1))
    return cluster


def as_caffe(directory: Path, iter_size: int, batch: int, iterations: int) -> dict[str, Array]:
    """The parameters after Caffe's Solver::Step, written as plain loops. It runs `iter_size` times
    forward and backward over `batch` rows, adds up the gradients, divides them by iter_size and
    applies them. Every forward pass updates the statistics."""
    spec = load_net(directory / "own.prototxt")
    solver = load_solver(directory / "solver.prototxt")
    source = open_source({"format": "digits"}, Path())
    batches = Batches(
        source, Transform.of_net(spec, "TRAIN"), batch, shuffle=False, seed=1, train=True
    )
    net = Net(
        spec, "TRAIN", ops=get_backend("numpy"), batch=batch, input_shape=source.shape, seed=1
    )
    blobs = {layer: list(of) for layer, of in net.initial_blobs().items()}
    history = {
        layer: [solver.new_history(net.ops, param) for param in of]
        for layer, of in net.params.items()
    }
    for iteration in range(iterations):
        sums = {layer: [np.zeros(param.shape) for param in of] for layer, of in net.params.items()}
        for number in range(iteration * iter_size, (iteration + 1) * iter_size):
            net.run(
                dict(zip(net.inputs, batches.read(number, 0, batch), strict=True)), blobs, iteration
            )
            for stage in reversed(net.stages):
                found = net.backward(stage)
                for at, gradient in enumerate(found if stage.layer else ()):
                    param = net.params[stage.layer][at]
                    if param.keep is None:
                        sums[stage.layer][at] += gradient / iter_size
                    else:
                        blobs[stage.layer][at] = param.keep * blobs[stage.layer][at] + gradient
        for layer, params in net.params.items():
            for at, param in enumerate(params):
                if param.keep is None:
                    g = sums[layer][at].astype(np.float32)
                    blobs[layer][at], history[layer][at] = solver.update(
                        net.ops, iteration, param, blobs[layer][at], g, history[layer][at]
                    )
    return {f"{layer}.{at}": array for layer, of in blobs.items() for at, array in enumerate(of)}


@pytest.mark.parametrize("net", [LENET, NORMED], ids=["plain", "batch-norm"])
def test_parameters_and_statistics_equal_caffes_loop(tmp_path: Path, net: str) -> None:
    found = run(tmp_path, "single", 4, 6, net=net).arrays
    expected = as_caffe(tmp_path, 4, 6, 3)
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, rtol=2e-4, atol=2e-6, err_msg=name)


@pytest.mark.few("replicas", "mxnet-sync", "[sync")
@pytest.mark.parametrize("preset", [*WHOLE, *CUT])
def test_every_preset_trains_as_on_batches_larger_by_that_factor(
    tmp_path: Path, preset: str
) -> None:
    small = run(tmp_path / "a", preset, 3, 8, workers=2)
    large = run(tmp_path / "b", preset, 1, 24, workers=2)
    assert small.losses() == pytest.approx(large.losses(), rel=1e-5)
    for name, array in large.arrays.items():
        np.testing.assert_allclose(small.arrays[name], array, rtol=1e-3, atol=1e-6, err_msg=name)
    other = run(tmp_path / "c", preset, 1, 8, workers=2)
    assert not np.allclose(other.arrays["ip1.0"], large.arrays["ip1.0"], rtol=1e-3, atol=1e-6)


def memory(cluster: Path) -> dict[str, dict[str, int]]:
    """The memory of each actor, as `plan` predicts it."""
    loaded = load_with_program(cluster)
    found = forecast(plan(loaded.config, loaded.options)).memory
    return {actor: dict(of) for actor, of in found.items()}


@pytest.mark.parametrize("preset", ["single", "replicas", "mxnet-sync"])
def test_the_planned_memory_is_one_pass_and_a_second_set_of_gradients(
    tmp_path: Path, preset: str
) -> None:
    worker = {"single": "single", "replicas": "replica-0", "mxnet-sync": "conv-0-0"}[preset]
    one = memory(configured(tmp_path / "one", preset, 1, 16, workers=2))[worker]
    many = memory(configured(tmp_path / "many", preset, 32, 16, workers=2))[worker]
    assert many == one | {"gradients": 2 * one["gradients"]}


@pytest.mark.parametrize("preset", CUT)
def test_presets_that_compute_all_passes_at_once_report_it_in_the_plan(
    tmp_path: Path, preset: str
) -> None:
    found = memory(configured(tmp_path, preset, 4, 16, workers=2))
    assert all("activations" not in of for of in found.values())
    assert sum("activations of 4 passes" in of for of in found.values()) >= 3


def fire(index: int, squeezed: int, expanded: int) -> str:
    """A module of SqueezeNet, from blob x<index> to x<index + 1>."""
    layers = ((f"s{index}", f"x{index}", squeezed, 1), (f"a{index}", f"s{index}", expanded, 1))
    layers += ((f"b{index}", f"s{index}", expanded, 3),)
    joined = f'bottom: "a{index}" bottom: "b{index}" top: "x{index + 1}"'
    return "".join(conv(*each) for each in layers) + (
        f'layer {{ name: "c{index}" type: "Concat" {joined} }}\n'
    )


def conv(name: str, bottom: str, count: int, kernel: int) -> str:
    return f"""layer {{ name: "{name}" type: "Convolution" bottom: "{bottom}" top: "{name}" convolution_param {{
      num_output: {count} kernel_size: {kernel} pad: {kernel // 2} weight_filler {{ type: "xavier" }} }} }}
    layer {{ name: "relu_{name}" type: "ReLU" bottom: "{name}" top: "{name}" }}\n"""


SQUEEZE = (
    """layer { name: "data" type: "Data" top: "data" top: "label" data_param { batch_size: 16 } }
"""
    + conv("conv1", "data", 64, 3)
    + (
        'layer { name: "pool1" type: "Pooling" bottom: "conv1" top: "x0" pooling_param { '
        "kernel_size: 3 stride: 2 } }\n"
    )
    + "".join(fire(index, 16, 64) for index in range(3))
    + 'layer { name: "drop" type: "Dropout" bottom: "x3" top: "x3" }\n'
    + conv("classes", "x3", 10, 1)
    + """layer { name: "pool" type: "Pooling" bottom: "classes" top: "pool" pooling_param { pool: AVE
      global_pooling: true } }
    layer { name: "loss" type: "SoftmaxWithLoss" bottom: "pool" bottom: "label" top: "loss" }"""
)

MEASURED = """
import gc, json, sys
from pathlib import Path
from tests.helpers.support import train

def now(key):
    return next(1024 * int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(key))

warm, cluster = map(Path, sys.argv[1:])
gc.set_threshold(100)  # cycles of plans are garbage that counts otherwise
train(warm, checkpoint=False)  # imports, kernels, the allocator's own
gc.collect()
before = now("VmRSS")
open("/proc/self/clear_refs", "w").write("5")  # the peak is counted from here
train(cluster, checkpoint=False)
print(json.dumps(now("VmHWM") - before))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.slow
@pytest.mark.parametrize(("iter_size", "side"), [(3, 96), (32, 64)])
def test_a_process_takes_the_memory_that_is_planned_for_one_pass(
    tmp_path: Path, iter_size: int, side: int
) -> None:
    def squeeze(name: str, count: int, batch: int) -> Path:
        cluster = configured(tmp_path / name, "single", count, batch, net=SQUEEZE, iterations=1)
        blank = f'format = "blank", shape = [3, {side}, {side}]'  # the data take no memory
        cluster.write_text(cluster.read_text().replace('format = "digits", split = "train"', blank))
        return cluster

    cluster = squeeze("real", iter_size, 16)
    planned = sum(memory(cluster)["single"].values())
    once = memory(squeeze("once", 1, 16))["single"]
    assert planned == pytest.approx(sum(once.values()) + once["gradients"], rel=0.15)
    arguments = [sys.executable, "-c", MEASURED, squeeze("warm", 1, 1), cluster]
    # the first run compiles kernels, and the compiler takes memory in the process
    for _ in range(2):
        done = subprocess.run(
            arguments, cwd=ROOT, env=environment(), capture_output=True, text=True, check=True
        )
    assert json.loads(done.stdout) == pytest.approx(planned, rel=0.15)
