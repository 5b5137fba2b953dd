"""What else the same cluster.toml could choose: another number of groups, another preset."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from roles import registry
from roles.learning.tree import split
from roles.options import Options, Strategy
from roles.planning.planner import plan
from roles.planning.strategies import preset_called
from roles.presets.request import SHAPE, Preset
from runtime.config.sections import ClusterConfig
from runtime.plan.topology import Topology


@dataclass(frozen=True)
class Candidate:
    """A choice: its name, its strategy, which has so many `groups`; `known`: its topology, if that
    was planned."""

    name: str
    strategy: Strategy
    groups: int
    known: Topology | None = None

    def topology(self, config: ClusterConfig, options: Options) -> Topology:
        """The same run with this strategy. What is worth telling was told of the configured one.
        ConfigError."""
        return self.known or changed(config, options, strategy=self.strategy)


def by_groups(strategy: Strategy, topology: Topology) -> Iterator[Candidate]:
    """1, 2, 4, ... as many groups as workers and the configured number, where the preset lets one
    choose."""
    preset = preset_called(strategy.preset)
    chosen = preset.groups(strategy)
    for groups in _numbers(strategy.workers, chosen) if "groups" in preset.uses else [chosen]:
        known = topology if groups == chosen else None
        name = _in_groups(1 if preset.alone else strategy.workers, groups)
        yield Candidate(name, _with_groups(strategy, preset, groups), groups, known)


def by_preset(strategy: Strategy, topology: Topology) -> Iterator[Candidate]:
    """All presets that are known here, each with all numbers of groups that it lets one choose.
    What [train.strategy] says counts where a preset looks at it."""
    for name in registry.PRESETS.names():
        preset = preset_called(name)
        same = name == strategy.preset
        asked = strategy if same else _for(strategy, name, preset)
        for one in by_groups(asked, topology):
            yield replace(one, name=f"{name}, {one.name}", known=one.known if same else None)


def changed(config: ClusterConfig, options: Options, **keys: Any) -> Topology:
    """The same run with other keys of [train]. ConfigError."""
    train = options.train.model_copy(update=keys)
    return plan(config, options.model_copy(update={"train": train}), tell=False)


def _for(strategy: Strategy, name: str, preset: Preset) -> Strategy:
    """The strategy under the name of another preset, with the keys that this one looks at."""
    used = preset.uses | (preset.uses_live if strategy.live else frozenset())
    used -= frozenset() if preset.exchange else {"exchange"}
    fields = Strategy.model_fields
    unsaid = {key: fields[key].default for key in SHAPE - used} | {"options": {}, "preset": name}
    return strategy.model_copy(update=unsaid)


def _with_groups(strategy: Strategy, preset: Preset, groups: int) -> Strategy:
    return strategy.model_copy(update={"groups": groups}) if "groups" in preset.uses else strategy


def _numbers(workers: int, chosen: int) -> list[int]:
    doubled = [1 << power for power in range(workers.bit_length())]
    return sorted({*doubled, workers, chosen})


def _in_groups(workers: int, groups: int) -> str:
    """ "4 groups of 8"."""
    sizes = split(workers, groups)
    of = f"{min(sizes)}" if len({*sizes}) == 1 else f"{min(sizes)} or {max(sizes)}"
    return f"{groups} group{'s'[: groups != 1]} of {of}"
