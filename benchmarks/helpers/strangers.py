"""Eight ways in which a stranger tries to enter an encrypted link. Each tries once, and returns
when it was turned away.

A stranger knows everything that is not secret: the listener's public key, the names of its peers,
and how a message is encoded. `python -m benchmarks.helpers.strangers` is a process of strangers.
Its first line of input names the doors. Each further line names a way, a number of tries, and the
seconds that they take. The process answers each with the number of strangers that were let in.
"""

from __future__ import annotations

import json
import os
import re
import select
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import zmq

from runtime.messages import wire
from runtime.messages.message import Envelope, WindDown
from runtime.transport.keys import Keys
from runtime.transport.zeromq import key_pair

SAID = Envelope(WindDown(reason="forged"), 1 << 40, "supervisor", 1, "coordinator")
SECONDS = 0.3  # for a handshake that must fail
# the greeting of a client of ZMTP 3.1
GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x01" + b"CURVE".ljust(20, b"\0") + bytes(32)


@dataclass
class Door:
    """A listener: its address, its public key, the living peer to pose as, and the message to send.
    `secret`: an old one. `recorded`: all bytes that a peer sent when it was let in."""

    host: str
    port: int
    public: bytes
    identity: bytes
    said: Envelope = SAID
    secret: bytes = b"the secret of another run"
    recorded: bytes = b""
    held: list[socket.socket] = field(default_factory=list)

    def knock(self, **options: Any) -> bool:
        """Connect as a ZeroMQ peer with these options. Returns whether there was an answer."""
        context = zmq.Context()
        dealer = context.socket(zmq.DEALER)
        try:
            options = {"LINGER": 0, "RECONNECT_IVL": -1, "ROUTING_ID": self.identity, **options}
            for name, value in options.items():
                dealer.setsockopt(getattr(zmq, name), value)
            dealer.connect(f"tcp://{self.host}:{self.port}")
            with suppress(zmq.Again):
                dealer.send_multipart(wire.encode(self.said), zmq.DONTWAIT)
            return bool(dealer.poll(int(SECONDS * 1000)))
        finally:
            dealer.close()
            context.term()

    def say(self, said: bytes) -> bool:
        """Send these bytes. Returns whether the answer was longer than ZeroMQ's greeting of 64
        bytes."""
        heard = b""
        with socket.create_connection((self.host, self.port), 5) as door:
            door.settimeout(SECONDS)
            with suppress(OSError):
                door.sendall(said)
                while more := door.recv(1 << 16):
                    heard += more
        return len(heard) > len(GREETING)


def no_key(door: Door) -> bool:
    """Announces CURVE, and then sends messages without any handshake."""
    frame = b"".join(bytes(part) for part in wire.encode(door.said))
    ready = (
        b"\x04\x26\x05READY" + b"\x0bSocket-Type" + b"\0\0\0\x06DEALER" + b"\x08Identity" + bytes(4)
    )
    return door.say(GREETING + ready + b"\x02" + len(frame).to_bytes(8, "big") + frame)


def wrong_server_key(door: Door) -> bool:
    """Expects another public key of the listener."""
    public, private = key_pair()
    return door.knock(
        CURVE_SERVERKEY=key_pair()[0], CURVE_PUBLICKEY=public, CURVE_SECRETKEY=private
    )


def unknown_key(door: Door) -> bool:
    """Has a key that the listener does not know, as a process of another run has."""
    public, private = key_pair()
    return door.knock(CURVE_SERVERKEY=door.public, CURVE_PUBLICKEY=public, CURVE_SECRETKEY=private)


def null(door: Door) -> bool:
    """Connects without encryption."""
    return door.knock()


def plain(door: Door) -> bool:
    """Sends a secret in the clear, as over loopback."""
    return door.knock(PLAIN_USERNAME=b"convoy", PLAIN_PASSWORD=door.secret)


def garbage(door: Door) -> bool:
    """Sends bytes that are not ZeroMQ's, or asks for a web page."""
    return door.say(b"GET / HTTP/1.1\r\n\r\n") or door.say(b"\xff" + os.urandom(100_000))


def half_open(door: Door) -> bool:
    """Begins a handshake and holds the connection open."""
    held = socket.create_connection((door.host, door.port), 5)
    held.sendall(GREETING)
    door.held.append(held)
    return False


def replayed(door: Door) -> bool:
    """Repeats the bytes that a peer sent when it was let in."""
    with socket.create_connection((door.host, door.port), 5) as stranger:
        stranger.settimeout(SECONDS)
        stranger.sendall(door.recorded)
        heard = b""
        with suppress(OSError):
            while more := stranger.recv(1 << 16):
                heard += more
    # anyone gets a greeting and a WELCOME; only READY would follow for a peer
    return len(heard) > len(GREETING) + 200


STRANGERS: dict[str, Callable[[Door], bool]] = {
    each.__name__: each
    for each in (half_open, no_key, wrong_server_key, unknown_key, null, plain, garbage, replayed)
}


class Recorder:
    """A proxy for one connection to a listener, which keeps the bytes that its client sends."""

    def __init__(self, host: str, port: int) -> None:
        self.sent = b""
        self._target = host, port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._over, self._ends = socket.socketpair()
        self._thread = threading.Thread(target=self._carry, daemon=True)
        self._thread.start()

    def _carry(self) -> None:
        client, _ = self._listener.accept()
        # a client that is refused is cut off, perhaps while it still sends
        with suppress(ConnectionError), client, socket.create_connection(self._target) as target:
            while True:
                ready, _, _ = select.select([client, target, self._ends], [], [])
                if self._ends in ready:
                    return
                for source, sink in ((client, target), (target, client)):
                    if source in ready:
                        data = source.recv(1 << 16)
                        if not data:
                            return
                        self.sent += data if source is client else b""
                        sink.sendall(data)

    def close(self) -> None:
        """Close the connection and the listener."""
        self._over.send(b"!")
        self._thread.join(5)
        for each in (self._listener, self._over, self._ends):
            each.close()


@contextmanager
def recording(host: str, port: int) -> Iterator[Recorder]:
    """A recorder that is closed at the end."""
    recorder = Recorder(host, port)
    try:
        yield recorder
    finally:
        recorder.close()


def listening(pids: Iterable[int]) -> set[int]:
    """The TCP ports on which processes of one network listen. Any user may see them."""
    found: set[int] = set()
    for pid in pids:
        inodes = {
            re.sub(r"\D", "", str(entry.readlink())) for entry in Path(f"/proc/{pid}/fd").iterdir()
        }
        rows = [line.split() for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]]
        found |= {
            int(row[1].rpartition(":")[2], 16)
            for row in rows
            if row[3] == "0A" and row[9] in inodes
        }
    return found


def doors_of(
    host: str, pid: int, page: int, keys: Path, name: str, peer: tuple[str, int]
) -> list[Door]:
    """Both lanes of the process `name` as doors for a stranger that poses as `peer`, which is the
    peer's name and process number. `keys` is the folder with the keys of the run."""
    own = Keys.read(keys / f"{name}.keys")
    others = Keys.read(keys / f"{peer[0]}.keys")
    identity = f"{peer[0]}/1.{peer[1]}".encode()
    found = []
    for port in sorted(listening([pid]) - {page}):
        found.append(Door(host, port, own.public, identity, secret=own.secret.encode()))
        found[-1].recorded = recorded(found[-1], others, peer[0])
    return found


def recorded(door: Door, keys: Keys, peer: str) -> bytes:
    """The bytes that a peer sends when it is let in, with its real key and a new incarnation."""
    own = keys.public, keys.private
    with (
        recording(door.host, door.port) as recorder,
        zmq.Context() as context,
        context.socket(zmq.DEALER) as dealer,
    ):
        for name, value in {"LINGER": 0, "ROUTING_ID": f"{peer}/9.1".encode()}.items():
            dealer.setsockopt(getattr(zmq, name), value)
        dealer.curve_serverkey, dealer.curve_publickey, dealer.curve_secretkey = door.public, *own
        with dealer.get_monitor_socket(zmq.Event.HANDSHAKE_SUCCEEDED) as monitor:
            dealer.connect(f"tcp://127.0.0.1:{recorder.port}")
            if not monitor.poll(5000):
                raise TimeoutError(f"{peer} does not get in at {door.host}:{door.port}")
    return recorder.sent


def line_of(doors: list[Door]) -> str:
    """The first line for a process of strangers."""
    kept = ("public", "identity", "secret", "recorded")
    told = [
        {name: getattr(door, name).hex() for name in kept} | {"host": door.host, "port": door.port}
        for door in doors
    ]
    return json.dumps(told)


def main() -> int:
    """See the module docstring."""
    told = json.loads(sys.stdin.readline())
    doors = [
        Door(
            **{
                key: value if key in ("host", "port") else bytes.fromhex(value)
                for key, value in each.items()
            }
        )
        for each in told
    ]
    with ThreadPoolExecutor(20) as several:
        for line in sys.stdin:
            name, tries, seconds = line.split()
            began = time.monotonic()
            waiting = []
            for number in range(int(tries)):
                time.sleep(
                    max(0.0, began + number * float(seconds) / int(tries) - time.monotonic())
                )
                waiting.append(several.submit(STRANGERS[name], doors[number % len(doors)]))
            let_in = sum(each.result() for each in waiting)
            for door in doors:
                while door.held:
                    door.held.pop().close()
            print(let_in, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
