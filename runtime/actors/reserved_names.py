"""The names that the runtime uses on every actor: a class that takes one by accident is refused,
when it is made or when an actor of it gets its place."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from runtime.actors.actor_state import ActorState, collision
from runtime.suggest import near_hint

# what classes of actors are meant to define, besides on_<message> and names with two underscores
OPEN = {"Options", "conversations", "on_start", "on_stop", "run", "writes"}


def reserved_names(base: type) -> frozenset[str]:
    """Of the class of all actors: every name that is not meant to be defined by others."""
    kinds = [kind for kind in base.__mro__ if kind is not object]
    found = {name for kind in kinds for name in (*vars(kind), *kind.__annotations__)}
    return frozenset(name for name in found - OPEN if not name.startswith(("on_", "__")))


def refuse_class(
    kind: type, base: type, reserved: Collection[str], overrides: Collection[str]
) -> None:
    """TypeError if the class, or one that it inherits from and that is no actor, defines a name
    that is `reserved` and not among its `overrides`."""
    for name in overrides:
        if name not in reserved:
            known = near_hint(name, reserved)
            raise TypeError(f"{kind.__name__}: overrides: the runtime uses no name {name!r}{known}")
    for definer in _new(kind, base):
        for name in vars(definer):
            if name in reserved and name not in overrides:
                where = "" if definer is kind else f" in {definer.__name__}"
                raise collision(kind.__name__, f"defines {name}{where}", name)


def refuse_attributes(actor: object, reserved: Collection[str], overrides: Collection[str]) -> None:
    """TypeError if the actor has an attribute of its own of a reserved name."""
    for name, value in vars(actor).items():
        if name in reserved and name not in overrides and not isinstance(value, ActorState):
            raise collision(type(actor).__name__, f"sets self.{name}", name)


def _new(kind: type, base: type) -> Iterator[type]:
    """The class itself and those before it that no other class of actors has been judged with."""
    judged = {
        earlier
        for parent in kind.__bases__
        if issubclass(parent, base)
        for earlier in parent.__mro__
    }
    return (definer for definer in kind.__mro__ if definer not in judged and definer is not object)
