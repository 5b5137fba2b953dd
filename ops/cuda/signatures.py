"""The parameters of a kernel, read from its text, and the check of a call's arguments. CUDA itself
checks neither their number nor their types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ops.cuda import kernels
from ops.errors import OpsError

# By the type of a parameter: the type of a number that is passed for it, or of an array's numbers.
# T is the module's dtype.
NUMBERS: dict[str, Any] = {
    "int": np.int32,
    "unsigned": np.uint32,
    "unsigned char": np.uint8,
    "long long": np.int64,
    "double": np.float64,
    "FourPlaces": np.int32,
}
OF_DTYPE = ("T", "Four")


def parameters(kernel: str) -> list[str]:
    """The C types of a kernel's parameters, without `const`."""
    listed = kernels.KERNELS[kernel].split("(", 1)[1].split(")", 1)[0]
    return [
        one.strip().rsplit(" ", 1)[0].replace("const ", "")
        for one in listed.replace("\n", " ").split(",")
    ]


def number_of(kind: str, dtype: Any) -> Any:
    """NumPy's type of the numbers of a parameter of this C type, with or without an asterisk."""
    plain = kind.removesuffix("*")
    return np.dtype(dtype).type if plain in OF_DTYPE else NUMBERS[plain]


def check(kernel: str, dtype: Any, arguments: Sequence[Any]) -> None:
    """Compare the arguments of a call with the kernel's parameters. Raises OpsError if their number
    or a type differs. A null pointer, np.uint64(0), may stand for any array."""
    kinds = parameters(kernel)
    if len(kinds) != len(arguments):
        raise OpsError(f"kernel {kernel}: found {len(arguments)} arguments, expected {len(kinds)}")
    for place, (kind, given) in enumerate(zip(kinds, arguments, strict=True)):
        pointer = kind.endswith("*")
        if pointer and type(given) is np.uint64 and given == 0:
            continue
        found = getattr(given, "dtype", type(given))
        is_array = not isinstance(given, np.generic)
        if is_array != pointer or found != number_of(kind, dtype):
            what = f"{'an array of ' if is_array else ''}{found}"
            raise OpsError(f"kernel {kernel}, argument {place}: found {what}, expected {kind}")
