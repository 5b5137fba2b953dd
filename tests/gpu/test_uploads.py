"""Uploads of images on real CuPy, with the stand-in for CUDA: they run ahead of kernels, in bounded
memory, from several threads."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fake_cuda.processes import on_fake_cuda, script

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

BEGIN = """
import ctypes, cupy, fake_cuda, numpy, sys, threading, time
from ops import get_backend
backend = get_backend("cupy")
def batch(at):
    return numpy.full((2, 3, 4, 5), at, "f")
def now(array):  # the numbers in the device's memory at this moment
    kind = ctypes.c_float * array.size
    return numpy.array(kind.from_address(array.data.ptr)).reshape(array.shape)
def check(given, at):
    assert (backend.to_host(given) == at).all(), at
"""

AHEAD = """
before = 0
for seed in range(1, 25):
    fake_cuda.seed(seed)
    x = backend.asarray(numpy.ones(1000, "f"))
    backend.synchronize()
    first = backend.fed(backend.staged(batch(seed)), numpy.float32)
    x *= numpy.float32(3)  # queued: the kernels of this batch
    ahead = [backend.staged(batch(seed + more)) for more in (100, 200)]
    for staged, more in zip(ahead, (100, 200)):
        staged.upload.room.copied.synchronize()
        assert (now(staged.upload.array) == seed + more).all()
    before += bool((now(x) == 1).all())
    given = [backend.fed(staged, numpy.float32) for staged in ahead]
    backend.synchronize()
    assert (now(x) == 3).all()
    for found, more in zip([first, *given], (0, 100, 200)):
        check(found, seed + more)
assert before >= 3, before
"""

ROOMS = """
pool = cupy.get_default_memory_pool()
staged = [backend.staged(batch(at)) for at in range(5)]
held = pool.used_bytes()
assert [one.upload is None for one in staged] == [False] * 3 + [True] * 2
for at, one in enumerate(staged):
    check(backend.fed(one, numpy.float32), at)
ahead = []
for at in range(20):
    ahead.append(backend.staged(batch(at)))
    if len(ahead) == 3:
        assert all(one.upload for one in ahead)
        check(backend.fed(ahead.pop(0), numpy.float32), at - 2)
    assert pool.used_bytes() == held
del staged, ahead, one  # two were never fed: their rooms are free again
staged = [backend.staged(numpy.full((3, 3, 4, 5), at, "f")) for at in range(3)]  # larger
for at, one in enumerate(staged):
    assert one.upload
    check(backend.fed(one, numpy.float32), at)
"""

# Another thread may run between any two steps of Python in uploads.py. Work that the device has not
# done yet keeps events and rooms in use.
THREADS = """
def steps(frame, event, argument):
    frame.f_trace_opcodes = True
    time.sleep(0)
    return steps
def trace(frame, event, argument):
    return steps if frame.f_code.co_filename.endswith("uploads.py") else None
together, failed = threading.Barrier(2, timeout=60), []
ahead, x = [backend.staged(batch(0)), backend.staged(batch(1))], backend.asarray(numpy.ones(9, "f"))
def read():
    try:
        for at in range(2, COUNT):
            together.wait()
            ahead.append(backend.staged(batch(at)))
            together.wait()
    except Exception as error:
        failed.append(error)
        together.abort()
threading.settrace(trace)
reader = threading.Thread(target=read, daemon=True)
reader.start()
sys.settrace(trace)
sums = []
try:
    for at in range(2, COUNT):
        together.wait()
        given = backend.fed(ahead.pop(0), numpy.float32)
        sums.append(given + given)
        for _ in range(20):
            x *= numpy.float32(1)
        together.wait()
        if at % 7 == 0:
            backend.synchronize()
except threading.BrokenBarrierError:
    assert failed
finally:
    sys.settrace(None)
assert not failed, failed
reader.join()
for at, found in enumerate(sums):
    check(found, 2 * at)
""".replace("COUNT", "100")

AGAIN = """
for seed in range(12):
    fake_cuda.seed(seed)
    same = backend.staged(batch(-1))
    for _ in range(8):
        check(backend.fed(same, numpy.float32), -1)
    ahead, sums = [backend.staged(batch(0)), backend.staged(batch(1))], []
    for at in range(2, 14):
        ahead.append(backend.staged(batch(at)))
        given = backend.fed(ahead.pop(0), numpy.float32)
        sums.append(given + given)
    for at, found in enumerate(sums):
        check(found, 2 * at)
"""


def runs(code: str, stand_in: Path) -> None:
    done = script(BEGIN + code, on_fake_cuda(stand_in))
    assert done.returncode == 0, done.stderr


def test_the_images_of_two_batches_are_copied_while_kernels_of_the_one_before_wait(
    stand_in: Path,
) -> None:
    runs(AHEAD, stand_in)


def test_a_device_holds_three_batches_of_images_and_others_are_copied_when_they_are_fed(
    stand_in: Path,
) -> None:
    runs(ROOMS, stand_in)


def test_one_thread_may_start_an_upload_while_another_takes_one(stand_in: Path) -> None:
    runs(THREADS, stand_in)


def test_images_that_are_fed_several_times_let_no_later_copy_be_read_too_early(
    stand_in: Path,
) -> None:
    runs(AGAIN, stand_in)
