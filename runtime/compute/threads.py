"""How many threads the libraries of a process compute with: one until it is forked, then as many as it is given.

Placement decides how many a process gets. Our own kernels' threads read CONVOY_THREADS instead.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from threadpoolctl import threadpool_limits

# Every BLAS and OpenMP that numpy may be built with reads one of these at import; a program's kernels read the first.
VARIABLES = ("CONVOY_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS")


def variables(threads: int) -> dict[str, str]:
    """Of the environment, for libraries that are loaded from here on."""
    return dict.fromkeys(VARIABLES, str(threads))


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
def using(threads: int) -> Iterator[None]:
    """So many threads for libraries and for kernels that are asked for meanwhile."""
    before = {name: os.environ.get(name) for name in VARIABLES}
    os.environ.update(variables(threads))
    try:
        with threadpool_limits(threads):
            yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
