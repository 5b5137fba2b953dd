"""What cannot go with precision "double", the same run in float64 by plain NumPy.

What never lives here: the dtype itself, which every role has from its job (`Job.dtype`).
"""

from __future__ import annotations

from collections.abc import Iterator

from roles.options import Train

DOUBLE = "double"
Problem = tuple[str, tuple[str, ...]]  # what is wrong, and the keys below [train]


def mistakes(train: Train) -> Iterator[Problem]:
    """What [train] asks of a run in double precision that there is in float32 only."""
    if train.precision != DOUBLE:
        return
    for pattern, device in train.devices.items():
        if device != "cpu":
            yield f"found '{device}', but with precision 'double' only the CPU computes", ("devices", pattern)
    formats: dict[tuple[str, ...], str] = {("format",): train.gradients.format}
    formats |= {("links", link): name for link, name in train.gradients.links.items()}
    for keys, name in formats.items():
        if name != "float32":
            text = f"found '{name}', but with precision 'double' gradients travel as they are"
            yield text, ("gradients", *keys)
    if train.strategy.reproducible:
        text = "found true, but a reproducible run needs compiled kernels, and precision 'double' computes with NumPy"
        yield text, ("strategy", "reproducible")
