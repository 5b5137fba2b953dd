"""Tensors of an ONNX file as NumPy arrays. Their numbers stand in the file, or in another file next
to it (external data)."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nets.errors import NetError
from nets.reasons import reason
from nets.regular import opened, size_of
from nets.schema import onnx_net_pb2 as onnx

# ONNX's TensorProto.DataType -> the dtype of the file's bytes
DTYPES: dict[int, np.dtype[Any]] = {
    1: np.dtype("<f4"),
    2: np.dtype("u1"),
    3: np.dtype("i1"),
    4: np.dtype("<u2"),
    5: np.dtype("<i2"),
    6: np.dtype("<i4"),
    7: np.dtype("<i8"),
    9: np.dtype("?"),
    10: np.dtype("<f2"),
    11: np.dtype("<f8"),
    12: np.dtype("<u4"),
    13: np.dtype("<u8"),
}
NAMES = {8: "string", 14: "complex64", 15: "complex128", 16: "bfloat16", 21: "uint4", 22: "int4"}
MOST_NUMBERS = 2**29  # in one tensor: 2 GB of float32, the limit of a protobuf message


def type_name(number: int) -> str:
    """Return the name of a data type, such as "float32"."""
    return DTYPES[number].name if number in DTYPES else NAMES.get(number, f"type {number}")


class Tensor:
    """One tensor of the file: its `shape`, and `array`, which is read when it is asked for. Float16
    and float64 become float32."""

    def __init__(self, proto: onnx.TensorProto, file: Path) -> None:
        self._proto = proto
        self._file = file
        self.name: str = proto.name
        self.shape = tuple(int(size) for size in proto.dims)
        self._external = proto.data_location == onnx.TensorProto.EXTERNAL

    def __repr__(self) -> str:
        return f"<{type_name(self._proto.data_type)} {self.name} {self.shape}>"

    @property
    def is_float(self) -> bool:
        """Whether the numbers are floating-point numbers."""
        return self._proto.data_type in (1, 10, 11)

    def check(self) -> None:
        """Raise NetError if the tensor cannot be read."""
        if self._proto.data_type not in DTYPES:
            raise self._error(f"found data type {type_name(self._proto.data_type)}, expected float")
        if min(self.shape, default=0) < 0 or math.prod(self.shape) > MOST_NUMBERS:
            raise self._error(f"found shape {self.shape}, expected at most {MOST_NUMBERS} numbers")
        if self._external:
            self._check_external()
        elif self._proto.raw_data:
            if (found := len(self._proto.raw_data)) != self._bytes:
                raise self._error(f"found {found} bytes, expected {self._bytes}")
        elif (found := len(self._listed())) != math.prod(self.shape):
            raise self._error(f"found {found} numbers, expected {math.prod(self.shape)}")

    @property
    def array(self) -> NDArray[Any]:
        """The numbers. Raises NetError if they cannot be read."""
        self.check()
        proto = self._proto
        dtype = DTYPES[proto.data_type]
        if self._external:
            found = np.frombuffer(self._external_bytes(), dtype)
        elif proto.raw_data:
            found = np.frombuffer(proto.raw_data, dtype)
        else:
            found = np.array(self._listed())
            found = found.astype(np.uint16).view(dtype) if dtype == "<f2" else found.astype(dtype)
        shaped = found.reshape(self.shape)
        return shaped.astype(np.float32) if self.is_float else shaped

    def _listed(self) -> Any:
        proto = self._proto
        if proto.data_type == 1:
            return proto.float_data
        if proto.data_type == 11:
            return proto.double_data
        return proto.int64_data if proto.data_type == 7 else proto.int32_data

    @property
    def _bytes(self) -> int:
        """The size of all numbers in the file."""
        return math.prod(self.shape) * DTYPES[self._proto.data_type].itemsize

    def _place(self) -> tuple[Path, int, int]:
        """Return the file, the offset and the number of bytes of external data."""
        facts = {entry.key: entry.value for entry in self._proto.external_data}
        name = facts.get("location", "")
        size = self._bytes
        numbers = [facts.get("offset", "0"), facts.get("length", str(size))]
        if not all(number.isascii() and number.isdigit() for number in numbers):
            raise self._error(f"external data: found offset and length {numbers}, expected numbers")
        # a name with ".." would read any file of this machine
        if not name or name != os.path.normpath(name) or name.startswith(("/", "..")):
            raise self._error(
                f"external data: found location '{name}', expected a file next to {self._file.name}"
            )
        if int(numbers[1]) != size:
            raise self._error(f"external data: found length {numbers[1]}, expected {size} bytes")
        return self._file.parent / name, int(numbers[0]), size

    def _check_external(self) -> None:
        path, offset, size = self._place()
        try:
            found = size_of(path)
        except OSError as error:
            raise self._error(
                f"external data: {path}: {reason(error)}; copy this file with {self._file.name}"
            ) from None
        if found < offset + size:
            raise self._error(
                f"external data: {path}: found {found} bytes, expected {offset + size}"
            )

    def _external_bytes(self) -> bytes:
        path, offset, size = self._place()
        try:
            with opened(path) as file:
                file.seek(offset)
                found = file.read(size)
        except OSError as error:
            raise self._error(f"external data: {path}: {reason(error)}") from None
        if len(found) != size:
            raise self._error(f"external data: {path}: found {len(found)} bytes, expected {size}")
        return found

    def _error(self, text: str) -> NetError:
        return NetError(f"{self._file.name}: tensor '{self.name}': {text}")
