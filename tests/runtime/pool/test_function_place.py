"""A function by its place: found again by another process, or refused in words."""

from __future__ import annotations

import functools
import json
import math
from typing import Any

import numpy as np
import pytest

from runtime.errors import ConfigError
from runtime.pool.function_place import function_at, place_of


class Tool:
    @staticmethod
    def double(number: int) -> int:
        return 2 * number

    def method(self, number: int) -> int:
        return number


async def later(number: int) -> int:
    return number


def renamed(number: int) -> int:
    return number


old, renamed = renamed, lambda number: number  # type: ignore[misc]


@pytest.mark.parametrize("function", [Tool.double, math.sqrt, json.dumps, len])
def test_a_function_of_a_module_is_found_again(function: Any) -> None:
    assert function_at(*place_of(function)) is function


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (lambda number: number, "a lambda has no name by which workers could find it: define it"),
        (
            Tool().method,
            "'Tool.method' of module 'test_function_place' is another object",
        ),
        (old, "'renamed' of module 'test_function_place' is another object"),
        (functools.partial(max, 1), "a partial has no name by which workers could find it"),
        (later, "'later' is a coroutine function, expected a plain function"),
        (3, "found int, expected a function"),
        (np.float64(1), "found float64, expected a function"),
    ],
)
def test_a_function_without_a_place_is_refused_with_the_remedy(function: Any, text: str) -> None:
    with pytest.raises(ConfigError) as refused:
        place_of(function)
    assert str(refused.value).startswith("map(): function: ")
    assert text in str(refused.value)


def test_a_function_inside_of_another_is_refused_by_name() -> None:
    def inner(number: int) -> int:
        return number

    with pytest.raises(ConfigError, match=r"inner', inside of a function, has no name"):
        place_of(inner)
