"""The parameters of a kernel, read from its text, and the check of a call's arguments. CUDA itself
checks neither their number nor their types."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from ops.cuda import kernels
from ops.errors import BFLOAT16, OpsError

# By the type of a parameter: the type of a number that is passed for it, or of an array's numbers.
# T is the dtype in which the kernel computes. Arrays of Stored have it, or bfloat16.
NUMBERS: dict[str, Any] = {
    "int": np.int32,
    "unsigned": np.uint32,
    "unsigned char": np.uint8,
    "long long": np.int64,
    "double": np.float64,
    "FourPlaces": np.int32,
}
OF_DTYPE = ("T", "Four")
STORED = ("Stored*", "FourStored*")


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
    return np.dtype(dtype).type if plain in OF_DTYPE or kind in STORED else NUMBERS[plain]


@cache
def stored(kernel: str) -> tuple[int, ...]:
    """The places of the parameters that may be arrays of bfloat16."""
    return tuple(place for place, kind in enumerate(parameters(kernel)) if kind in STORED)


def narrow(kernel: str, arguments: Sequence[Any]) -> tuple[bool, ...]:
    """Whether each array of Stored is bfloat16. Empty if none of them is."""
    found = tuple(
        place < len(arguments) and getattr(arguments[place], "dtype", None) == BFLOAT16
        for place in stored(kernel)
    )
    return found if any(found) else ()


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
        fits = found == number_of(kind, dtype) or (
            kind in STORED and found == BFLOAT16 and dtype == np.float32
        )
        if is_array != pointer or not fits:
            what = f"{'an array of ' if is_array else ''}{found}"
            raise OpsError(f"kernel {kernel}, argument {place}: found {what}, expected {kind}")
