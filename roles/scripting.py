"""Training from Python: options as cluster.toml has them below [train], as a topology that `runtime.launch` takes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from roles.options import Options
from roles.planner import plan
from runtime.config import of_script, program_options
from runtime.topology import Topology


def training(options: Mapping[str, Any] | None = None, *, directory: str | Path = "") -> Topology:
    """The topology that trains what `options` describe: the keys of [train], such as {"net": "lenet", "max_iter": 100,
    "strategy": {"preset": "sync", "workers": 2}}; what is not said has its default. Paths are relative to `directory`,
    by default the working directory.

    ConfigError with every mistake, also those of the files it names.
    """
    config = of_script("training()", {"train": options or {}}, Path(directory).resolve())
    return plan(config, program_options(config, Options))
