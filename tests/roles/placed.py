"""An actor with a name and without a process, so that its parts can be tested alone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TypeVar, cast

from runtime import Actor
from runtime.actors.actor_state import Host
from runtime.actors.placing import attach

A = TypeVar("A", bound=Actor)


def placed(actor: A, name: str) -> A:
    """Give the actor a name. Returns the actor, which can reach no other actor."""
    attach(actor, cast(Host, SimpleNamespace(compute=None)), name, "alone")
    return actor
