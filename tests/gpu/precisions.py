"""`python -m tests.gpu.precisions NET STEPS SEED [BATCH]`, on the stand-in: the losses of a training
run on made-up images in float32, and of the same run with images stored in bfloat16.

Prints a JSON object with the mean of the last losses of each precision, and how many values of the
net are stored in bfloat16. An image of a class is the class's pattern with noise.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

import ops
from nets import Net, load_net, load_solver
from roles.learning.buffers import gradient_buffers
from roles.learning.parameter_store import ParameterStore
from roles.workers.single import train

BATCH = 16  # unless another one is given
CLASSES = 10
LAST = 20  # losses at the end, whose mean is compared
SHAPES = {"lenet": (1, 28, 28), "cifar10_quick": (3, 32, 32), "resnet20": (3, 32, 32)}
# The deviations of the pattern and of the noise, and the learning rate if it is not the solver's. If a
# net learns faster than with these, its losses jump, and two runs that differ by a rounding part. With
# resnet20's own rate, 0.1, the images of one float32 run were multiplied by 1.000001: the losses of
# its last steps were 12 % higher (2 % with deviation 0.15, 44 % with 0.3). With these, 0.7 %.
DEVIATIONS = {"lenet": (0.1, 0.3), "cifar10_quick": (20, 60), "resnet20": (0.4, 1.0)}
RATES = {"resnet20": 0.01}


def batches(name: str, seed: int, batch: int) -> Iterator[tuple[Any, Any]]:
    """Images and labels without an end."""
    shape = SHAPES[name]
    pattern, noise = map(np.float32, DEVIATIONS[name])
    random = np.random.default_rng(seed)
    patterns = pattern * random.standard_normal((CLASSES, *shape), np.float32)
    while True:
        labels = random.integers(0, CLASSES, batch)
        drawn = random.standard_normal((batch, *shape), np.float32)
        yield patterns[labels] + noise * drawn, labels.astype(np.float32)


def losses(name: str, steps: int, seed: int, precision: str, batch: int) -> tuple[list[float], int]:
    """The loss of each step, and the number of values in bfloat16."""
    backend = ops.get_backend("cupy", precision=precision)
    shape = SHAPES[name]
    net = Net(
        load_net(name), "TRAIN", ops=backend, batch=batch, input_shape=shape, seed=seed,
        memory="reused",
    )  # fmt: skip
    store = ParameterStore(
        net.params, net.initial_blobs(), load_solver(f"{name}_solver"), backend, in_place=True
    )
    if name in RATES:
        store.set_rates(RATES[name], store.momentum)
    gradients = gradient_buffers(net)
    found = []
    for number, given in zip(range(steps), batches(name, seed, batch), strict=False):
        net.begin(number)
        for blob, array in zip(net.inputs, given, strict=True):
            net.feed(blob, array)
        for stage in net.stages:
            if stage.layer is not None:
                net.load(stage.layer, store.read(stage.layer))
            net.forward(stage)
        train(net, store, gradients)
        found.append(next(iter(net.scalars().values())))
    return found, sum(value.dtype == ops.BFLOAT16 for value in net.wiring.values)


def main(name: str, steps: int, seed: int, batch: int = BATCH) -> None:
    """Print the losses of both runs."""
    told: dict[str, Any] = {}
    for precision in ("full", "bf16"):
        found, narrow = losses(name, steps, seed, precision, batch)
        told[precision] = {
            "first": found[0], "last": float(np.mean(found[-LAST:])), "narrow": narrow,
        }  # fmt: skip
    print(json.dumps(told))


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
