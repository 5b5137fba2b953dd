"""The number of threads that a process's libraries compute with: one until the process is forked,
then as many as it is given.

Placement decides the number of each process. The kernels of this project read CONVOY_THREADS.
Threads that do other work, such as reading data, may be as many as the computing threads leave
cores free: CONVOY_FREE_CORES.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from threadpoolctl import threadpool_limits

from runtime.machine.usable_cores import usable

# Every BLAS and OpenMP that numpy may be built with reads one of these at import. A program's own
# kernels read the first.
VARIABLES = (
    "CONVOY_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OMP_NUM_THREADS",
    "NUMBA_NUM_THREADS",
)
FREE = "CONVOY_FREE_CORES"  # the cores left for other threads of the process
LIBRARIES = VARIABLES[1:4]  # BLAS and OpenMP

_held: list[bool] = []  # one entry per use of `loading_with_one` in this process


def variables(threads: int) -> dict[str, str]:
    """Return the environment variables that give `threads` threads to libraries loaded from here
    on."""
    return dict.fromkeys(VARIABLES, str(threads))


def use(threads: int, free: int = 0) -> None:
    """Give this process `threads` threads, including libraries that were loaded with one. `free`:
    the cores that are left to its other threads."""
    os.environ.update({**variables(threads), FREE: str(free)})
    if threads == 1:
        return
    threadpool_limits(threads)
    numba = sys.modules.get("numba")
    if numba is not None:  # numba reads its variable when it is imported
        numba.core.config.reload_config()


@contextmanager
def loading_with_one() -> Iterator[None]:
    """Let libraries that are imported in the `with` block start no thread, so that this process may
    fork. They have one thread until `release`."""
    before = {name: os.environ.get(name) for name in VARIABLES}
    os.environ.update(variables(1))
    _held.append(True)
    try:
        yield
    finally:
        _restore(before)


def release() -> None:
    """Give libraries that were loaded with one thread as many threads as they would have started.
    Call it before this process computes. Takes 60 ms. Other libraries keep their threads."""
    if not _held:
        return
    _held.clear()
    wished = next(
        (int(wish) for name in LIBRARIES if (wish := os.environ.get(name, "")).isdecimal()), 0
    )
    threadpool_limits(wished or len(usable()))


@contextmanager
def using(threads: int) -> Iterator[None]:
    """Give libraries, and kernels that are called in the `with` block, `threads` threads."""
    before = {name: os.environ.get(name) for name in VARIABLES}
    os.environ.update(variables(threads))
    try:
        with threadpool_limits(threads):
            yield
    finally:
        _restore(before)


def _restore(before: dict[str, str | None]) -> None:
    for name, value in before.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
