"""The times of every layer: measured once, by the given clock, and printed in a table."""

import itertools

import numpy as np
import pytest

from nets import Net, NetError
from nets.data import Batches, MemorySource, Transform
from nets.graph.blanks import blanks
from nets.graph.warm import warm
from nets.tools.timing import DataTime, LayerTime, table, time_data, time_net
from ops import get_backend
from tests.nets.support import lenet, spec_of


def test_every_layer_is_timed_forward_and_backward_by_the_clock():
    ticks = itertools.count()
    waits = []
    net = lenet(batch=2)
    times = time_net(
        net, iterations=3, clock=lambda: next(ticks), synchronize=lambda: waits.append(1)
    )
    assert [one.name for one in times] == [name for stage in net.stages for name in stage.layers]
    assert [(one.forward, one.backward) for one in times] == [(1.0, 1.0)] * 8
    # 3 passes and one to warm up, two directions, before and after, 8 layers
    assert len(waits) == 4 * 2 * 2 * 8


def test_the_table_has_a_line_per_layer_and_the_sums():
    times = (
        LayerTime("conv1", "Convolution", 0.001, 0.003, 4_000_000, 8_000_000),
        LayerTime("relu1", "ReLU", 0.0005, 0.0, 0, 0),
    )
    assert table(times).splitlines() == [
        "layer  type         forward ms  backward ms          GFLOP/s",
        "conv1  Convolution       1.000        3.000              3.0",
        "relu1  ReLU              0.500        0.000                -",
        "sum                      1.500        3.000  4.500 ms in all",
    ]


SOFT = """
layer { name: "d" type: "Input" top: "x" top: "shares"
  input_param { shape { dim: 2 dim: 3 } shape { dim: 2 dim: 4 dim: 1 } } }
layer { name: "flat" type: "Flatten" bottom: "shares" top: "label" }
layer { name: "ip" type: "InnerProduct" bottom: "x" top: "ip"
  inner_product_param { num_output: 4 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }
"""


@pytest.mark.parametrize("backend", ["numpy", "cpu"])
def test_a_net_of_labels_that_are_probabilities_is_prepared_and_timed(tmp_path, backend):
    net = Net(spec_of(tmp_path, SOFT), "TRAIN", ops=get_backend(backend), batch=2)
    assert blanks(net) == {"x": 0, "shares": 0.25}
    warm(net)
    assert len(time_net(net, iterations=1)) == 3


def test_no_pass_to_measure_is_refused():
    with pytest.raises(NetError, match="time: found 0 iterations"):
        time_net(lenet(batch=2), iterations=0)


def test_reading_and_changing_the_data_are_timed_apart_without_the_first_batch():
    class Clocked(MemorySource):
        def read(self, indices):
            nonlocal now
            now += 7 if first.pop() else 2
            return super().read(indices)

    first = [False, False, True]
    now = 0.0
    source = Clocked("clocked", np.zeros((10, 1, 2, 2), np.uint8), np.zeros(10, np.int64))

    class Slow(Transform):
        def __call__(self, images, positions, **more):
            nonlocal now
            now += 3
            return super().__call__(images, positions, **more)

    batches = Batches(source, Slow(), 4, shuffle=False, seed=1, train=True)
    assert time_data(batches, iterations=2, clock=lambda: now) == DataTime(2.0, 3.0)
