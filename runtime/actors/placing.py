"""An actor gets its place in a host, and prepares. Attributes with names of the runtime are refused
here."""

from __future__ import annotations

import logging

from runtime.actors.actor import RESERVED, Actor
from runtime.actors.actor_state import ActorState, Host
from runtime.actors.reserved_names import refuse_attributes
from runtime.compute.compute import Compute


def attach(
    actor: Actor, host: Host, name: str, role: str, device: Compute | None = None
) -> ActorState:
    """Place an actor in a host and return its state. `device` replaces the host's device. Raises
    TypeError if the actor has set an attribute whose name the runtime uses."""
    refuse_attributes(actor, RESERVED, actor._runtime_overrides)
    log = logging.getLogger(f"convoy.{name}")
    actor._runtime = ActorState(host, name, role, device or host.compute, log)
    return actor._runtime


async def start(actor: Actor) -> None:
    """Let an actor prepare. Raises TypeError like `attach`."""
    await actor.on_start()
    refuse_attributes(actor, RESERVED, actor._runtime_overrides)
