"""The check of a kernel's arguments, which CUDA does not make."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ops import OpsError
from ops.backends.cupy_backend import CupyBackend
from ops.cuda import signatures
from ops.cuda.kernels import KERNELS
from ops.cuda.launch import NOTHING
from tests.ops.host_cupy import HostCupy

X = np.zeros((2, 3), np.float32)
RIGHT = ("shift", X, 3, X[0], 6, np.int32(3), np.uint32(1), np.int32(2), 0)


def launched(*call: Any) -> None:
    """Start a kernel of float32 on the processor."""
    kernel, *arguments = call
    try:
        backend = CupyBackend(xp=HostCupy())
    except OpsError as missing:
        pytest.skip(str(missing))
    backend.launch(kernel, 6, np.dtype(np.float32), *arguments)


def replaced(place: int, value: Any) -> tuple[Any, ...]:
    return (*RIGHT[: place + 1], value, *RIGHT[place + 2 :])


WRONG = {
    "found 7 arguments, expected 8": RIGHT[:-1],
    "argument 0: found an array of float64, expected Stored*": replaced(0, X.astype(np.float64)),
    "argument 1: found int64, expected int": replaced(1, np.int64(3)),
    "argument 3: found float32, expected int": replaced(3, np.float32(6)),
    "argument 0: found float32, expected Stored*": replaced(0, np.float32(6)),
    "argument 7: found uint64, expected int": replaced(7, NOTHING),
}


@pytest.mark.parametrize("told", WRONG)
def test_a_wrong_argument_is_refused_when_a_kernel_is_first_started(told: str) -> None:
    with pytest.raises(OpsError, match="kernel shift") as refused:
        launched(*WRONG[told])
    assert told in str(refused.value)


def test_a_null_pointer_may_stand_for_any_array() -> None:
    launched(*RIGHT)
    launched(*replaced(2, NOTHING))


def test_every_parameter_of_every_kernel_has_a_known_type() -> None:
    for kernel in KERNELS:
        for kind in signatures.parameters(kernel):
            signatures.number_of(kind, np.dtype(np.float32))
