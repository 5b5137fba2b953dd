"""How many threads the libraries of a process compute with: one until it is forked, then as many as
it is given.

Placement decides how many a process gets. Our own kernels' threads read CONVOY_THREADS instead.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from threadpoolctl import threadpool_limits

# Every BLAS and OpenMP that numpy may be built with reads one of these at import; a program's
# kernels read the first.
VARIABLES = (
    "CONVOY_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OMP_NUM_THREADS",
    "NUMBA_NUM_THREADS",
)
LIBRARIES = VARIABLES[1:4]  # BLAS and OpenMP

_held: list[bool] = []  # whether libraries of this process were loaded `loading_with_one`


def variables(threads: int) -> dict[str, str]:
    """Of the environment, for libraries that are loaded from here on."""
    return dict.fromkeys(VARIABLES, str(threads))


def usable() -> list[int]:
    """The cores of this machine that this process may use."""
    return (
        sorted(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else list(range(os.cpu_count() or 1))
    )


def use(threads: int) -> None:
    """So many threads for this process, also of libraries that were loaded with one."""
    os.environ.update(variables(threads))
    if threads == 1:
        return
    threadpool_limits(threads)
    numba = sys.modules.get("numba")
    if numba is not None:  # it reads its variable when it is imported
        numba.core.config.reload_config()


@contextmanager
def loading_with_one() -> Iterator[None]:
    """Libraries that are imported meanwhile start no thread, so that this process may fork, until
    it asks to `release` them."""
    before = {name: os.environ.get(name) for name in VARIABLES}
    os.environ.update(variables(1))
    _held.append(True)
    try:
        yield
    finally:
        _restore(before)


def release() -> None:
    """This process computes: libraries that were loaded with one thread take as many as they would
    have started, 60 ms; others keep theirs."""
    if not _held:
        return
    _held.clear()
    wished = next(
        (int(wish) for name in LIBRARIES if (wish := os.environ.get(name, "")).isdecimal()), 0
    )
    threadpool_limits(wished or len(usable()))


@contextmanager
def using(threads: int) -> Iterator[None]:
    """So many threads for libraries and for kernels that are asked for meanwhile."""
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
