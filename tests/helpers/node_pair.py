"""Two nodes on one event loop, for the tests of nodes: an asker on one and a server on the
other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from runtime.actors.actor import Actor
from runtime.actors.metrics import Metrics
from runtime.actors.node import Node
from runtime.compute.compute import InlineCompute
from runtime.errors import MessageError
from runtime.messages.message import Array, Envelope, Message, message
from runtime.simulation.clock import run_virtual
from runtime.transport import Endpoints, Limits
from runtime.transport.inproc import InprocNetwork, InprocTransport


@message
class Question(Message):
    number: int


@message
class Answer(Message):
    number: int


@message
class Other(Message):
    number: int


@message
class Bulk(Message):
    blob: Array


class Asker(Actor):
    """Only asks; tests drive it."""


class Server(Actor):
    """Answers at once, late, never or with an error, as the number in the question orders."""

    def __init__(self) -> None:
        self.seen: list[int] = []
        self.kept: list[Envelope] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.inside = 0
        self.stopped = 0

    async def on_stop(self) -> None:
        self.stopped += 1

    async def on_question(self, said: Question, envelope: Envelope) -> None:
        self.inside += 1
        assert self.inside == 1, "two handlers at once"
        self.seen.append(said.number)
        await self.gate.wait()
        self.inside -= 1
        match said.number:
            case -1:
                raise ValueError("no such number")
            case -2:
                raise MessageError("bad_number", "not legal here")
            case -3:
                self.kept.append(envelope)
            case -4:
                await self.reply(envelope, Other(number=0))
            case -5:
                await self.tell(envelope.sender, Other(number=-5))
            case number:
                await self.reply(envelope, Answer(number=2 * number))


class Pair:
    """Process p hosts `asker`, process q hosts `server`. The failures, ends and events that they
    report are kept.
    """

    def __init__(self, network: InprocNetwork | None = None, limits: Limits | None = None) -> None:
        self.failures: list[tuple[str, BaseException]] = []
        self.ends = 0
        self.events: list[tuple[str, str, dict[str, Any]]] = []
        network = network or InprocNetwork()
        self.p, self.road_p = self._node("p", network, limits or Limits())
        self.q, self.road_q = self._node("q", network, limits or Limits())
        self.asker = Asker()
        self.server = Server()

    def _node(
        self, name: str, network: InprocNetwork, limits: Limits
    ) -> tuple[Node, InprocTransport]:
        node = Node(name, 1, InlineCompute(), Metrics())
        node.lead = "asker"
        node.on_failure = lambda actor, error: self.failures.append((actor, error))
        node.on_event = lambda actor, event, fields: self.events.append((actor, event, fields))
        node.on_finished = self._ended
        return node, InprocTransport(name, node.deliver, node.reject, limits, network)

    def _ended(self) -> None:
        self.ends += 1

    async def open(self) -> None:
        for road in (self.road_p, self.road_q):
            await road.open()
        self.p.add("asker", "client", self.asker)
        self.q.add("server", "service", self.server)
        self.p.connect("q", 1, Endpoints(), ["server"], self.road_p)
        self.q.connect("p", 1, Endpoints(), ["asker"], self.road_q)
        for node in (self.p, self.q):
            await node.prepare(node.actors)
            node.begin(node.actors)

    async def close(self) -> None:
        for node, road in ((self.p, self.road_p), (self.q, self.road_q)):
            await node.stop()
            await road.close()

    async def settled(self) -> None:
        """Wait until the server has handled everything that was sent to it."""
        await self.asker.ask("server", Question(number=0), Answer)


def rejected(node: Node, reason: str) -> float:
    return node.metrics.registry.get_sample_value(
        "convoy_messages_rejected_total", {"role": "node", "reason": reason}
    ) or 0.0  # fmt: skip


def on_virtual_time(talk: Callable[[Pair], Any], **options: Any) -> Any:
    async def main() -> Any:
        made = Pair(**options)
        await made.open()
        try:
            return await talk(made)
        finally:
            await made.close()

    return run_virtual(main())
