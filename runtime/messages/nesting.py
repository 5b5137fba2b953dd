"""The limit on how deep the values of a message may be nested, and how a received value is
printed."""

from __future__ import annotations

from typing import Any

# levels of lists and dicts in the plain values; code that prints or walks them recurses
MAX_DEPTH = 16
NESTS = (list, tuple, dict)


def deeper(value: Any, levels: int) -> bool:
    """Return whether a list, tuple or dict is nested more than `levels` deep."""
    inside = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(type(item) in NESTS and deeper(item, levels - 1) for item in inside)


def shown(value: Any) -> str:
    """Return a received value as text for an error, safely shortened."""
    return (
        "values nested too deep to show"
        if type(value) in NESTS and deeper(value, MAX_DEPTH)
        else f"{value!r:.60}"
    )
