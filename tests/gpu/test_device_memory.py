"""Arrays in memory of a device that two processes share, on the stand-in, which runs work only when
something waits for it: the reader waits for the writer's event, blocks return when the device has
read them, and each planted mistake gives wrong numbers or a report."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.fake_cuda.processes import TIMEOUT, on_fake_cuda
from tests.helpers.support import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

BEGIN = """
import json, os, select, subprocess, sys, threading
import cupy, fake_cuda, numpy
from ops import get_backend
from runtime.device_place import DevicePlace
from runtime.memory.arena import Arena
from runtime.memory.device_arena import DeviceArena, DeviceWindow
backend = get_backend("cupy")
memory = backend.peer_memory()
kernel = cupy.RawKernel('''extern "C" __global__ void add(float* x, float by) { x[threadIdx.x] += by; }''', "add")
def add(x, by):
    kernel((1,), (x.size,), (x, numpy.float32(by)))
def say(file, *words):
    print(json.dumps(words), file=file, flush=True)
def hear(file):
    line = file.readline()
    assert line, "the other process has ended"
    return json.loads(line)
"""

WRITER = """
host, arena = Arena("test"), DeviceArena()
backend.memory = lambda size: host.empty((size,), numpy.uint8)
assert arena.begin(memory)
backend.device_memory = arena.empty
other = subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
def share(value):
    x = cupy.zeros(8, "f")
    for _ in range(value):
        add(x, 1)
    found = backend.to_share(x)
    arena.lend(found.place[0], "reader")
    return found
handles = [[handle.hex() for handle in of] for of in (arena.handles, arena.events)]
say(other.stdin, *handles, arena.sizes)
first = share(40)
offset = first.place[0]
say(other.stdin, first.place)
del first
assert arena.used == 512
(returned,) = hear(other.stdout)
assert returned == offset
arena.returned("reader", returned)
assert arena.used == 0
second = share(7)
assert second.place[0] == offset  # the block is used again
cupy.cuda.Device().synchronize()
say(other.stdin, second.place)
if sys.argv[2] == "dies":
    sys.exit()
assert other.wait() == 0
arena.forget("reader")
del second
assert arena.used == 0
"""

READER = """
def mapped():
    with open("/proc/self/maps") as maps:
        return sum("fake_cuda memory" in line for line in maps)
if PLANTED == "no wait":
    memory.wait = lambda event: None
if PLANTED == "too early":
    memory.when_done = lambda call: call()
handles, events, sizes = hear(sys.stdin)
own = cupy.zeros(8, "f")
before = mapped()
returned = []
def returns(offset):
    if not returned:
        say(sys.stdout, offset)
    returned.append(offset)
window = DeviceWindow(memory, returns)
window.open([bytes.fromhex(one) for one in handles], sizes, [bytes.fromhex(one) for one in events])
assert mapped() == before + 1
def array():
    offset, event = hear(sys.stdin)[0]
    return window.array(DevicePlace(offset, 32, event, (8,), numpy.dtype("f"), (4,)))
x = array()
y = x + 1  # queued
del x
second = array()  # the other process has written over the block
assert (y.get() == 41).all(), y
if PLANTED == "outlives":
    select.select([os.pidfd_open(os.getppid())], [], [])  # until the other process has ended
assert ((second + 1).get() == 8).all(), second
del second, window
closed = threading.Event()
memory.when_done(closed.set)
assert closed.wait(60)
assert mapped() == before, mapped()
"""


def pair(stand_in: Path, planted: str = "") -> subprocess.CompletedProcess[str]:
    """Run the process that writes; it starts the one that reads."""
    reads = f"PLANTED = {planted!r}\n" + BEGIN + READER
    ends = "dies" if planted == "outlives" else "stays"
    return subprocess.run(
        [sys.executable, "-c", BEGIN + WRITER, reads, ends],
        cwd=ROOT,
        env=on_fake_cuda(stand_in),
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )


def test_a_block_is_read_in_place_returns_once_it_was_read_and_is_used_again(
    stand_in: Path,
) -> None:
    done = pair(stand_in)
    assert done.returncode == 0, done.stderr


def test_a_reader_that_does_not_wait_for_the_event_reads_too_early(stand_in: Path) -> None:
    done = pair(stand_in, "no wait")
    assert done.returncode != 0 and "[nan nan nan" in done.stderr, done.stderr


def test_a_block_that_returns_before_it_was_read_is_written_over(stand_in: Path) -> None:
    done = pair(stand_in, "too early")
    assert done.returncode != 0 and "[8. 8. 8." in done.stderr, done.stderr


def test_a_reader_that_outlives_the_writer_gets_an_error_and_no_wrong_numbers(
    stand_in: Path,
) -> None:
    done = pair(stand_in, "outlives")
    assert "whose process has ended" in done.stderr, done.stderr
    assert "cudaErrorIllegalAddress" in done.stderr, done.stderr
