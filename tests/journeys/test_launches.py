"""What a training step asks of a device, counted by a stand-in for CUDA: launches, waits, memory, copies.

They do not depend on the sizes of images and batches while these fit into one lowering, so images are small here. CuPy
is the real one. Skipped where the stand-in (the package `fakecuda`) is not installed.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nets
import ops
from nets import Net, load_net, load_solver
from ops.cuda import device
from roles.learning.buffers import gradient_buffers
from roles.learning.parameter_store import ParameterStore
from roles.workers.single import train

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("fakecuda") is None, reason="needs the stand-in for CUDA, which is not here"
)
# launches and products by cuBLAS of one step of `single`, and the largest image that a test of seconds can afford
NETS = {"lenet": (46, 28), "caffenet": (112, 67), "resnet50": (699, 32)}
MOST = {"lenet": 60, "caffenet": 150, "resnet50": 1200}


def small(name: str, size: int, folder: Path) -> Path:
    """A net of the zoo that takes crops of that size."""
    text = (Path(nets.__file__).parent / "zoo" / f"{name}.prototxt").read_text()
    file = folder / f"{name}.prototxt"
    file.write_text(re.sub(r"crop_size: \d+", f"crop_size: {size}", text))
    return file


def steps(name: str, size: int, folder: Path, backend: ops.Backend) -> Iterator[dict[str, int]]:
    """The counts of training step after step on two images, as the preset `single` does them."""
    import fakecuda

    shape = (1 if name == "lenet" else 3, size, size)
    net = Net(
        load_net(str(small(name, size, folder))), "TRAIN", ops=backend, batch=2, input_shape=shape, memory="reused"
    )
    store = ParameterStore(net.params, net.initial_blobs(), load_solver("lenet_solver"), backend, in_place=True)
    gradients, random = gradient_buffers(net), np.random.default_rng(1)
    images, labels = random.standard_normal((2, *shape), np.float32), np.array([3, 1], np.float32)
    for number in range(3):
        before = fakecuda.counts()
        net.begin(number)
        for blob, array in zip(net.inputs, (images, labels), strict=True):
            net.feed(blob, array)
        for stage in net.stages:
            if stage.layer is not None:
                net.load(stage.layer, store.read(stage.layer))
            net.forward(stage)
        train(net, store, gradients)
        assert net.scalars().keys() == {"loss"}
        yield {what: count - before[what] for what, count in fakecuda.counts().items()}


@pytest.mark.few("[lenet]")
@pytest.mark.parametrize("name", NETS)
def test_a_step_launches_little_waits_once_and_takes_no_memory_after_the_first(name: str, tmp_path: Path) -> None:
    first, second, third = steps(name, NETS[name][1], tmp_path, ops.get_backend("cupy"))
    assert second == third
    assert second["launches"] + second["gemms"] <= min(NETS[name][0], MOST[name])
    assert second["synchronisations"] == second["copies_to_host"] == 1  # the scores
    assert second["allocations"] == 0 < first["allocations"]
    assert second["copies_to_device"] == 2  # images and labels


@pytest.mark.few("[lenet]")
@pytest.mark.parametrize("name", ["lenet", "caffenet"])
def test_no_layer_copies_what_it_reads_or_writes(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The net's own images lie as kernels want them; what was fed is brought to that order as it is fed."""
    made: list[tuple[int, ...]] = []
    real = device.new_images

    def recorded(xp: Any, shape: tuple[int, ...], dtype: Any) -> ops.Array:
        made.append(shape)
        return real(xp, shape, dtype)

    monkeypatch.setattr(device, "new_images", recorded)
    counts = list(steps(name, NETS[name][1], tmp_path, ops.get_backend("cupy")))
    assert made == []
    assert counts[-1]["copies_on_device"] == 0


def test_rows_that_were_read_ahead_lie_where_the_device_copies_by_itself(tmp_path: Path) -> None:
    import cupy

    backend = ops.get_backend("cupy")
    images = np.random.default_rng(1).standard_normal((2, 3, 4, 5), np.float32)
    staged = backend.staged(images)
    assert cupy.cuda.runtime.pointerGetAttributes(staged.ctypes.data).type == 1  # cudaMemoryTypeHost
    given = backend.fed(staged, np.float32)
    assert given.strides == backend.empty(images.shape).strides
    np.testing.assert_array_equal(backend.to_host(given), images)


@pytest.mark.parametrize(("precision", "kind"), [("full", 68), ("tf32", 77), ("bf16", 75)])
def test_the_precision_says_how_cublas_multiplies(precision: str, kind: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The numbers are those of cublasComputeType_t: CUBLAS_COMPUTE_32F, 32F_FAST_TF32, 32F_FAST_16BF."""
    backend = ops.get_backend("cupy", precision=precision)
    real, kinds = backend.product._gemm, list[int]()

    def gemm(*arguments: Any) -> None:
        kinds.append(arguments[-2])
        real(*arguments)

    monkeypatch.setattr(backend.product, "_gemm", gemm)
    x, w = (np.random.default_rng(1).random(shape, np.float32) for shape in ((6, 8), (5, 8)))
    y = backend.to_host(backend.dense_forward(backend.asarray(x), backend.asarray(w), None))
    assert kinds == [kind]
    np.testing.assert_allclose(y, x @ w.T, rtol=1e-5)
