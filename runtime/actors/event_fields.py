"""The fields of an event, checked where the actor emits it, so that a mistake has its line."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np

from runtime.errors import Unsendable

KINDS = "None, bool, int, float, str, and tuples, lists and dicts of these (a dict's keys are str)"
MOST_DEEP = 32  # nested tuples, lists and dicts


def plain_fields(event: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of an event, with NumPy's scalars as Python's numbers. Raises Unsendable,
    with the name of the field, for a value that no event carries."""
    return {name: _plain(value, f"event {event!r}: {name}", 0) for name, value in fields.items()}


def _plain(value: Any, at: str, deep: int) -> Any:
    if value is None or isinstance(value, bool | float | str):
        return value.item() if isinstance(value, np.generic) else value
    if isinstance(value, np.generic) and not value.dtype.hasobject:
        return _plain(value.item(), at, deep)
    if isinstance(value, int):
        if -(1 << 63) <= value < 1 << 64:
            return value
        raise Unsendable("bad_type", f"{at} is {value:.3e}, more than 64 bits hold")
    if deep == MOST_DEEP:
        raise Unsendable("bad_type", f"{at[:200]}: nested more than {MOST_DEEP} deep")
    if isinstance(value, tuple | list):
        each = (_plain(part, f"{at}[{n}]", deep + 1) for n, part in enumerate(value))
        return tuple(each) if isinstance(value, tuple) else list(each)
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: _plain(each, f"{at}[{key!r}]", deep + 1) for key, each in value.items()}
    raise Unsendable("bad_type", f"{at} is {_found(value)}")


def _found(value: object) -> str:
    kind = type(value).__name__
    if inspect.isawaitable(value):
        if inspect.iscoroutine(value):
            value.close()  # without this, Python also warns that it was never awaited
        return f"a {kind}: write `await` before the call"
    if isinstance(value, Mapping):
        return f"a dict with keys that are not str, expected {KINDS}"
    if hasattr(value, "tolist"):
        return f"an array: events carry its numbers, as a list (`tolist()`) or in words; {KINDS}"
    return f"{kind}, expected {KINDS}"
