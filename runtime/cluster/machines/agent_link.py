"""The link between `up` and the agents of a run: ZeroMQ over TCP, encrypted, with each end proved
by its key.

The link carries declared messages in envelopes, like all links, but without credits. Only pieces of
files could grow without limit, and their sender waits for Got. Each end sends a beat every
BEAT_SECONDS. A broken connection is noticed at once: the agent's port reports it, and at the end of
`up` the next beat cannot be delivered.
"""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Callable

from runtime.cluster.machines.agent_messages import BEAT_SECONDS, UP, Beat
from runtime.cluster.machines.invitation import Invitation
from runtime.errors import LaunchError, MessageError
from runtime.messages import wire
from runtime.messages.message import Envelope, Message
from runtime.reasons import reason
from runtime.transport import Limits
from runtime.transport.keys import Keys
from runtime.transport.ports import Frames, Listener
from runtime.transport.zeromq import ZmqPorts, key_pair

SCHEME = "curve://"
STRANGER = "a stranger"  # zeromq's name for a peer that connected and sent no handshake
# missing beats: with fewer, the connection of a living agent broke, since its last beat is recent
QUIET_BEATS = 4
# after a connection broke, for the handling of messages that had arrived: one may give the reason
LAST_WORDS_SECONDS = 0.1


class Reception:
    """The end of `up`.

    `on_message(machine, message)` is called with each message. `on_lost(machine, why)` is called
    once for each machine that had sent a message. `on_refused(who, why)` is called for a peer with
    a wrong key, for a second agent of a machine, and for data that are not a message. Peers that
    send no handshake are not reported. `silent` has the machines that were lost because no message
    came for longer than a link may be silent. A machine whose connection broke is not in it, since
    its host answered.
    """

    def __init__(
        self,
        limits: Limits,
        on_message: Callable[[str, Message], None],
        on_lost: Callable[[str, str], None],
        on_refused: Callable[[str, str], None],
    ) -> None:
        self._public, private = key_pair()
        self._peers: dict[str, bytes] = {}
        self._ports = ZmqPorts(
            limits, Keys(public=self._public, private=private, peers=self._peers)
        )
        self._silence = limits.link_seconds
        self._on_message = on_message
        self._on_lost = on_lost
        self._on_refused = on_refused
        self._listeners: list[Listener] = []
        self._invited: dict[str, Invitation] = {}  # machine -> its invitation that still counts
        self._former: set[str] = set()  # the tags of invitations that count no more
        self._there: dict[str, tuple[Listener, bytes]] = {}  # machine -> its listener and identity
        self._heard: dict[str, float] = {}
        self.silent: frozenset[str] = frozenset()
        self._ids = itertools.count(1)
        self._beating = asyncio.create_task(self._beat(), name="beats of machines")

    def invite(self, machine: str, *, attached: bool) -> Invitation:
        """Make the keys that admit the agent of a machine once. An earlier invitation of the
        machine counts no more."""
        if machine in self._invited:
            self.forget(machine, self._invited[machine])
        public, private = key_pair()
        made = Invitation(self._public, public, private, self._silence, attached)
        self.silent -= {machine}
        self._peers[machine] = public
        self._invited[machine] = made
        return made

    def listen(self, address: str, port: int) -> str:
        """Listen on an address of this host. Returns the address that agents dial. Raises
        LaunchError if it is taken."""
        try:
            wanted = f"{SCHEME}{address}:{port or '*'}"
            listener = self._ports.listen(
                wanted, "control", lambda i, f: self._arrived(listener, i, f), self._refused
            )
        except OSError as error:
            raise LaunchError(
                f"launcher.address: `up` cannot listen on {address}:{port or '*'}: {reason(error)}"
            ) from None
        self._listeners.append(listener)
        return listener.address.removeprefix(SCHEME)

    def tell(self, machine: str, message: Message) -> None:
        """Send a message to the agent of a machine. Does nothing if the agent is not connected."""
        if machine in self._there:
            listener, identity = self._there[machine]
            if not listener.answer(
                identity, wire.encode(_envelope(message, next(self._ids), UP, machine))
            ):
                silent = asyncio.get_running_loop().time() - self._heard[machine]
                if silent < QUIET_BEATS * BEAT_SECONDS:
                    why = "its connection broke"
                    asyncio.get_running_loop().call_later(
                        LAST_WORDS_SECONDS, self.forget, machine, self._invited[machine], why
                    )
                else:  # ZeroMQ itself has closed the connection of a silent agent
                    self._give_up(machine, silent)

    def forget(self, machine: str, invitation: Invitation, why: str = "") -> None:
        """Drop the agent that was invited so, and never admit it again. With a reason, its loss is
        reported. Does nothing if the machine has another invitation since."""
        if self._invited.get(machine) is not invitation:
            return
        del self._invited[machine], self._peers[machine]
        self._former.add(invitation.tag)
        if self._there.pop(machine, None) is not None and why:
            self._on_lost(machine, why)

    async def close(self) -> None:
        """Close the link. All agents have ended by then, or do not count any more."""
        self._there.clear()
        self._beating.cancel()
        await asyncio.gather(self._beating, return_exceptions=True)
        for listener in self._listeners:
            listener.close()
        await self._ports.close()

    def _arrived(self, listener: Listener, identity: bytes, frames: Frames) -> None:
        # the sender has proved that it holds the key of this machine
        machine, _, life = identity.decode(errors="replace").partition("/")
        # an agent that counts no more may still be connected, and may send
        if machine not in self._invited or life.partition(".")[0] in self._former:
            return
        if self._there.setdefault(machine, (listener, identity))[1] != identity:
            self._refused(f"another agent of '{machine}'", "one has joined already")
            return
        self._heard[machine] = asyncio.get_running_loop().time()
        try:
            message = wire.decode(frames).message
        except MessageError as error:
            why = f"its agent sent a message that this version does not know: {error}"
            self.forget(machine, self._invited[machine], why)
            return
        if not isinstance(message, Beat):
            self._on_message(machine, message)

    def _refused(self, who: str, why: str) -> None:
        # a stranger may only have checked that the port is open, as agents do before they dial
        if who != STRANGER:
            self._on_refused(who, why)

    async def _beat(self) -> None:
        loop = asyncio.get_running_loop()
        last = loop.time()
        while True:
            await asyncio.sleep(BEAT_SECONDS)
            late = loop.time() - last > self._silence / 2
            last = loop.time()
            for machine in list(self._there):
                # if this process was stopped itself, the machines were not silent
                self._heard[machine] = last if late else self._heard[machine]
                self.tell(machine, Beat())
                if last - self._heard[machine] > self._silence:
                    self._give_up(machine, last - self._heard[machine])

    def _give_up(self, machine: str, seconds: float) -> None:
        self.silent |= {machine}
        why = f"its agent gave no sign of life for {seconds:.1f} s"
        self.forget(machine, self._invited[machine], why)


class AgentLink:
    """The end of an agent. `on_message(message)` is called with each message, and `on_lost(why)`
    once."""

    def __init__(
        self,
        machine: str,
        address: str,
        invitation: Invitation,
        on_message: Callable[[Message], None],
        on_lost: Callable[[str], None],
    ) -> None:
        self._machine = machine
        self._on_message = on_message
        self._on_lost = on_lost
        self._ids = itertools.count(1)
        self._ports = ZmqPorts(limits_of(invitation.link_seconds), invitation.keys)
        identity = f"{machine}/{invitation.tag}.{os.getpid()}".encode()
        self._has_heard = False  # a message of `up`, which therefore knows the key
        self._port = self._ports.connect(
            UP, SCHEME + address, "control", identity, self._arrived, self._broke
        )
        self._beating = asyncio.create_task(self._beat(), name="beats")

    def tell(self, message: Message) -> None:
        """Send a message. It is dropped if the link is lost."""
        self._port.send(wire.encode(_envelope(message, next(self._ids), self._machine, UP)))

    async def close(self) -> None:
        """Close the link. Messages sent before may still leave."""
        self._beating.cancel()
        await asyncio.gather(self._beating, return_exceptions=True)
        self._port.close(flush=True)
        await self._ports.close()

    def _broke(self) -> None:
        why = "or it refused this key"
        if self._has_heard:
            back = f"where `up` runs, `scale --with {self._machine}` brings it back into a live run"
            why = f"as after the sleep of a machine, without a network, or at a sudden end; {back}"
        self._on_lost(f"the connection to `up` broke, {why}")

    def _arrived(self, frames: Frames) -> None:
        self._has_heard = True
        try:
            message = wire.decode(frames).message
        except MessageError as error:
            self._on_lost(f"`up` sent a message that this version does not know: {error}")
            return
        self._on_message(message)

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(BEAT_SECONDS)
            self.tell(Beat())


def _envelope(message: Message, number: int, sender: str, receiver: str) -> Envelope:
    return Envelope(message, number, sender, 1, receiver)


def limits_of(link_seconds: float) -> Limits:
    """Return the limits of this link: one piece of a file at a time, and small messages."""
    return Limits(message_bytes=4 << 20, link_seconds=link_seconds)
