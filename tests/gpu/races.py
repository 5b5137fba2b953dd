"""`python -m tests.gpu.races NAME`, on the stand-in: a piece of work in its right form and with a
planted mistake, in the order of the calls and in eleven drawn orders.

Prints a JSON object: the seeds with which each form gave a wrong result.
"""

from __future__ import annotations

import ctypes
import json
import sys
from collections.abc import Callable
from typing import Any

import cupy
import fake_cuda
import numpy as np

SEEDS = range(12)
N = 1000
PIECES: dict[str, Callable[[bool], bool]] = {}
scale = cupy.RawKernel(
    'extern "C" __global__ void scale(const float* x, float* y, float by, int n) '
    "{ for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] = by * x[i]; }",
    "scale",
)


def piece(work: Callable[[bool], bool]) -> Callable[[bool], bool]:
    """Decorator: `work(planted)` returns whether its result is right."""
    PIECES[work.__name__] = work
    return work


def stream() -> Any:
    return cupy.cuda.Stream(non_blocking=True)


def filled(value: float) -> Any:
    """A device array that is complete."""
    x = cupy.full(N, value, np.float32)
    cupy.cuda.Device().synchronize()
    return x


def pinned(value: float) -> Any:
    """An array in page-locked memory."""
    block = cupy.cuda.alloc_pinned_memory(4 * N)
    x = np.frombuffer(block, np.float32, N)
    x[...] = value
    return x


def scaled(x: Any, y: Any, by: float) -> None:
    """Queue y = by * x in the current stream."""
    scale((1,), (32,), (x, y, np.float32(by), np.int32(N)))


@piece
def a_result_is_read_before_its_copy_has_ended(planted: bool) -> bool:
    x, host = filled(7), pinned(0)
    one = stream()
    x.get(stream=one, out=host, blocking=False)
    if not planted:
        one.synchronize()
    found = host.copy()
    one.synchronize()
    return bool((found == 7).all())


@piece
def a_batch_is_overwritten_before_the_device_has_read_it(planted: bool) -> bool:
    x, host = filled(0), pinned(1)
    one = stream()
    x.data.copy_from_host_async(host.ctypes.data, host.nbytes, one)
    if not planted:
        one.synchronize()
    host[...] = 2
    one.synchronize()
    return bool((x.get() == 1).all())


@piece
def a_stream_does_not_wait_for_the_one_that_computes(planted: bool) -> bool:
    x, y, z = filled(1), filled(0), filled(0)
    first, second = stream(), stream()
    with first:
        scaled(x, y, 2)
        done = first.record()
    with second:
        if not planted:
            second.wait_event(done)
        scaled(y, z, 3)
    cupy.cuda.Device().synchronize()
    return bool((z.get() == 6).all())


@piece
def a_result_is_copied_in_another_stream(planted: bool) -> bool:
    x, y, host = filled(1), filled(0), pinned(0)
    compute, copies = stream(), stream()
    with compute:
        scaled(x, y, 4)
    one = copies if planted else compute
    y.get(stream=one, out=host, blocking=False)
    one.synchronize()
    return bool((host == 4).all())


@piece
def an_input_is_overwritten_while_another_stream_reads_it(planted: bool) -> bool:
    x, y, other = filled(1), filled(0), filled(9)
    reads, writes = stream(), stream()
    with reads:
        scaled(x, y, 1)
        done = reads.record()
    with writes:
        if not planted:
            writes.wait_event(done)
        scaled(other, x, 1)
    cupy.cuda.Device().synchronize()
    return bool((y.get() == 1).all())


@piece
def an_array_is_freed_while_another_stream_copies_it(planted: bool) -> bool:
    """CuPy's pool gives the address to the next array of the stream that allocates."""
    compute, copies = stream(), stream()
    host = pinned(0)
    with compute:
        x = cupy.full(N, 5, np.float32)
        ready = compute.record()
        copies.wait_event(ready)
        x.get(stream=copies, out=host, blocking=False)
        address, kept = x.data.ptr, x
        del x
        if planted:
            del kept
        other = cupy.full(N, 6, np.float32)
        assert (other.data.ptr == address) == planted
    copies.synchronize()
    compute.synchronize()
    return bool((host == 5).all())


@piece
def a_number_is_fixed_in_a_graph(planted: bool) -> bool:
    x, y, rate = filled(1), filled(0), filled(2)
    one, number = stream(), 2.0
    with one:
        one.begin_capture()
        if planted:
            scaled(x, y, number)
        else:
            cupy.multiply(x, rate, out=y)
        graph = one.end_capture()
        graph.launch(one)
        number = 3.0
        rate.fill(number)
        graph.launch(one)
    one.synchronize()
    return bool((y.get() == 3).all())


@piece
def a_graph_writes_to_an_array_that_was_freed(planted: bool) -> bool:
    x = filled(1)
    one = stream()
    with one:
        y = cupy.empty(N, np.float32)
        address = y.data.ptr
        one.begin_capture()
        scaled(x, y, 2)
        graph = one.end_capture()
        kept = y
        del y
        if planted:
            del kept
        other = cupy.full(N, 8, np.float32)
        assert (other.data.ptr == address) == planted
        graph.launch(one)
    one.synchronize()
    return bool((other.get() == 8).all())


@piece
def an_argument_changes_after_the_launch(planted: bool) -> bool:
    """The driver copies arguments at the call, so this is no mistake. The planted form changes a
    number that lies in the device's memory."""
    x, y, rate = filled(1), filled(0), pinned(2)
    one, device_rate = stream(), filled(0)
    with one:
        if planted:
            device_rate.data.copy_from_host_async(rate.ctypes.data, rate.nbytes, one)
            cupy.multiply(x, device_rate, out=y)
            rate[...] = 4
        else:
            values = [ctypes.c_void_p(x.data.ptr), ctypes.c_void_p(y.data.ptr)]
            values += [ctypes.c_float(2), ctypes.c_int(N)]
            places = (ctypes.c_void_p * 4)(*[ctypes.addressof(value) for value in values])
            shape = 1, 1, 1, 32, 1, 1, 0
            kernel = scale.kernel.ptr
            cupy.cuda.driver.launchKernel(kernel, *shape, one.ptr, ctypes.addressof(places), 0)
            values[2].value = 4
    one.synchronize()
    return bool((y.get() == 2).all())


@piece
def the_default_stream_is_taken_to_wait(planted: bool) -> bool:
    """The default stream waits for all streams but those that were made not to block."""
    x, y, z = filled(1), filled(0), filled(0)
    one = cupy.cuda.Stream(non_blocking=planted)
    with one:
        scaled(x, y, 2)
    scaled(y, z, 3)
    cupy.cuda.Stream.null.synchronize()
    one.synchronize()
    return bool((z.get() == 6).all())


def main(name: str) -> None:
    """Print the seeds with which the piece and its planted form were wrong."""
    wrong: dict[str, list[int]] = {"right": [], "planted": []}
    for planted in (False, True):
        for seed in SEEDS:
            fake_cuda.seed(seed)
            if not PIECES[name](planted):
                wrong["planted" if planted else "right"].append(seed)
    print(json.dumps(wrong))


if __name__ == "__main__":
    main(sys.argv[1])
