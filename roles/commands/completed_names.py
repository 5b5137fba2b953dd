"""The names that keys of [train] may have, which shells complete."""

from __future__ import annotations

from nets import zoo_names
from roles.options import AUTO
from roles.registry import PRESETS


def completions() -> dict[str, list[str]]:
    """Return key of cluster.toml -> names."""
    return {
        "train.net": zoo_names(),
        "train.solver": zoo_names(solvers=True),
        "train.strategy.preset": [*PRESETS.names(), AUTO],
    }
