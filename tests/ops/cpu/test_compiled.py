"""The addresses at which compiled kernels are loaded."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]

# A run may have mapped many gigabytes before it loads a kernel. In this test one page is free, and
# the next free page is 8 GiB below.
FAR_APART = """
import ctypes
import mmap
import os
import numpy as np
from ops.cpu.codegen.code import generated
from ops.cpu.codegen.kernel import CALL, layout

@generated(layout("there", "x"))
def scaled(code):
    code.store(code.constant(2.5) * code.x, code.there)  # the constant is data, not code

if os.fork() == 0:  # compile in a child, since compiling maps memory
    os._exit(not scaled.address)
assert os.wait()[1] == 0

system = ctypes.CDLL(None)
system.mmap.restype = ctypes.c_void_p
system.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
system.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]

def taken(size):
    found = system.mmap(None, size, 0, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
    assert found not in (None, 2**64 - 1)
    return found

def fill(above):
    "All free pages above an address: the system gives the highest."
    while (page := taken(mmap.PAGESIZE)) > above:
        pass
    return page

fill(taken(mmap.PAGESIZE))
lowest = taken(3 * mmap.PAGESIZE)
fill(taken(8 << 30))
system.munmap(lowest + mmap.PAGESIZE, mmap.PAGESIZE)
found = np.zeros(64, np.float32)
block = scaled.block(there=found.ctypes.data, x=2)
CALL(scaled.address)(0, 1, ctypes.addressof(block))
print(found[0])
"""


def test_a_kernel_is_loaded_where_free_places_are_gigabytes_apart(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "CONVOY_KERNEL_CACHE": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", FAR_APART],
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "5.0\n", "")
