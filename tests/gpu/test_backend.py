"""Requests of the CuPy backend that only real CuPy can serve: page-locked memory and cuBLAS's
precision."""

from __future__ import annotations

from pathlib import Path

import pytest

from ops.cuda.copies.transfers import rounded
from tests.fake_cuda.processes import on_fake_cuda, script

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

READ_AHEAD = """
import cupy, numpy, threading
from ops import get_backend
backend, made = get_backend("cupy", device=1), []
images = numpy.random.default_rng(1).standard_normal((2, 3, 4, 5), numpy.float32)
thread = threading.Thread(target=lambda: made.append(backend.staged(images)))  # has no device
thread.start(), thread.join()
(staged,) = made
assert cupy.cuda.runtime.pointerGetAttributes(staged.ctypes.data).type == 1  # cudaMemoryTypeHost
given = backend.fed(staged, numpy.float32)
assert int(given.device) == 1
assert given.strides == backend.empty(images.shape).strides
numpy.testing.assert_array_equal(backend.to_host(given), images)
# batches that are read ahead while kernels compute on earlier ones, in memory that is used again
batches = [numpy.full((2, 3, 4, 5), at, "f") for at in range(12)]
ahead, sums, held = [], [], backend.empty(images.shape)
def stage(batch):
    thread = threading.Thread(target=lambda: ahead.append(backend.staged(batch)))
    thread.start(), thread.join()
stage(batches[0])
for batch in batches[1:] + batches[:1]:
    stage(batch)
    now = ahead.pop(0)
    if len(sums) % 2:
        backend.refill(held, now)
    given = held if len(sums) % 2 else backend.fed(now, numpy.float32)
    sums.append(given + given)
    del given, now
for batch, found in zip(batches, sums):
    numpy.testing.assert_array_equal(backend.to_host(found), 2 * batch)
"""


def test_rows_that_were_read_ahead_are_in_page_locked_memory(stand_in: Path) -> None:
    done = script(READ_AHEAD, on_fake_cuda(stand_in, devices=2))
    assert done.returncode == 0, done.stderr


CHANGED = """
import fake_cuda, numpy
from nets.data import Augment, Batches, MemorySource, Transform
from ops import get_backend
from roles.learning.readers import reader_of
rng = numpy.random.default_rng(4)
augment = Augment(pad=2, flip="random", erase=0.6)
cases = {
    3: Transform(crop=10, mean=(104, 117, 123), deviation=(58.0,), mirror=True, augment=augment),
    1: Transform(crop=9, mean_image=rng.uniform(0, 255, (1, 12, 15)).astype("f"), mirror=True),
}
backend = get_backend("cupy")
for seed in range(4):
  for channels, transform in cases.items():
    images = rng.integers(0, 256, (40, channels, 12, 15), dtype="u1")
    source = MemorySource("images", images, numpy.arange(40), 40)
    read = Batches(source, transform, 8, shuffle=True, seed=6, train=True)
    fake_cuda.seed(seed)
    with reader_of(read, backend, None, on_gpu=True) as reader:
        reader.request(0, 8), reader.request(8, 16)
        found = []
        for low in range(0, 80, 8):
            given, labels, = reader.get(low, low + 8)
            reader.request(low + 16, low + 24)
            assert backend.fed(given, numpy.float32) is given  # as kernels read them
            found.append((given + 0, labels))
        for at, (given, labels) in enumerate(found):
            expected, known = read.samples(8 * at, 8 * at + 8)
            assert abs(backend.to_host(given) - expected).max() * 58 < 1e-3  # levels of 256
            assert (labels == known).all()
"""


def test_images_that_the_device_transforms_are_those_of_the_host(stand_in: Path) -> None:
    done = script(CHANGED, on_fake_cuda(stand_in))
    assert done.returncode == 0, done.stderr


UNLOCKED = """
import logging, numpy
from ops import get_backend
logging.basicConfig()
backend, images = get_backend("cupy"), numpy.ones((2, 3, 4, 5), "f")
staged = backend.staged(images)
assert staged is images
numpy.testing.assert_array_equal(backend.to_host(backend.fed(staged, numpy.float32)), images)
"""


def test_without_page_locked_memory_rows_are_fed_as_they_are_and_that_is_logged(
    stand_in: Path,
) -> None:
    done = script(UNLOCKED, on_fake_cuda(stand_in, pinned_gb=0))
    assert done.returncode == 0 and "no page-locked memory for " in done.stderr, done.stderr


@pytest.mark.parametrize("size", [1, 512, 513, 4096, 5000, 77_070_336, 2**31 + 1])
def test_page_locked_memory_is_asked_for_in_few_sizes_with_a_quarter_more_at_most(
    size: int,
) -> None:
    given = rounded(size)
    assert size <= given <= max(size + 511, size * 1.25)
    assert len({rounded(more) for more in range(1 << 16, 1 << 17, 100)}) <= 5


KINDS = """
import numpy
from ops import ConvGeometry, get_backend
KINDS = {"full": (68, 68), "fast": (68, 77), "tf32": (77, 77), "bf16": (75, 75)}
for precision, (kind, of_convolutions) in KINDS.items():
    backend = get_backend("cupy", precision=precision)
    real, kinds = backend.product._gemm, []
    for product in (backend.product, backend.conv_product):
        product._gemm = lambda *arguments: (kinds.append(arguments[-2]), real(*arguments))
    x, w = (numpy.random.default_rng(1).random(shape, numpy.float32) for shape in ((6, 8), (5, 8)))
    y = backend.to_host(backend.dense_forward(backend.asarray(x), backend.asarray(w), None))
    assert kinds == [kind], (precision, kinds)
    numpy.testing.assert_allclose(y, x @ w.T, rtol=1e-5)
    x, w = backend.xp.ones((1, 2, 3, 3), "f"), backend.xp.ones((2, 2, 1, 1), "f")
    backend.conv_forward(x, w, None, ConvGeometry((1, 1)))
    assert kinds == [kind, of_convolutions], (precision, kinds)
"""


def test_the_precision_sets_how_cublas_multiplies(stand_in: Path) -> None:
    """The numbers are values of cublasComputeType_t: CUBLAS_COMPUTE_32F, 32F_FAST_TF32,
    32F_FAST_16BF."""
    done = script(KINDS, on_fake_cuda(stand_in))
    assert done.returncode == 0, done.stderr
