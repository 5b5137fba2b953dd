"""The presets and exchanges that cluster.toml can name, and the modules that declare them. Other
packages add theirs by entry points of the same form.

A preset is a `roles.presets.request.Preset`, an exchange is a class on
`roles.exchange.exchange.Exchange`. They are imported when they are asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from runtime import extensions
from runtime.errors import ConfigError
from runtime.suggest import hint, near_hint


class Registry:
    """The names of one kind of thing. `known` are the names of this package, name ->
    "module:attribute". `group` is the group of entry points."""

    def __init__(self, group: str, known: Mapping[str, str]) -> None:
        self.group = group
        self.known = known

    def __repr__(self) -> str:
        return f"<{self.group}: {', '.join(self.names())}>"

    def names(self) -> list[str]:
        """The names of this package, then those of other packages."""
        return [
            *self.known,
            *(name for name in extensions.names(self.group) if name not in self.known),
        ]

    def find(self, name: str) -> object:
        """The object with this name. Raises ConfigError for an unknown name."""
        if name in self.known:
            module, _, attribute = self.known[name].partition(":")
            found: object = getattr(import_module(module), attribute)
            return found
        brought = extensions.find(self.group, name)
        if brought is None:
            raise ConfigError(
                [(f"{self.group}: found no entry '{name}'{hint(name, self.names())}")]
            )
        return brought

    def judged(self, name: str, *words: str) -> str:
        """The name, if it is known or one of these `words`. Otherwise raises ValueError with the
        text of a mistake in cluster.toml."""
        if name not in (*self.known, *words) and name not in (names := [*self.names(), *words]):
            raise ValueError(f"expected {' or '.join(map(repr, names))}{near_hint(name, names)}")
        return name


PRESETS = Registry(
    "convoy.presets",
    {
        "single": "roles.presets.whole:SINGLE",
        "sync": "roles.presets.merged:SYNC",
        "async": "roles.presets.merged:ASYNC",
        "omnivore": "roles.presets.merged:OMNIVORE",
        "replicas": "roles.presets.whole:REPLICAS",
        "mxnet-sync": "roles.presets.unmerged:MXNET_SYNC",
        "mxnet-async": "roles.presets.unmerged:MXNET_ASYNC",
        "singa": "roles.presets.unmerged:SINGA",
        "distbelief": "roles.presets.unmerged:DISTBELIEF",
        "parameter-server": "roles.presets.unmerged:PARAMETER_SERVER",
        "adam": "roles.presets.merged:ADAM",
        "firecaffe": "roles.presets.whole:FIRECAFFE",
        "host-accumulate": "roles.presets.whole:HOST_ACCUMULATE",
        "sparknet": "roles.presets.whole:SPARKNET",
        "dl4j": "roles.presets.whole:DL4J",
        "islands": "roles.presets.islands:ISLANDS",
        "local-fc-shards": "roles.presets.shards:LOCAL_FC_SHARDS",
        "one-weird-trick": "roles.presets.shards:ONE_WEIRD_TRICK",
    },
)
EXCHANGES = Registry(
    "convoy.exchanges",
    {
        "collective": "roles.exchange.collective:Collective",
        "per-host": "roles.exchange.per_host:PerHost",
        "tree": "roles.exchange.tree_exchange:TreeExchange",
        "ring": "roles.exchange.ring:RingExchange",
        "halving": "roles.exchange.halving:HalvingExchange",
        "host": "roles.exchange.host_accumulate:HostExchange",
    },
)
