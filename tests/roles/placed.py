"""An actor with a name and without a process, so that its parts can be tested alone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TypeVar, cast

from ops import Array
from runtime import Actor
from runtime.actors.actor_state import Host
from runtime.actors.placing import attach

A = TypeVar("A", bound=Actor)


async def same(array: Array) -> Array:
    """The array itself: it is on the host."""
    return array


def placed(actor: A, name: str) -> A:
    """Give the actor a name. Returns the actor, which can reach no other actor and shares no
    memory."""
    host = SimpleNamespace(compute=None, memory_range=None, to_host=same)
    attach(actor, cast(Host, host), name, "alone")
    return actor
