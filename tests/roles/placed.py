"""An actor that has a name and no process: its parts can be tried alone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TypeVar, cast

from runtime import Actor
from runtime.actors.actor_state import Host
from runtime.actors.placing import attach

A = TypeVar("A", bound=Actor)


def placed(actor: A, name: str) -> A:
    """The actor itself, which can reach nobody."""
    attach(actor, cast(Host, SimpleNamespace(compute=None)), name, "alone")
    return actor
