"""Arguments that several commands take."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

Settings = Annotated[
    tuple[str, ...], Parameter(name="--set", help="Override a value: --set train.strategy.groups=4", negative=())
]


def runs_here() -> Path:
    """The folder of run directories, as the cluster.toml here says; the usual one where there is none. ConfigError."""
    from runtime.config.source import read

    file = Path("cluster.toml")
    said = read(file).data.get("run", {}) if file.exists() else {}
    named = said.get("directory") if isinstance(said, dict) else None
    return Path(named if isinstance(named, str) else "runs")
