"""The actors that options name as peers, by fields and parameters of the type `Peer`. A topology in
which such an actor or the link to it is missing is refused before it runs."""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from functools import cache
from typing import Annotated, Any, Union, get_args, get_origin

from runtime.actor_options import Peer
from runtime.errors import ConfigError
from runtime.plan.topology import ActorSpec, Topology
from runtime.suggest import near_hint

_MARK = Peer.__metadata__[0]  # type: ignore[attr-defined]  # an Annotated has it


def wrong_peers(topology: Topology, roles: Mapping[str, Callable[..., Any]]) -> list[str]:
    """Return a line for each peer in the actors' options that is no actor of the topology, or has
    no link to the actor that names it. `roles` has the role class of each actor, by its name."""
    names = {actor.name for actor in topology.actors}
    joined = {frozenset(link) for link in topology.links}
    problems: list[str] = []
    for actor in topology.actors:
        place = f"actor '{actor.name}' (role '{actor.role}')"
        for key, peer in _named(roles[actor.name], actor):
            if peer not in names:
                problems.append(
                    f"{place}: {key}: no actor is called '{peer}'{near_hint(peer, names)}"
                )
            elif frozenset((actor.name, peer)) not in joined and peer != actor.name:
                link = (actor.name, peer)
                problems.append(
                    f"{place}: {key}: it has no link to '{peer}': "
                    f"add {link} to the links of the topology"
                )
    return problems


def refuse_unlinked(role: Callable[..., Any], actor: ActorSpec, linked: Collection[str]) -> None:
    """Raise ConfigError with each peer in the options of one actor that is not among the actors
    that it is `linked` with."""
    problems = [
        f"{key}: it has no link to '{peer}': name it in `links`{near_hint(peer, linked)}"
        for key, peer in _named(role, actor)
        if peer not in linked and peer != actor.name
    ]
    if problems:
        raise ConfigError(problems)


def _named(role: Callable[..., Any], actor: ActorSpec) -> Iterator[tuple[str, str]]:
    """Yield the peers in an actor's options, each with its key."""
    kind = getattr(role, "Options", None)
    hints = _hints(getattr(role, "__init__", None) if kind is None else kind)
    for key, annotation in hints.items():
        value = (
            actor.options.get(key)
            if isinstance(actor.options, Mapping)
            else getattr(actor.options, key, None)
        )
        yield from _found(annotation, value, key)


def _found(annotation: Any, value: Any, key: str) -> Iterator[tuple[str, str]]:
    if value is None or value == "":  # no peer
        return
    origin = get_origin(annotation)
    inner = get_args(annotation)
    if origin is Annotated:
        if _MARK in annotation.__metadata__:
            yield key, str(value)
        else:
            yield from _found(inner[0], value, key)
    elif origin in (Union, types.UnionType):
        for choice in inner:
            yield from _found(choice, value, key)
    elif isinstance(value, Mapping) and len(inner) == 2:
        for name, item in value.items():
            yield from _found(inner[1], item, f"{key}.{name}")
    elif isinstance(value, Sequence) and not isinstance(value, str) and inner:
        each = inner if origin is tuple and inner[-1] is not ... else inner[:1] * len(value)
        for number, (kind, item) in enumerate(zip(each, value, strict=False)):
            yield from _found(kind, item, f"{key}[{number}]")
    elif isinstance(annotation, type) and is_dataclass(value) and is_dataclass(annotation):
        for name, kind in _hints(annotation).items():
            yield from _found(kind, getattr(value, name, None), f"{key}.{name}")


@cache
def _hints(of: Any) -> dict[str, Any]:
    """Return the annotations of a class or a function. Empty if they cannot be resolved."""
    try:
        return typing.get_type_hints(of, include_extras=True)
    except (NameError, TypeError, AttributeError):
        return {}
