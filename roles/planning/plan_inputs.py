"""The inputs of a plan: cluster.toml, the preset, and the settings that the run is to find."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from roles.options import Checkpoint, Options, Train
from roles.planning.auto_settings import AutoSettings
from roles.planning.diagnostics import Diagnostics
from roles.planning.strategies import preset_called
from roles.presets.request import Preset
from runtime.config.sections import ClusterConfig


class Spared(NamedTuple):
    """The machines that get no processes, and the ranks of the workers that they would have had."""

    machines: tuple[str, ...] = ()
    ranks: frozenset[int] = frozenset()


@dataclass(frozen=True)
class PlanInputs:
    """The inputs of a plan.

    `train`: the section with which the run starts, in which `auto` has replaced each "auto".
    `base`: the folder of cluster.toml. `resuming`: the checkpoint to resume is chosen after this
    plan, so first weights are not needed. `spared`: the machines that the plan does not use.
    """

    config: ClusterConfig
    train: Train
    checkpoint: Checkpoint
    preset: Preset
    auto: AutoSettings
    base: Path
    resuming: bool = False
    spared: Spared = field(default_factory=Spared)


def inputs_of(
    config: ClusterConfig,
    options: Options,
    preset: Preset | None,
    diagnostics: Diagnostics,
    *,
    resuming: bool = False,
) -> PlanInputs:
    """The inputs of a plan by `preset`, or by the preset that `options` name. Raises ConfigError if
    that preset does not exist."""
    train = options.train
    with diagnostics.reading("train", "strategy", "preset"):
        preset = preset or preset_called(train.strategy.preset)
    diagnostics.stop_if_wrong()
    assert preset is not None
    base = config.raw.base
    auto = AutoSettings(train, preset, base)
    return PlanInputs(config, auto.begun_with, options.checkpoint, preset, auto, base, resuming)
