"""Memory and events that two processes share through handles of CUDA IPC, on the stand-in."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.fake_cuda.processes import TIMEOUT, on_fake_cuda
from tests.helpers.support import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

# The process that exports. It starts the other one, with pipes for handles and for words.
BEGIN = """
import subprocess, sys
import cupy, numpy
from cupy.cuda import runtime as rt
def refused(number, call, *arguments):
    try:
        call(*arguments)
    except rt.CUDARuntimeError as error:
        assert error.status == number, error
    else:
        raise AssertionError(number)
def put(file, *words):
    print(*[word.hex() if isinstance(word, bytes) else word for word in words], file=file, flush=True)
kernel = cupy.RawKernel('''extern "C" __global__ void add(float* x, float by) { x[threadIdx.x] += by; }''', "add")
def add(x, by):
    kernel((1,), (x.size,), (x, numpy.float32(by)))
def array(p):
    memory = cupy.cuda.UnownedMemory(p, 4096, None)
    return cupy.ndarray((8,), "f", memptr=cupy.cuda.MemoryPointer(memory, 0))
"""

EXPORT = """
memory = cupy.cuda.Memory(4096)
rest = cupy.cuda.Memory(4096)  # a handle names one allocation
x = array(memory.ptr)
x.fill(1)
event = cupy.cuda.Event(disable_timing=True, interprocess=True)
stream = cupy.cuda.Stream(non_blocking=True)
cupy.cuda.Device().synchronize()
handle = rt.ipcGetMemHandle(memory.ptr)
assert handle == rt.ipcGetMemHandle(memory.ptr) != rt.ipcGetMemHandle(rest.ptr)
refused(201, rt.ipcOpenMemHandle, handle)
refused(1, rt.ipcGetMemHandle, memory.ptr + 512)
other = subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
def hear(word):
    said = other.stdout.readline().strip()
    assert said == word, (said, word)
put(other.stdin, handle, rt.ipcGetEventHandle(event.ptr))
"""

IMPORT = """
memory_handle, event_handle = (bytes.fromhex(word) for word in input().split())
p = rt.ipcOpenMemHandle(memory_handle)
assert rt.ipcOpenMemHandle(memory_handle) == p  # the same address, counted
rt.ipcCloseMemHandle(p)
x, event = array(p), rt.ipcOpenEventHandle(event_handle)
stream = cupy.cuda.Stream(non_blocking=True)
"""

WAITS = (
    """
hear("open")
with stream:
    for _ in range(20):
        add(x, 1)
    event.record()
put(other.stdin, "recorded")  # nothing waits here: the record is reached because the other process waits for it
hear("added")
event.synchronize()  # the other process recorded it again
assert (x.get() == 121).all(), x
put(other.stdin, "read")
hear("closed")
del memory, x  # freed after it was closed
assert other.wait() == 0
""",
    """
put(sys.stdout, "open")
assert input() == "recorded"
if WAITS:
    rt.streamWaitEvent(stream.ptr, event)
with stream:
    x *= 2
    assert (x.get() == 42).all(), x
    add(x, 79)
    rt.eventRecord(event, stream.ptr)
put(sys.stdout, "added")
assert input() == "read"
rt.ipcCloseMemHandle(p)
refused(1, rt.ipcCloseMemHandle, p)
put(sys.stdout, "closed")
""",
)

FREED = (
    """
hear("open")
del x, memory
put(other.stdin, "freed")
other.wait()
rt.deviceSynchronize()
""",
    """
put(sys.stdout, "open")
assert input() == "freed"
add(x, 1)
cupy.cuda.Device().synchronize()
""",
)


def pair(
    stand_in: Path, parts: tuple[str, str], *, planted: bool = False
) -> subprocess.CompletedProcess[str]:
    """Run the process that exports; it starts the one that imports."""
    exports, imports = (
        BEGIN + EXPORT + parts[0],
        f"WAITS = {not planted}\n" + BEGIN + IMPORT + parts[1],
    )
    return subprocess.run(
        [sys.executable, "-c", exports, imports],
        cwd=ROOT,
        env=on_fake_cuda(stand_in),
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )


def test_two_processes_take_turns_with_one_block_of_memory_by_an_event(stand_in: Path) -> None:
    done = pair(stand_in, WAITS)
    assert done.returncode == 0, done.stderr


def test_without_a_wait_for_the_event_the_other_process_reads_too_early(stand_in: Path) -> None:
    done = pair(stand_in, WAITS, planted=True)
    assert done.returncode != 0 and "[2. 2. 2." in done.stderr, done.stderr


def test_memory_that_is_freed_while_another_process_has_it_open_is_reported_by_both(
    stand_in: Path,
) -> None:
    done = pair(stand_in, FREED)
    assert done.returncode != 0
    assert "is freed while process" in done.stderr, done.stderr
    assert "which the process that exports it has freed" in done.stderr, done.stderr
    assert done.stderr.count("cudaErrorIllegalAddress") >= 2, done.stderr
