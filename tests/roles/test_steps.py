"""Training steps of the preset single: no array is allocated after the first step, and memory does
not grow."""

from __future__ import annotations

import gc
import math
import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from nets import Net, NetSpec, load_net, load_solver
from ops import get_backend
from roles.learning.buffers import gradient_buffers
from roles.learning.parameter_store import ParameterStore
from roles.workers.single import train
from tests.nets.support import spec_of

# the bytes that Python itself needs for a step (tuples, dictionaries, blocks of arguments)
FOR_THE_STEP = 6144
FOR_A_LAYER = 384

BODY = """
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"
        convolution_param { num_output: 32 kernel_size: 3 pad: 1 weight_filler { type: "xavier" } } }
layer { name: "norm" type: "BatchNorm" bottom: "conv" top: "conv" }
layer { name: "scale" type: "Scale" bottom: "conv" top: "conv" scale_param { bias_term: true } }
layer { name: "relu" type: "ReLU" bottom: "conv" top: "conv" }
layer { name: "left" type: "Convolution" bottom: "conv" top: "left"
        convolution_param { num_output: 32 kernel_size: 1 weight_filler { type: "xavier" } } }
layer { name: "sum" type: "Eltwise" bottom: "conv" bottom: "left" top: "sum" }
layer { name: "relu2" type: "ReLU" bottom: "sum" top: "sum" }
layer { name: "lrn" type: "LRN" bottom: "sum" top: "lrn" }
layer { name: "max" type: "Pooling" bottom: "lrn" top: "max" pooling_param { pool: MAX kernel_size: 3 stride: 2 } }
layer { name: "ave" type: "Pooling" bottom: "lrn" top: "ave" pooling_param { pool: AVE kernel_size: 3 stride: 2 } }
layer { name: "both" type: "Concat" bottom: "max" bottom: "ave" top: "both" }
layer { name: "drop" type: "Dropout" bottom: "both" top: "both" }
layer { name: "hidden" type: "InnerProduct" bottom: "both" top: "hidden"
        inner_product_param { num_output: 256 weight_filler { type: "xavier" } } }
layer { name: "drop2" type: "Dropout" bottom: "hidden" top: "hidden" }
layer { name: "scores" type: "InnerProduct" bottom: "hidden" top: "scores"
        inner_product_param { num_output: 256 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "scores" bottom: "label" top: "loss" }
"""
DATA = """
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 16 dim: 3 dim: 16 dim: 16 } } }
layer { name: "label" type: "Input" top: "label" input_param { shape { dim: 16 } } }
"""


def training(
    spec: NetSpec, image: tuple[int, int, int] | None, batch: int, threads: int
) -> Callable[[], None]:
    """A function that runs one step on made-up images: forward, backward, update, scores."""
    ops = get_backend("cpu", threads=threads)
    net = Net(spec, "TRAIN", ops=ops, memory="reused", seed=1, batch=batch, input_shape=image)
    store = ParameterStore(
        net.params, net.initial_blobs(), load_solver("lenet"), ops, in_place=True
    )
    gradients = gradient_buffers(net)
    rng = np.random.default_rng(0)
    given = {
        name: rng.standard_normal(shape, np.float32)
        if len(shape) == 4
        else rng.integers(0, 10, shape).astype("f")
        for name, shape in net.input_shapes.items()
    }

    def step() -> None:
        net.begin(0)
        for name, array in given.items():
            net.feed(name, array)
        for stage in net.stages:
            if stage.layer is not None:
                net.load(stage.layer, store.read(stage.layer))
            net.forward(stage)
        train(net, store, gradients)
        assert 0 <= net.scalars()["loss"] < math.inf

    return step


def taken(step: Callable[[], None]) -> tuple[int, list[str]]:
    """Run a step. Returns the most bytes that it needs in addition to the bytes in use before, and
    the arrays that remain after it."""
    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        step()
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        step()
        peak = tracemalloc.get_traced_memory()[1]
        arrays = tracemalloc.DomainFilter(True, np.lib.tracemalloc_domain)
        left = tracemalloc.take_snapshot().filter_traces([arrays]).traces
        return peak - before, [f"{one.size} bytes: {one.traceback}" for one in left]
    finally:
        tracemalloc.stop()
        gc.enable()


@pytest.mark.few("[lenet-2]", "[everything-1]")
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", ["lenet", "cifar10_quick", "resnet20", "everything"])
def test_after_the_first_iterations_a_training_step_allocates_no_array(tmp_path, name, threads):
    spec = spec_of(tmp_path, DATA + BODY) if name == "everything" else load_net(name)
    image = {"lenet": (1, 28, 28), "everything": None}.get(name, (3, 32, 32))
    step = training(spec, image, 16, threads)
    for _ in range(3):  # the third pass is recorded
        step()
    # other threads of the test run may need memory during one of them
    each = [taken(step) for _ in range(3)]
    assert [left for _, left in each] == [[], [], []]
    assert min(needed for needed, _ in each) < FOR_THE_STEP + FOR_A_LAYER * len(
        spec.for_phase("TRAIN").layers
    )


def resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.slow
def test_memory_is_flat_over_many_iterations():
    step = training(load_net("lenet"), (1, 28, 28), 16, 1)
    grown = []
    # a leak grows every time; Linux fills a large page, or a thread of another test ends, only once
    for _ in range(3):
        for _ in range(50):
            step()
        gc.collect()
        before = resident()
        for _ in range(400):
            step()
        gc.collect()
        grown.append(resident() - before)
    assert min(grown) < 1 << 18  # 0.7 KB an iteration
