"""A stand-in for the module cupy whose arrays do not mix with NumPy's, like those of a GPU.

An implicit copy from the device raises TypeError: np.asarray(x), np.sqrt(x), or a NumPy array as an
operand, an index or an argument. Copies to and from the host are real copies. Kernels run as in
`tests.ops.host_cupy`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from tests.ops.host_cupy import HostCupy, Module

MAY_TAKE_HOST = ("asarray", "array")
SAME = ("shape", "dtype", "ndim", "size", "strides", "itemsize", "nbytes", "flags")
METHODS = (
    "reshape",
    "transpose",
    "astype",
    "copy",
    "sum",
    "max",
    "min",
    "mean",
    "any",
    "all",
    "fill",
    "view",
    "ravel",
)
BINARY = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and_", "or_", "xor")
COMPARED = ("lt", "le", "gt", "ge", "eq", "ne")


class DeviceArray:
    """An array in the memory of an imagined device."""

    __array_ufunc__ = None  # makes NumPy's functions and operators refuse the array
    __hash__ = None

    def __init__(self, host: Any) -> None:
        self._host = np.asarray(host)

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError(
            "implicit conversion to a NumPy array is not allowed: use the backend's to_host"
        )

    def __getattr__(self, name: str) -> Any:
        if name in SAME:
            return getattr(self._host, name)
        if name in METHODS:
            return lambda *args, **options: _called(getattr(self._host, name), args, options)
        raise AttributeError(f"cupy.ndarray has no {name}, as far as this stand-in knows")

    @property
    def data(self) -> Any:
        return SimpleNamespace(ptr=self._host.ctypes.data)

    @property
    def T(self) -> DeviceArray:
        return DeviceArray(self._host.T)

    def __getitem__(self, index: Any) -> DeviceArray:
        return DeviceArray(self._host[_bare(index)])

    def __setitem__(self, index: Any, value: Any) -> None:
        self._host[_bare(index)] = _bare(value)

    def __len__(self) -> int:
        return len(self._host)

    def __float__(self) -> float:
        return float(self._host)

    def __int__(self) -> int:
        return int(self._host)

    def __bool__(self) -> bool:
        return bool(self._host)

    def __neg__(self) -> DeviceArray:
        return DeviceArray(-self._host)

    def __invert__(self) -> DeviceArray:
        return DeviceArray(~self._host)

    def item(self) -> Any:
        return self._host.item()


def _forward(name: str) -> Callable[[DeviceArray, Any], DeviceArray]:
    return lambda self, other: DeviceArray(getattr(operator, name)(self._host, _bare(other)))


def _reflected(name: str) -> Callable[[DeviceArray, Any], DeviceArray]:
    return lambda self, other: DeviceArray(getattr(operator, name)(_bare(other), self._host))


def _in_place(name: str) -> Callable[[DeviceArray, Any], DeviceArray]:
    def run(self: DeviceArray, other: Any) -> DeviceArray:
        self._host = getattr(operator, "i" + name)(self._host, _bare(other))
        return self

    return run


for _name in BINARY:
    _plain = _name.strip("_")
    setattr(DeviceArray, f"__{_plain}__", _forward(_name))
    setattr(DeviceArray, f"__r{_plain}__", _reflected(_name))
    setattr(
        DeviceArray,
        f"__i{_plain}__",
        _in_place(_plain if _name in ("add", "sub", "mul") else _name.strip("_")),
    )
for _name in COMPARED:
    setattr(DeviceArray, f"__{_name}__", _forward(_name))


class DeviceCupy(HostCupy):
    """NumPy over DeviceArrays. `copies` counts the arrays copied to the device and back."""

    def __init__(self) -> None:
        super().__init__()
        self.copies = {"to": 0, "from": 0}

    def __getattr__(self, name: str) -> Any:
        found = super().__getattr__(name)
        if not callable(found) or isinstance(found, type):
            return found
        return lambda *args, **options: _called(found, args, options)

    def asarray(self, given: Any, dtype: Any = None) -> DeviceArray:
        if isinstance(given, DeviceArray):
            return given if dtype is None or given.dtype == dtype else given.astype(dtype)
        self.copies["to"] += 1
        return DeviceArray(np.array(given, dtype))

    def asnumpy(self, x: DeviceArray) -> Any:
        self.copies["from"] += 1
        return x._host.copy()

    def RawModule(self, code: str, options: tuple[str, ...]) -> Any:
        return DeviceModule(code, options)


class DeviceModule(Module):
    """Kernels that take DeviceArrays."""

    def _launch(self, name: str, arguments: tuple[Any, ...]) -> None:
        super()._launch(name, _bare(arguments))


def _called(function: Any, args: Any, options: dict[str, Any]) -> Any:
    """Call one of NumPy's functions on the host arrays of DeviceArrays; a given destination is
    returned itself.
    """
    result = _held(function(*_bare(args), **{key: _bare(value) for key, value in options.items()}))
    out = options.get("out")
    return result if out is None else out


def _bare(value: Any) -> Any:
    """The host array of a DeviceArray, for a call of NumPy. Raises TypeError for a host array,
    which a device's function does not accept.
    """
    if isinstance(value, DeviceArray):
        return value._host
    if isinstance(value, np.ndarray):
        raise TypeError(
            f"unsupported type {type(value)}: found a host array, expected an array of the device"
        )
    if isinstance(value, tuple | list):
        return type(value)(_bare(each) for each in value)
    return value


def _held(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return DeviceArray(value)
    return tuple(_held(each) for each in value) if isinstance(value, tuple) else value
