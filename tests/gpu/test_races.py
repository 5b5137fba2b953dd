"""Mistakes in the order of work on a device: the stand-in queues work, and runs it in drawn orders."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.fake_cuda.processes import command, on_fake_cuda, script

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

# Mistakes that show in the order of the calls are wrong with every seed, or nearly: a seeded run
# may start work at once. The others need a drawn order.
IN_ORDER = {
    "a_result_is_read_before_its_copy_has_ended",
    "a_batch_is_overwritten_before_the_device_has_read_it",
    "a_number_is_fixed_in_a_graph",
    "a_graph_writes_to_an_array_that_was_freed",
    "an_argument_changes_after_the_launch",
}
DRAWN = {
    "a_stream_does_not_wait_for_the_one_that_computes",
    "a_result_is_copied_in_another_stream",
    "an_input_is_overwritten_while_another_stream_reads_it",
    "an_array_is_freed_while_another_stream_copies_it",
    "the_default_stream_is_taken_to_wait",
}


@pytest.mark.parametrize("name", sorted(IN_ORDER | DRAWN))
def test_a_planted_mistake_gives_a_wrong_result_and_the_right_form_none(
    name: str, stand_in: Path
) -> None:
    done = command(["-m", "tests.gpu.races", name], on_fake_cuda(stand_in))
    assert done.returncode == 0, done.stderr
    wrong = json.loads(done.stdout)
    assert wrong["right"] == []
    assert (0 in wrong["planted"]) == (name in IN_ORDER)
    assert len(wrong["planted"]) >= 3, wrong


BEGIN = """
import cupy, fake_cuda, numpy
from cupy.cuda import runtime as rt
scale = cupy.RawKernel('''extern "C" __global__ void scale(float* x, float by) { x[threadIdx.x] *= by; }''', "scale")
def scaled(x, by):
    scale((1,), (x.size,), (x, numpy.float32(by)))
def refused(number, call, *arguments):
    try:
        call(*arguments)
    except (rt.CUDARuntimeError, cupy.cuda.driver.CUDADriverError) as error:
        assert error.status == number, error
    else:
        raise AssertionError(number)
"""

REPORTED = {
    "the address of freed memory as an argument": (
        "x = cupy.ones(8, 'f'); y = x.view(); cupy.cuda.Device().synchronize()\n"
        "rt.free(x.data.mem.ptr)\n"
        "scaled(y, 2)",
        "the kernel scale gets the address",
    ),
    "a graph that uses freed memory": (
        "one = cupy.cuda.Stream(non_blocking=True); x = cupy.ones(8, 'f')\n"
        "with one:\n"
        "    one.begin_capture(); scaled(x, 2); graph = one.end_capture()\n"
        "del x; cupy.get_default_memory_pool().free_all_blocks()\n"
        "graph.launch(one)",
        "a graph is launched, but its node (the kernel scale) uses memory at",
    ),
    "page-locked memory that is given up during a copy": (
        "host = numpy.zeros(1024, 'f'); x = cupy.ones(1024, 'f')\n"
        "rt.hostRegister(host.ctypes.data, host.nbytes, 0)\n"
        "x.get(out=host, blocking=False)\n"
        "rt.hostUnregister(host.ctypes.data)",
        "is unregistered while copies to or from it are queued",
    ),
    "memory that is written after it was freed": (
        "import ctypes\np = rt.malloc(4096); rt.free(p); ctypes.memset(p, 0, 8); rt.malloc(4096)",
        "was written after it was freed",
    ),
}


@pytest.mark.parametrize("case", REPORTED)
def test_a_use_of_memory_that_a_gpu_would_not_notice_is_reported_and_ends_in_an_error(
    case: str, stand_in: Path
) -> None:
    code, told = REPORTED[case]
    done = script(BEGIN + code, on_fake_cuda(stand_in))
    assert done.returncode != 0 and told in done.stderr, done.stderr
    assert "cudaErrorIllegalAddress" in done.stderr, done.stderr


PAGEABLE = """
# the bytes are taken at the call
x, host = cupy.zeros(1000, "f"), numpy.ones(1000, "f")
rt.memcpyAsync(x.data.ptr, host.ctypes.data, host.nbytes, rt.memcpyHostToDevice, 0)
host[...] = 2
assert (x.get() == 1).all()
# to pageable memory a copy is done when the call returns
rt.memcpyAsync(host.ctypes.data, x.data.ptr, host.nbytes, rt.memcpyDeviceToHost, 0)
assert (host == 1).all()
# a copy on the device waits for nothing
y = cupy.zeros(1000, "f")
cupy.cuda.Device().synchronize()
rt.memcpy(y.data.ptr, x.data.ptr, x.nbytes, rt.memcpyDeviceToDevice)
assert rt.streamQuery(0) == 600  # cudaErrorNotReady
cupy.cuda.Stream.null.synchronize()
# registered memory is copied in the order of the stream, from and to it
rt.hostRegister(host.ctypes.data, host.nbytes, 0)
refused(712, rt.hostRegister, host.ctypes.data + 16, 64, 0)
host[...] = 3
rt.memcpyAsync(x.data.ptr, host.ctypes.data, host.nbytes, rt.memcpyHostToDevice, 0)
host[...] = 4
assert (x.get() == 4).all()
rt.memcpyAsync(host.ctypes.data, y.data.ptr, host.nbytes, rt.memcpyDeviceToHost, 0)
assert (host == 4).all()
cupy.cuda.Stream.null.synchronize()
assert (host == 1).all()
rt.hostUnregister(host.ctypes.data)
refused(713, rt.hostUnregister, host.ctypes.data)
"""


def test_copies_wait_where_cudas_documentation_says_so(stand_in: Path) -> None:
    done = script(BEGIN + PAGEABLE, on_fake_cuda(stand_in))
    assert done.returncode == 0, done.stderr


EVENTS = """
x, one, other = cupy.ones(8, "f"), cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream()
start, end = cupy.cuda.Event(), cupy.cuda.Event()
cupy.cuda.Device().synchronize()
with one:
    start.record()
    for _ in range(100):
        scaled(x, 1.01)
    end.record()
assert not end.done  # nothing waits yet
refused(600, cupy.cuda.get_elapsed_time, start, end)
questions = 0
while not end.done:  # after each question a few operations run
    questions += 1
assert 1 < questions < 100 and cupy.cuda.get_elapsed_time(start, end) > 0
with other:
    scaled(x, 2)
with cupy.cuda.Stream.null:
    done = cupy.cuda.Event(); done.record()  # behind all blocking streams
done.synchronize()
assert other.done
for _ in range(3000):  # more than a queue holds
    scaled(x, 1)
with one:
    scaled(x, 1)
    kept = one.record()
del one  # queued work of a destroyed stream still runs
kept.synchronize()
cupy.cuda.Device().synchronize()
"""


@pytest.mark.parametrize("seed", [0, 1])
def test_events_are_done_when_the_work_before_them_is(seed: int, stand_in: Path) -> None:
    code = EVENTS
    if seed:  # a device that starts work at once
        code = (
            code.replace("assert not end.done", "#")
            .replace("refused(600", "#(")
            .replace("1 < ", "")
        )
    done = script(BEGIN + code, on_fake_cuda(stand_in, seed=seed))
    assert done.returncode == 0, done.stderr
