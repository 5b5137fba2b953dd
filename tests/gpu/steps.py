"""`python -m tests.gpu.steps NET SIZE STEPS [PLANTED]`, on the stand-in: the operations that some
steps of `single` ask of a device.

Prints a JSON object. It has the counts of each step, the shapes of images that a layer had to copy
because their layout was not the one that kernels read, and the operations that did work which is
not repeated. Counts do not depend on the size of the
images as long as these fit into one lowering. PLANTED is a mistake to plant: "copy to the host",
"allocation", "copy of images". With the word "cuDNN" its first right plans compute.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fake_cuda
import numpy as np

import nets
import ops
from nets import Net, load_net, load_solver
from ops.cuda import device
from roles.learning.buffers import gradient_buffers
from roles.learning.parameter_store import ParameterStore
from roles.workers.single import train

BATCH = 2
CUDNN = "cuDNN"


def net_of(name: str, size: int, backend: ops.Backend) -> Net:
    """A net of the zoo for images of `size` pixels a side, which is also its crop size."""
    text = (Path(nets.__file__).parent / "zoo" / f"{name}.prototxt").read_text()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, f"{name}.prototxt")
        file.write_text(re.sub(r"crop_size: \d+", f"crop_size: {size}", text))
        spec = load_net(str(file))
    shape = (1 if name == "lenet" else 3, size, size)
    return Net(spec, "TRAIN", ops=backend, batch=BATCH, input_shape=shape, seed=1, memory="reused")


def steps(net: Net, backend: ops.Backend, count: int) -> Iterator[dict[str, int]]:
    """Yield the counts of one training step after the other, as the preset `single` runs them."""
    store = ParameterStore(
        net.params, net.initial_blobs(), load_solver("lenet_solver"), backend, in_place=True
    )
    gradients = gradient_buffers(net)
    random = np.random.default_rng(1)
    (image,) = (shape for shape in net.input_shapes.values() if len(shape) == 4)
    given = random.standard_normal(image, np.float32), np.arange(1, 1 + BATCH, dtype=np.float32)
    for number in range(count):
        before = fake_cuda.counts()
        net.begin(number)
        for blob, array in zip(net.inputs, given, strict=True):
            net.feed(blob, array)
        for stage in net.stages:
            if stage.layer is not None:
                net.load(stage.layer, store.read(stage.layer))
            net.forward(stage)
        train(net, store, gradients)
        assert "loss" in next(iter(net.scalars()))
        yield {what: count - before[what] for what, count in fake_cuda.counts().items()}


def plant(mistake: str, backend: Any) -> None:
    """Plant a mistake in the pooling of `backend`."""
    plain = backend.pool_forward

    def pooled(x: Any, *rest: Any, **more: Any) -> Any:
        if mistake == "copy to the host":
            float(x[0, 0, 0, 0])
        elif mistake == "allocation":
            backend.xp.cuda.memory.Memory(1 << 20)  # allocated outside CuPy's pool
        elif mistake == "copy of images":
            x = backend.xp.ascontiguousarray(x)
        else:
            raise ValueError(mistake)
        return plain(x, *rest, **more)

    backend.pool_forward = pooled


def main(name: str, size: int, count: int, *mistakes: str) -> None:
    """Print the counts of some steps, with the given mistakes planted."""
    how = "deterministic" if CUDNN in mistakes else "off"
    backend = ops.get_backend("cupy", cudnn=how)
    copied = list[tuple[int, ...]]()
    for mistake in set(mistakes) - {CUDNN}:
        plant(mistake, backend)
    new_images = device.new_images

    def noted(xp: Any, shape: tuple[int, ...], dtype: Any) -> ops.Array:
        copied.append(shape)
        return new_images(xp, shape, dtype)

    device.new_images = noted
    found = list(steps(net_of(name, size, backend), backend, count))
    assert backend.repeats is not None
    stopped = dict(backend.repeats.stopped)
    print(json.dumps({"steps": found, "copied": copied, "stopped": stopped}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:])
