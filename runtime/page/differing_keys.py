"""The keys of cluster.toml that differ between runs, as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from runtime.report import run_keys
from runtime.terminal_text import bounded, printable

MOST_TEXT = 200  # characters of a value


def differing(configurations: Sequence[Mapping[str, Any]]) -> list[tuple[str, list[str]]]:
    """The keys with different values (`run_keys.differing`), each with its values in the order of
    the runs. "" stands for a key that a run does not have."""
    runs = [dict(run_keys.flattened(found)) for found in configurations]
    return [(name, [_shown(keys.get(name)) for keys in runs]) for name in run_keys.differing(runs)]


def _shown(value: object) -> str:
    if value is None:
        return ""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return bounded(printable(text), MOST_TEXT)
