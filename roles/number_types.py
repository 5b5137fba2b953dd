"""The types of numbers in [train]. The training computes in single precision, so a number must not
become infinite or zero there."""

from __future__ import annotations

import struct
from typing import Annotated, TypeVar

from pydantic import AfterValidator, Field

from runtime.config.problems import Expected
from runtime.config.value_types import Positive as AboveZero

MOST = 3.4e38  # of float32
LEAST = 1.2e-38  # of float32 with all its digits
MOST_ITERATIONS = 2**31 - 1  # an int32 of Caffe's solvers
MOST_EPOCHS = 1e9


Value = TypeVar("Value", float, float | str)  # a word, such as "auto", passes


def single(value: Value) -> Value:
    """The same number. Raises ValueError if float32 has no such number."""
    if isinstance(value, str):
        return value
    if abs(value) > MOST:
        raise ValueError(f"expected at most {MOST}, the most in single precision")
    if 0 < abs(value) < LEAST:
        raise ValueError(f"expected at least {LEAST}, the least in single precision")
    return value


def below_one(value: Value) -> Value:
    """The same number. Raises ValueError if it is 1 as float32."""
    if isinstance(value, str):
        return value
    if value < 1 and struct.unpack("f", struct.pack("f", value))[0] == 1:
        raise ValueError("expected at most 0.9999999: it is 1 in single precision")
    return value


Single = AfterValidator(single)
BelowOne = AfterValidator(below_one)
Part = Annotated[float, Field(ge=0, lt=1)]

Finite = Annotated[float, Field(allow_inf_nan=False), Single]
Positive = Annotated[AboveZero, Single]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False), Single]
Fraction = Annotated[Part, BelowOne, Expected("a number >= 0 and < 1")]
Epochs = Annotated[
    float, Field(gt=0, le=MOST_EPOCHS), Expected(f"a number > 0, at most {MOST_EPOCHS:.0f}")
]
Iterations = Annotated[int, Field(ge=1, le=MOST_ITERATIONS)]
