"""`python -m tests.gpu.step_time`, on the stand-in: the microseconds of Python that a replayed training
step of LeNet and of ResNet-50 needs, without the time of calls and copies.

Recorded calls and copies are replaced by functions that do nothing. Prints the fastest of 300 steps for
each net. A step includes its numbers, the look whether memory has moved, and the scores; feeding the
images and reading the scores are outside.
"""

from __future__ import annotations

import json
import time
from typing import Any

import numpy as np

from nets import load_solver
from ops import get_backend
from roles.learning.buffers import gradient_buffers
from roles.learning.parameter_store import ParameterStore
from roles.learning.replayed_step import ReplayedStep
from tests.gpu.steps import net_of

NETS = {"lenet": 28, "resnet50": 32}  # pixels of a side of the images
RECORDED = 6  # steps until a recording is replayed
STEPS = 300


class Copies:
    """The functions of CUDA's runtime that copies use. They do nothing."""

    memcpyHostToDevice = 1
    memcpyDeviceToHost = 2

    @staticmethod
    def done(*given: object) -> int:
        """Return the code of success."""
        return 0

    memcpyAsync = eventRecord = eventSynchronize = eventQuery = done


def microseconds(name: str) -> float:
    """The time of Python for one replayed step."""
    backend: Any = get_backend("cupy")
    net = net_of(name, NETS[name], backend)
    solver = load_solver("lenet_solver")
    store = ParameterStore(net.params, net.initial_blobs(), solver, backend, in_place=True)
    step = ReplayedStep(net, store, gradient_buffers(net))
    taken = []
    for number in range(RECORDED + STEPS):
        net.begin(number)
        for blob in net.inputs:
            net.feed(blob, np.ones(net.input_shapes[blob], np.float32))
        if number == RECORDED:
            (made,) = step.recordings.by_size.values()
            assert made.tried, step.recordings.refused
            for part in made.parts:
                part.calls = tuple((lambda: None) for _ in part.calls)
            backend._transfers._runtime = Copies
        began = time.perf_counter()
        late = step()
        taken.append(time.perf_counter() - began)
        late()
    return 1e6 * min(taken[RECORDED:])


if __name__ == "__main__":
    print(json.dumps({name: round(microseconds(name), 1) for name in NETS}))
