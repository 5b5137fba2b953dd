"""The stand-in itself: its counts, its refusals, and a failing test for each mistake that it must
find."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.fake_cuda.processes import on_fake_cuda, sanitized, script

# the first of these tests builds the stand-in
pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

BESIDE_NUMPY = """
import cupy, numpy
random = numpy.random.default_rng(0)
a, b = (random.standard_normal(shape).astype("f") for shape in ((5, 70), (70, 3)))
def results(xp, a, b):
    a, b = xp.asarray(a), xp.asarray(b)
    yield xp.tanh(xp.log1p(xp.exp(a)))
    yield a[:, None, :] - a[None]
    yield a.sum(axis=0), a.var(axis=1), a.max(axis=1), a.argmax(axis=1)
    yield a @ b, (b.T.astype("d") @ a.T.astype("d"))
    yield xp.where(a > 0, a, xp.clip(a, -0.5, 0)), a[xp.asarray([3, 0, 3])], xp.cumsum(a[0])
    yield xp.lib.stride_tricks.as_strided(a, (30, 3), (a.strides[1] * 2, a.strides[1])).sum(axis=1)
    yield xp.sort(a[0])[xp.argsort(a[0])], xp.flatnonzero(a > 0), (xp.arange(100) ** 3 % 17 ^ 5) >> 1
for got, expected in zip(results(cupy, a, b), results(numpy, a, b), strict=True):
    pairs = zip(got, expected, strict=True) if type(got) is tuple else [(got, expected)]
    for one, other in pairs:
        numpy.testing.assert_allclose(cupy.asnumpy(one), other, rtol=1e-5, atol=1e-5)
        assert one.dtype == other.dtype
SUMS = cupy.RawKernel('''extern "C" __global__ void sums(const float* x, float* y, unsigned* votes) {
    __shared__ float part[2];
    float sum = x[threadIdx.x];
    for (int by = 16; by; by /= 2) sum += __shfl_down_sync(0xffffffffu, sum, by);
    unsigned above = __ballot_sync(0xffffffffu, x[threadIdx.x] > 0);
    if (threadIdx.x % 32 == 0) { part[threadIdx.x / 32] = sum; votes[threadIdx.x / 32] = above; }
    __syncthreads();
    if (threadIdx.x == 0) y[0] = part[0] + part[1];
}''', "sums")
x, y, votes = cupy.asarray(a[0, :64]), cupy.empty(1, "f"), cupy.empty(2, "u4")
SUMS((1,), (64,), (x, y, votes))
numpy.testing.assert_allclose(y.get()[0], a[0, :64].sum(), rtol=1e-5)
bits = numpy.packbits(a[0, :64] > 0, bitorder="little").view("u4")
assert (votes.get() == bits).all()
"""


def test_cupy_on_it_gives_the_results_of_numpy(stand_in: Path) -> None:
    done = script(BESIDE_NUMPY, on_fake_cuda(stand_in))
    assert done.returncode == 0, done.stderr


COUNTED = """
import json, cupy, numpy, fake_cuda
x = cupy.asarray(numpy.ones(1000, "f"))
def work():
    y = x * 3
    y += x
    cupy.asnumpy(y)
work()
print(json.dumps(fake_cuda.counted(work)))
"""


def test_it_counts_the_operations_of_a_piece_of_work(stand_in: Path) -> None:
    done = script(COUNTED, on_fake_cuda(stand_in))
    expected = {"launches": 2, "copies_to_host": 1, "bytes_to_host": 4000, "synchronisations": 1}
    assert json.loads(done.stdout) == expected, done.stderr


REFUSED = {
    "memory that was not written is full of NaN": (
        "assert cupy.isnan(cupy.empty(10, 'f')).all(); raise SystemExit('as it should')",
        "as it should",
    ),
    "a copy with ends in other memory is refused": (
        "from cupy.cuda import runtime as rt; a, b = cupy.empty(1), cupy.empty(1); "
        "rt.memcpy(a.data.ptr, b.data.ptr, 8, rt.memcpyHostToDevice)",
        "its source is memory of a device",
    ),
    "a product of two devices' memory is refused": (
        "import cupy.cublas; a = cupy.ones((2, 2), 'f'); out = a.copy(); "
        "cupy.cuda.runtime.setDevice(1); "
        "cupy.cublas.gemm('N', 'N', a, a, out)",
        "not memory of device 1",
    ),
    "threads at different barriers are reported": (
        'text = \'extern "C" __global__ void k() { if (threadIdx.x) __syncthreads(); else '
        "__syncwarp(3); }'; "
        "cupy.RawKernel(text, 'k')((1,), (2,), ()); cupy.cuda.Device().synchronize()",
        "threads of a block wait at different barriers",
    ),
    "an allocation beyond its memory is refused": (
        "cupy.empty(1 << 28, 'f')",
        "OutOfMemoryError: Out of memory allocating",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_it_is_strict(case: str, stand_in: Path) -> None:
    code, told = REFUSED[case]
    done = script(f"import cupy\n{code}", on_fake_cuda(stand_in, devices=2, memory_gb=0.5))
    assert done.returncode != 0 and told in done.stderr, done.stderr


OVERRUN = """
import sys, numpy
import fake_cuda.unpooled
from ops import ConvGeometry, get_backend
from ops.cuda import kernels
text = kernels.PRELUDE
changed = text.replace("i < (count)", "i < (count) + 1") if "planted" in sys.argv else text
assert (changed != text) == ("planted" in sys.argv)
kernels.PRELUDE = changed
ops = get_backend("cupy")
random = numpy.random.default_rng(0)
x, w = (ops.asarray(random.standard_normal(shape).astype("f")) for shape in ((2, 3, 6, 6), (4, 3, 3, 3)))
print(ops.to_host(ops.conv_forward(x, w, None, ConvGeometry((3, 3)))).shape)
"""


@pytest.mark.parametrize("planted", [False, True])
def test_a_kernel_of_ours_that_writes_behind_its_array_ends_the_process(
    planted: bool, stand_in: Path
) -> None:
    done = script(OVERRUN, sanitized(on_fake_cuda(stand_in)), *["planted"] * planted)
    assert (done.returncode != 0) == planted, done.stderr
    assert ("heap-buffer-overflow" in done.stderr) == planted, done.stderr


FORKS = """
import os, sys, cupy
if sys.argv[1] == "before":
    cupy.cuda.runtime.getDeviceCount()
child = os.fork()
if not child:
    try:
        print(int(cupy.arange(3).sum()), flush=True)
    except Exception as error:
        print(type(error).__name__, error, flush=True)
    os._exit(0)
os.waitpid(child, 0)
if sys.argv[1] == "after":
    print(int(cupy.arange(4).sum()))
"""


def test_cuda_in_a_child_of_a_process_that_has_started_it_is_refused_and_reported(
    stand_in: Path,
) -> None:
    done = script(FORKS, on_fake_cuda(stand_in), "before")
    assert "cudaErrorInitializationError" in done.stdout, done.stdout
    assert "forks after it has started the driver" in done.stderr
    assert "which had started the driver" in done.stderr


def test_each_process_may_start_cuda_after_the_fork(stand_in: Path) -> None:
    done = script(FORKS, on_fake_cuda(stand_in), "after")
    assert done.stdout.split() == ["3", "6"] and not done.stderr, done.stderr
