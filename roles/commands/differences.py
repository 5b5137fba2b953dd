"""The settings of images that differ between the run of a checkpoint and a test."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from nets.predict import Deployment


def differences(said: Deployment, tested: Deployment) -> str:
    """Return a line about the settings that change the numbers which a net reads, "" if all are the
    same. `said`: the checkpoint's, `tested`: those of the test."""
    pairs = list(_different(said, tested))
    if not pairs:
        return ""
    before, now = (", ".join(f"{name} {pair[at]}" for name, *pair in pairs) for at in range(2))
    return f"trained with {before}; this test has {now}"


def _different(said: Deployment, tested: Deployment) -> Iterator[tuple[str, str, str]]:
    """Yield the name of each setting that differs, and its two values."""
    for name in ("shape", "order", "orientation"):
        yield from _pair(name, getattr(said, name), getattr(tested, name))
    for name in ("crop", "mean", "deviation", "scale"):
        yield from _pair(name, getattr(said.transform, name), getattr(tested.transform, name))
    before, now = said.transform.mean_image, tested.transform.mean_image
    if before is None or now is None:
        yield from _pair("mean_file", before is not None, now is not None)
    elif not np.array_equal(before, now):
        yield "mean_file", "of other numbers", "of these numbers"


def _pair(name: str, before: Any, now: Any) -> Iterator[tuple[str, str, str]]:
    if before != now:
        yield name, _shown(before), _shown(now)


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return " ".join(f"{number:g}" for number in value) or "none"
    if isinstance(value, bool):
        return "given" if value else "none"
    return f"{value:g}" if isinstance(value, (int, float)) else str(value)
