"""The names that the runtime uses on every actor. A class that takes one of them by accident is
refused when the class is made, or when one of its actors is placed."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from runtime.actors.actor_state import ActorState, collision
from runtime.suggest import near_hint

# names that actor classes may define, in addition to on_<message> and names that start with "__"
OPEN = {"Options", "conversations", "on_start", "on_stop", "reads_device", "run", "writes"}
MEANT = ', or declare overrides=("{}",) if you mean to redefine it'


class Handlers(dict[type[Any], str]):
    """Message class -> name of its handler, as the runtime writes it into each actor class."""


class Overrides(frozenset[str]):
    """The reserved names that an actor class redefines on purpose, as the runtime writes them into
    each actor class."""


def reserved_names(base: type) -> frozenset[str]:
    """Return every name of the base class of actors, `base`, that subclasses must not define."""
    kinds = [kind for kind in base.__mro__ if kind is not object]
    found = {name for kind in kinds for name in (*vars(kind), *kind.__annotations__)}
    return frozenset(name for name in found - OPEN if not name.startswith(("on_", "__")))


def refuse_class(
    kind: type, base: type, reserved: Collection[str], overrides: Collection[str]
) -> None:
    """Raise TypeError if the class defines a `reserved` name that is not among its `overrides`.
    Mixin classes that are not actors count too. A decorator such as `dataclass(slots=True)` copies
    a class with the runtime's entries, which are legal."""
    for name in overrides:
        if name not in reserved:
            known = near_hint(name, reserved)
            raise TypeError(f"{kind.__name__}: overrides: the runtime uses no name {name!r}{known}")
    for definer in _new(kind, base):
        where = "" if definer is kind else f" in {definer.__name__}"
        for name, value in vars(definer).items():
            ours = isinstance(value, Handlers | Overrides)
            if name in reserved and name not in overrides and not ours:
                meant = "" if name.startswith("_") else MEANT.format(name)
                raise collision(kind.__name__, f"defines {name}{where}", name, meant)


def refuse_attributes(actor: object, reserved: Collection[str], overrides: Collection[str]) -> None:
    """Raise TypeError if the actor has set an attribute with a reserved name."""
    for name, value in vars(actor).items():
        if name in reserved and name not in overrides and not isinstance(value, ActorState):
            raise collision(type(actor).__name__, f"sets self.{name}", name)


def _new(kind: type, base: type) -> Iterator[type]:
    """Yield the class, and those of its bases that were not checked for an earlier actor class."""
    judged = {
        earlier
        for parent in kind.__bases__
        if issubclass(parent, base)
        for earlier in parent.__mro__
    }
    return (definer for definer in kind.__mro__ if definer not in judged and definer is not object)
