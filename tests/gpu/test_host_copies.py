"""Copies of a device's arrays to memory that other processes read: one copy for each array, and
none on the host."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fake_cuda.processes import on_fake_cuda, script

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

INTO_THE_ARENA = """
import cupy, fake_cuda, logging, numpy, sys
from ops import get_backend
from runtime.memory.arena import Arena
logging.basicConfig()
if sys.argv[1] == "refused":
    def refuse(address, size, flags):
        raise cupy.cuda.runtime.CUDARuntimeError(2)
    cupy.cuda.runtime.hostRegister = refuse
backend, arena = get_backend("cupy"), Arena("test")
backend.memory = lambda size: arena.empty((size,), numpy.uint8)
backend.memory_range = arena.range
for shape in ((3 << 20,), (8, 16, 12, 10), (20, 4096)):
    host = numpy.random.default_rng(1).standard_normal(shape, numpy.float32)
    x = backend.fed(host, numpy.float32)
    before = fake_cuda.counts()
    found = backend.to_host(x)
    now = fake_cuda.counts()
    made = {name: now[name] - before[name] for name in ("copies_to_host", "copies_on_device")}
    assert made == {"copies_to_host": 1, "copies_on_device": 0}, made
    assert now["launches"] == before["launches"]
    assert found.strides == x.strides  # it lies as it lies on the device
    numpy.testing.assert_array_equal(found, host)
    assert arena.place(found) is not None
    locked = cupy.cuda.runtime.pointerGetAttributes(found.ctypes.data).type == 1
    assert locked == (sys.argv[1] == "locked")
part = x[:, 5:99]  # rows with gaps
numpy.testing.assert_array_equal(backend.to_host(part), host[:, 5:99])
"""


def test_a_large_array_is_copied_once_into_the_arena_whose_pages_are_locked(
    stand_in: Path,
) -> None:
    done = script(INTO_THE_ARENA, on_fake_cuda(stand_in), "locked")
    assert done.returncode == 0, done.stderr


def test_if_the_driver_refuses_to_lock_pages_one_line_reports_it_and_copies_go_on(
    stand_in: Path,
) -> None:
    done = script(INTO_THE_ARENA, on_fake_cuda(stand_in), "refused")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("not page-locked: CUDARuntimeError: cudaErrorMemory") == 1


ON_A_STREAM_OF_ITS_OWN = """
import cupy, fake_cuda, numpy, sys
from ops import get_backend
from ops.cuda.copies.host_copies import HostCopies
class Deaf(cupy.cuda.Stream):
    def wait_event(self, event):
        pass
if sys.argv[1] == "planted":
    HostCopies._stream = Deaf(non_blocking=True)
backend = get_backend("cupy")
backend.memory = lambda size: backend.staged(numpy.empty(size, "u1")).view(numpy.ndarray)
wrong = 0
for seed in range(12):
    fake_cuda.seed(seed)
    x = cupy.zeros(1 << 15, "f")
    for _ in range(20):
        x += 1  # queued
    wrong += not (backend.to_share(x).on_host() == 20).all()
print(wrong)
"""


@pytest.mark.parametrize("form", ["right", "planted"])
def test_a_copy_waits_for_the_layer_that_it_belongs_to(form: str, stand_in: Path) -> None:
    done = script(ON_A_STREAM_OF_ITS_OWN, on_fake_cuda(stand_in), form)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == 0 if form == "right" else int(done.stdout) >= 3, done.stdout
