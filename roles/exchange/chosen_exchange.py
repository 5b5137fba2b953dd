"""The exchange that a worker was told to use: one of ours, or of another package."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import DTypeLike

from ops import Backend
from roles import registry
from roles.exchange.exchange import Exchange
from runtime import Actor, ConfigError
from runtime.actor_options import typed


def exchange_called(kind: str) -> type[Exchange]:
    """The class of this name. ConfigError if there is none, or it is no Exchange."""
    found = registry.EXCHANGES.find(kind)
    if isinstance(found, type) and issubclass(found, Exchange):
        return found
    raise ConfigError(
        [
            (
                f"exchange '{kind}': found {found!r}, expected a class on "
                "roles.exchange.exchange.Exchange"
            )
        ]
    )


@dataclass(frozen=True)
class Chosen:
    """A part of a worker's options: the exchange's name, and what it is told. Plain data are typed
    here."""

    kind: str
    options: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "options", typed(exchange_called(self.kind).Options, self.options))

    def of(
        self, actor: Actor, sizes: Mapping[int, int], ops: Backend, dtype: DTypeLike
    ) -> Exchange:
        """The exchange of this actor; see `Exchange`."""
        return exchange_called(self.kind)(actor, self.options, sizes, ops, dtype)
