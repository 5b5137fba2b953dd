"""Refusals for the two kinds of runs whose numbers are to be compared with those of others.

These are precision "double", the same run in float64 by plain NumPy, and `reproducible`, the same
bits on any number of workers.
"""

from __future__ import annotations

from collections.abc import Iterator

from roles.options import Train

DOUBLE = "double"
Problem = tuple[str, tuple[str, ...]]  # the text, and the keys below [train]


def mistakes(train: Train) -> Iterator[Problem]:
    """The settings of [train] that such a run cannot have."""
    if train.precision != DOUBLE and not train.strategy.reproducible:
        return
    run = "with precision 'double'" if train.precision == DOUBLE else "in a reproducible run"
    for pattern, device in train.devices.items():
        told = train.precision != DOUBLE and device.startswith("emulated")  # reported by `devices`
        if device != "cpu" and not told:
            yield f"found '{device}', but {run} only the CPU computes", ("devices", pattern)
    formats: dict[tuple[str, ...], str] = {("format",): train.gradients.format}
    formats |= {("links", link): name for link, name in train.gradients.links.items()}
    for keys, name in formats.items():
        if name != "float32":
            yield f"found '{name}', but {run} gradients travel as they are", ("gradients", *keys)
    if train.precision == DOUBLE and train.strategy.reproducible:
        text = (
            "found true, but a reproducible run needs compiled kernels, and precision "
            "'double' computes with NumPy"
        )
        yield text, ("strategy", "reproducible")
