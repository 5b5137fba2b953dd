"""Training from Python: options as in cluster.toml below [train], as a topology that
`runtime.launch` takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from nets import NetBuilder, NetError
from roles.options import Options
from roles.planning.planner import plan
from roles.presets.request import Preset, Request
from runtime.config.file import of_script, program_options
from runtime.config.toml_source import BUILT_IN
from runtime.errors import ConfigError
from runtime.plan.topology import Origin, Topology

Layout = Callable[[Request], Topology]


def training(
    options: Mapping[str, Any] | None = None,
    *,
    strategy: Layout | Preset | None = None,
    directory: str | Path = "",
) -> Topology:
    """The topology that trains as `options` describe.

    `options` are the keys of [train], such as {"net": "lenet", "max_iter": 100, "strategy":
    {"preset": "sync", "workers": 2}}. Keys that are missing have their defaults. Paths are relative
    to `directory`, by default the working directory. The net may be a `nets.NetBuilder`.

    `strategy` is a layout of your own, in place of a preset. Its roles may be your own, too, if the
    topology that it returns names your program.

    Raises ConfigError with every mistake, also those of the files that `options` name.
    """
    said = dict(options or {})
    if isinstance(said.get("net"), NetBuilder):
        try:
            said["net"] = str(said["net"])
        except NetError as error:
            raise ConfigError(
                [f"training(): train.net: {problem}" for problem in error.problems]
            ) from None
    config = of_script("training()", {"train": said}, Path(directory).resolve())
    preset = (
        Preset(strategy) if strategy is not None and not isinstance(strategy, Preset) else strategy
    )
    found = program_options(config, Options)
    topology = plan(config, found, preset)
    sections = found.model_dump(mode="json", exclude_none=True, by_alias=True)
    planned = topology if strategy is None else None
    return replace(topology, origin=Origin(BUILT_IN, sections, config.raw.base, planned))
