"""The exchange that a worker was told to use: one of this package, or of another."""

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
    """The class of the exchange with this name. Raises ConfigError if there is none, or if it is
    not an Exchange."""
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
    """The part of a worker's options with the name of its exchange (`kind`) and the options of that
    exchange. Options that are plain data get their types here."""

    kind: str
    options: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "options", typed(exchange_called(self.kind).Options, self.options))

    @property
    def reads_device(self) -> bool:
        """Whether the exchange takes arrays on a device."""
        return exchange_called(self.kind).reads_device

    def of(
        self, actor: Actor, sizes: Mapping[int, int], ops: Backend, dtype: DTypeLike
    ) -> Exchange:
        """The exchange of this actor; see `Exchange`."""
        return exchange_called(self.kind)(actor, self.options, sizes, ops, dtype)
