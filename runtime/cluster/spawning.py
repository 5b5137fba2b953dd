"""Actors that start others while the run goes on, as seen from their process: the messages to the
supervisor, and the answers. `growing.py` is the supervisor's side.

      actor                    supervisor                     new process, its peers
        |   ----- Spawn ----->     |   starts the process        |
        |                          |   <------- Hello, Ready --- |   as at the start of a run
        |                          |   -------- Link ----------> |   each peer confirms the link
        |                          |   -------- Begin ---------> |
        |   <---- Grown ------     |                             |
        |   ----- EndChild -->     |   -------- Halt ----------> |
        |                          |   -------- Unlink --------> |   once it has ended
        |   <---- Grown ------     |
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from runtime.actor_options import plain
from runtime.actors.actor_state import Spec
from runtime.actors.node import Node
from runtime.errors import ConfigError, MessageError, Refused
from runtime.messages.message import Array, Json, Message, message
from runtime.plan.program import Role, child_of, understood_by
from runtime.plan.topology import SUPERVISOR, ActorSpec


@message
class Spawn(Message):
    """Start an actor that is linked to the sender and to `links`. `spec` is its description as JSON
    text in UTF-8; `restarts` is what its options say."""

    name: str
    spec: Array
    links: tuple[str, ...]
    restarts: int


@message
class EndChild(Message):
    """End an actor that the sender has started."""

    name: str


@message
class Grown(Message):
    """The actor has begun, or has ended. Otherwise `problem` says why not."""

    problem: str


@message
class Link(Message):
    """Link processes that are new, as in `Directory.peers`. `roles`: actor -> its role. Answered
    with True."""

    peers: Json
    roles: Json


@message
class Unlink(Message):
    """A peer has ended in order. Open asks to its actors end. Answered with True."""

    process: str


class Spawning:
    """Starts and ends actors for the actors of `node`. `roles` returns the roles of the program."""

    def __init__(self, node: Node, roles: Callable[[], Mapping[str, Role]]) -> None:
        self._node = node
        self._roles = roles

    def __repr__(self) -> str:
        return f"<spawning in {self._node.process}>"

    async def spawn(self, parent: str, spec: Spec, links: Sequence[str]) -> None:
        """Start an actor; see Actor.spawn."""
        name = str(getattr(spec, "name", spec))
        try:
            child = child_of(self._roles(), parent, spec, links)
            text = json.dumps(described(child)).encode()
            wish = Spawn(
                name=name,
                spec=np.frombuffer(text, np.uint8),
                links=tuple(links),
                restarts=child.restarts,
            )
            await self._asked(parent, wish)
        except (ConfigError, MessageError, Refused) as error:
            raise Refused(f"{parent} cannot start '{name}': {error}") from None

    async def end(self, parent: str, name: str) -> None:
        """End an actor; see Actor.end."""
        try:
            await self._asked(parent, EndChild(name=name))
        except Refused as error:
            raise Refused(f"{parent} cannot end '{name}': {error}") from None

    def learn(self, roles: Mapping[str, str]) -> None:
        """Take in the messages that new actors understand; `roles` is actor -> role."""
        for name, role in roles.items():
            kinds = understood_by(self._roles(), ActorSpec(name, role))
            if kinds is not None:
                self._node.router.vocabulary[name] = kinds

    async def _asked(self, parent: str, wish: Message) -> None:
        grown = await self._node.ask(parent, SUPERVISOR, wish, Grown, step=-1, timeout=None)
        if grown.problem:
            raise Refused(grown.problem)


def described(child: ActorSpec) -> dict[str, Any]:
    """Return the description of an actor as plain data; `ActorSpec(**data)` reads it."""
    return {
        "name": child.name,
        "role": child.role,
        "options": plain(child.options),
        "emulated": plain(child.emulated),
    }
