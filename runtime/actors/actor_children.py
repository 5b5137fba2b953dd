"""The other actors that an actor starts, and ends, while the run goes on."""

from __future__ import annotations

from collections.abc import Sequence

from runtime.actor_options import Peer
from runtime.actors.actor_state import ActorState, Spec


class Parent:
    """The methods with which an actor starts and ends other actors."""

    _runtime: ActorState

    async def spawn(self, spec: Spec, links: Sequence[str] = ()) -> Peer:
        """Start another actor of the program, described by an ActorSpec, while the run goes on.

        It gets a process of its own, and links to this actor and to the actors in `links`. Returns
        its name when it has begun. Raises Refused, with the reason, if it cannot be started.
        """
        await self._runtime.host.children.spawn(self._runtime.name, spec, links)
        return spec.name

    async def end(self, name: str) -> None:
        """End an actor that this actor has started, after the actors that it has started itself.

        Its on_stop runs, and open asks to it end with ActorStopped. Returns when its process has
        ended. Raises Refused, with the reason, if it has ended or another actor has started it.
        """
        await self._runtime.host.children.end(self._runtime.name, name)
