"""The alternatives that the same cluster.toml allows: another number of groups, or another
preset."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from roles import registry
from roles.learning.tree import split
from roles.options import Options, Strategy
from roles.planning.kind_speeds import groups_of
from roles.planning.planner import plan
from roles.planning.strategies import preset_called
from roles.presets.request import SHAPE, Preset
from runtime.config.sections import ClusterConfig
from runtime.plan.topology import Topology


@dataclass(frozen=True)
class Candidate:
    """An alternative: its strategy and the `sizes` of its groups. `preset`: its preset, if presets
    are compared. `known`: its topology, if it was planned already."""

    strategy: Strategy
    sizes: tuple[int, ...]
    preset: str = ""
    known: Topology | None = None

    @property
    def groups(self) -> int:
        """The number of groups."""
        return len(self.sizes)

    @property
    def name(self) -> str:
        """ "4 groups of 8"."""
        least, most = min(self.sizes), max(self.sizes)
        between = {0: f"{least}", 1: f"{least} or {most}"}.get(most - least, f"{least} to {most}")
        groups = f"{self.groups} group{'s'[: self.groups != 1]} of {between}"
        return f"{self.preset}, {groups}" if self.preset else groups

    def sized(self, topology: Topology) -> Candidate:
        """The alternative with the sizes that its groups have in its topology. They differ by more
        than one worker where machines have kinds of different speeds."""
        sizes = tuple(map(len, groups_of(topology)))
        return replace(self, sizes=sizes) if len(sizes) == self.groups else self

    def topology(self, config: ClusterConfig, options: Options) -> Topology:
        """The topology of the run with this strategy. Only the configured strategy logs warnings.
        Raises ConfigError."""
        return self.known or changed(config, options, strategy=self.strategy)


def by_groups(strategy: Strategy, topology: Topology) -> Iterator[Candidate]:
    """The alternatives with 1, 2, 4, ... groups, one group per worker, and the configured number,
    where the preset lets the user choose."""
    preset = preset_called(strategy.preset)
    chosen = preset.groups(strategy)
    for groups in _numbers(strategy.workers, chosen) if "groups" in preset.uses else [chosen]:
        known = topology if groups == chosen else None
        sizes = tuple(split(1 if preset.alone else strategy.workers, groups))
        yield Candidate(_with_groups(strategy, preset, groups), sizes, known=known)


def by_preset(strategy: Strategy, topology: Topology) -> Iterator[Candidate]:
    """The alternatives with each known preset, each with all numbers of groups that it allows. Keys
    of [train.strategy] count where a preset uses them."""
    for name in registry.PRESETS.names():
        preset = preset_called(name)
        same = name == strategy.preset
        asked = strategy if same else _for(strategy, name, preset)
        for one in by_groups(asked, topology):
            yield replace(one, preset=name, known=one.known if same else None)


def changed(config: ClusterConfig, options: Options, **keys: Any) -> Topology:
    """The topology of the same run with other keys of [train]. Raises ConfigError."""
    train = options.train.model_copy(update=keys)
    return plan(config, options.model_copy(update={"train": train}), tell=False)


def _for(strategy: Strategy, name: str, preset: Preset) -> Strategy:
    """The strategy under the name of another preset, with the keys that this preset uses."""
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
