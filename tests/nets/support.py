"""Small helpers of the net tests: writing a prototxt, making a net from it, and the place of the
shared files."""

from pathlib import Path

import numpy as np
import pytest

from nets import NetSpec, load_net
from nets.graph.graph import Net
from ops import get_backend

SHARED = Path(__file__).parents[3] / "shared" / "data"
MODELS = SHARED / "caffe" / "models"
needs_shared = pytest.mark.skipif(
    not MODELS.is_dir(), reason=("the folder ../shared is not next to this checkout")
)


def spec_of(tmp_path: Path, text: str) -> NetSpec:
    file = tmp_path / "net.prototxt"
    file.write_text(text, "utf-8")
    return load_net(file)


def lenet(phase="TRAIN", **options) -> Net:
    return Net(load_net("lenet"), phase, ops=get_backend(), input_shape=(1, 28, 28), **options)


def images_and_labels(count, shape=(1, 28, 28), classes=10, seed=1, dtype=np.float32):
    random = np.random.default_rng(seed)
    return random.random((count, *shape)).astype(dtype), random.integers(0, classes, count).astype(
        dtype
    )


def backward(net) -> dict:
    """All parameter gradients of `net`, from its stages in reverse order."""
    grads = {}
    for stage in reversed(net.stages):
        result = net.backward(stage)
        if stage.layer:
            grads[stage.layer] = result
    return grads


def some_values(net: Net, seed: int = 1) -> dict:
    """First values of every layer. Biases are not zero, and statistics are like those of a trained
    net."""
    random = np.random.default_rng(seed)
    found = {}
    for layer, params in net.params.items():
        arrays = [np.array(blob) for blob in net.initial_blobs([layer])[layer]]
        for param, array in zip(params, arrays, strict=True):
            if param.keep is not None:
                array[...] = {"mean": 0.1, "variance": 1.0, "weight": 1.0}[param.name]
                array *= random.uniform(0.9, 1.1, array.shape) if param.name != "weight" else 1
            elif len(array.shape) == 1:
                array += random.uniform(-0.1, 0.1, array.shape)
        found[layer] = tuple(arrays)
    return found
