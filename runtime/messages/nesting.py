"""How deep the values of a message may be nested, and how one that came is shown."""

from __future__ import annotations

from typing import Any

# of nested lists and dicts in the plain values: whoever shows or walks them recurses
MAX_DEPTH = 16
NESTS = (list, tuple, dict)


def deeper(value: Any, levels: int) -> bool:
    """Is this list, tuple or dict nested more than `levels` deep?"""
    inside = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(type(item) in NESTS and deeper(item, levels - 1) for item in inside)


def shown(value: Any) -> str:
    """What came, for an error."""
    return (
        "values nested too deep to show"
        if type(value) in NESTS and deeper(value, MAX_DEPTH)
        else f"{value!r:.60}"
    )
