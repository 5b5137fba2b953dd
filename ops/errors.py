"""The one error of ops and the input checks that raise it.

Every check names the operation and the argument, the value found and the value expected. No check
copies an array or reads its values.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]
Shape: TypeAlias = tuple[int, ...]

FLOATS = (np.dtype(np.float32), np.dtype(np.float64))
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)  # the high half of a float32 number


class OpsError(ValueError):
    """An operation was given an argument that it cannot use. The message names the value found and
    the value expected."""


class KernelsMissing(OpsError):
    """The compiled kernels cannot run on this machine; the message gives the reason."""


def check_float(op: str, **arrays: Array | None) -> None:
    """Check that all given arrays are float32, or that all are float64."""
    first: tuple[str, Any] | None = None
    for name, array in arrays.items():
        if array is None:
            continue
        dtype = getattr(array, "dtype", None)
        # `None in FLOATS` is true: NumPy takes None for float64
        if dtype is None or dtype not in FLOATS:
            found = type(array).__name__ if dtype is None else dtype
            raise OpsError(
                f"{op}: {name} is {found}, expected an array of {' or '.join(map(str, FLOATS))}"
            )
        if first is None:
            first = (name, dtype)
        elif dtype != first[1]:
            raise OpsError(
                f"{op}: {name} is {dtype} but {first[0]} is {first[1]}, expected one dtype for all"
            )


def check_ndim(op: str, name: str, array: Array, axes: str) -> None:
    """Check that `array` has one dimension per letter of `axes`, for example "NCHW"."""
    if array.ndim != len(axes):
        wanted = ", ".join(axes)
        raise OpsError(
            f"{op}: {name} has shape {tuple(array.shape)}, expected {len(axes)} axes ({wanted})"
        )


def check_shape(op: str, name: str, array: Array | None, expected: Shape) -> None:
    """Check that `array` is None or has exactly the shape `expected`."""
    if array is not None and tuple(array.shape) != tuple(expected):
        raise OpsError(f"{op}: {name} has shape {tuple(array.shape)}, expected {tuple(expected)}")


def check_out(op: str, name: str, out: Array | None, expected: Shape, dtype: Any) -> None:
    """Check that a destination is None, or has the result's shape and dtype and is writeable."""
    if out is None:
        return
    check_shape(op, name, out, expected)
    if out.dtype != np.dtype(dtype):
        raise OpsError(f"{op}: {name} is {out.dtype}, expected {np.dtype(dtype)}")
    if not getattr(out.flags, "writeable", True):
        raise OpsError(f"{op}: {name} is read-only, expected an array that may be written to")


def check_choice(what: str, found: str, choices: Iterable[str]) -> None:
    """Check that `found` is one of `choices`; the message suggests the nearest one."""
    names = sorted(choices)
    if found in names:
        return
    near = get_close_matches(str(found), names, n=1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    raise OpsError(f"{what} is {found!r}, expected one of {', '.join(map(repr, names))}{hint}")


def check_alike(op: str, out: Array | None, **arrays: Array) -> None:
    """Check that all given arrays have one dtype and the first one's shape, and that `out` can hold
    such an array."""
    check_float(op, **arrays)
    first, *rest = arrays
    for name in rest:
        check_shape(op, name, arrays[name], arrays[first].shape)
    check_out(op, "out", out, arrays[first].shape, arrays[first].dtype)


def check_axis(op: str, axis: int, ndim: int) -> int:
    """Return the axis counted from 0; a negative axis counts from the end. Raises OpsError if it is
    out of range."""
    if type(axis) is not int or not -ndim <= axis < ndim:
        raise OpsError(f"{op}: axis is {axis!r}, expected an integer from {-ndim} to {ndim - 1}")
    return axis % ndim


def first_line(error: BaseException) -> str:
    """The type of an error and the first line of its text."""
    return ": ".join([type(error).__name__, *str(error).strip().splitlines()[:1]])
