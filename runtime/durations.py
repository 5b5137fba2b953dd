"""Durations for people, in the units of their size."""

from __future__ import annotations

import math


def duration(seconds: float) -> str:
    """Return the time as text: "12.1 ms", "42.1 s", "12 min 3 s", "3 h 20 min", "4 days 2 h".
    An infinite time is "inf s"."""
    if 0 < seconds < 0.9995:
        return f"{seconds * 1e3:.3g} ms"
    if seconds < 100 or not math.isfinite(seconds):
        return f"{seconds:.3g} s"
    for small, name, large, above in (
        (1, "s", 60, "min"),
        (60, "min", 3600, "h"),
        (3600, "h", 86400, "days"),
    ):
        if seconds < 100 * large or large == 86400:
            first, rest = divmod(round(seconds / small), large // small)
            return f"{first} {above} {rest} {name}"
    raise AssertionError
