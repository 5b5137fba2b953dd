"""Network cables with a delay. A kernel without `netem` cannot delay frames, so a thread passes
them on."""

from __future__ import annotations

import fcntl
import json
import os
import random
import select
import struct
import subprocess
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field

from benchmarks.helpers.machines import Machine, Refused

TUN = "/dev/net/tun"
TUNSETIFF = 0x400454CA  # see linux/if_tun.h
IFF_TAP = 0x0002
IFF_NO_PI = 0x1000
FRAME = 1 << 16  # bytes: no frame is larger
WAITING = 10_000  # frames that a device queues for the thread; a TCP window of 1.5 MB has 1000
AT_ONCE = 256  # frames read before the due ones are sent
IPV4 = b"\x08\x00"
SPARE = "spare"  # the machine's own cable, while it is unplugged


@dataclass
class Way:
    """One direction of a cable. Frames leave in the order in which they arrived, each `least` to
    `most` seconds later. `passed` counts the IPv4 frames."""

    source: int
    target: int
    least: float
    most: float
    chance: random.Random
    passed: int = 0
    frames: deque[tuple[float, bytes]] = field(default_factory=deque)

    def take(self) -> None:
        """Read the frames that have arrived."""
        with suppress(BlockingIOError):
            for _ in range(AT_ONCE):
                frame = os.read(self.source, FRAME)
                due = time.monotonic() + self.chance.uniform(self.least, self.most)
                self.frames.append((max(due, self.frames[-1][0]) if self.frames else due, frame))

    def give(self) -> float | None:
        """Pass on the due frames. Returns the seconds until the next one is due, None if none
        waits."""
        while self.frames and (left := self.frames[0][0] - time.monotonic()) <= 0:
            _, frame = self.frames.popleft()
            with suppress(OSError):  # a device that is down, or full, loses frames, like any
                os.write(self.target, frame)
                self.passed += frame[12:14] == IPV4
        return left if self.frames else None


class Relay:
    """The thread between two devices, and how many frames it has passed on in each direction."""

    def __init__(self, inside: int, outside: int, least: float, most: float, seed: int) -> None:
        chance = random.Random(seed)
        self._ways = {
            outside: Way(outside, inside, least, most, chance),
            inside: Way(inside, outside, least, most, chance),
        }
        self._over = os.eventfd(0)
        self._thread = threading.Thread(target=self._live, name="relay", daemon=True)
        self._thread.start()

    @property
    def passed(self) -> tuple[int, int]:
        """The IPv4 frames that were passed on: to the machine, and from the machine."""
        to, of = self._ways.values()
        return to.passed, of.passed

    def close(self) -> None:
        """Stop the thread. Frames that still wait are lost."""
        os.eventfd_write(self._over, 1)
        self._thread.join()
        os.close(self._over)

    def _live(self) -> None:
        poll = select.poll()
        for descriptor in (self._over, *self._ways):
            poll.register(descriptor, select.POLLIN)
        while True:
            waits = [left for way in self._ways.values() if (left := way.give()) is not None]
            ready = [
                descriptor for descriptor, _ in poll.poll(1 + 1000 * min(waits) if waits else None)
            ]
            if self._over in ready:
                return
            for descriptor in ready:
                self._ways[descriptor].take()


@contextmanager
def delayed(
    machine: Machine, least: float, most: float, seed: int = 1, *, limit: str = ""
) -> Iterator[Relay]:
    """Replace the machine's cable by one on which each frame waits `least` to `most` seconds in
    each direction. `limit`: of its rate in each direction (`rate_limit`); empty: none. Open
    connections stay. At the end the machine's own cable is plugged in again. Raises Refused with
    the reason if this machine cannot do that."""
    own = _links("-n", machine.namespace, "link", "show", "eth0")[0]
    cable = next(link for link in _links("link") if link["ifindex"] == own["link_index"])
    with ExitStack() as undo:
        names = [f"{cable['ifname']}{letter}" for letter in "io"]
        inside, outside = (_tap(name, undo) for name in names)
        _ip("link", "set", names[1], "master", cable["master"], "txqueuelen", str(WAITING), "up")
        _ip("link", "set", names[0], "address", own["address"], "txqueuelen", str(WAITING))
        _ip("link", "set", names[0], "netns", machine.namespace)
        undo.callback(_plug, machine, SPARE, "eth0")
        _unplug(machine, "eth0", SPARE)
        undo.callback(_unplug, machine, "eth0", names[0])
        _ip("-n", machine.namespace, "addr", "add", f"{machine.address}/24", "dev", names[0])
        _plug(machine, names[0], "eth0")
        if limit:
            _run("tc", "-n", machine.namespace, "qdisc", "add", "dev", "eth0", *limit.split())
            _run("tc", "qdisc", "add", "dev", names[1], *limit.split())
        relay = Relay(inside, outside, least, most, seed)
        undo.callback(relay.close)
        yield relay


def _tap(name: str, undo: ExitStack) -> int:
    """Open a device whose frames this process reads and writes. Closing it removes it."""
    try:
        descriptor = os.open(TUN, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        undo.callback(os.close, descriptor)
        fcntl.ioctl(
            descriptor, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TAP | IFF_NO_PI)
        )
    except OSError as error:
        raise Refused(f"{TUN}: {error.strerror}") from None
    return descriptor


def _unplug(machine: Machine, name: str, then: str) -> None:
    """Take a device down and rename it to `then`. Its address stays; its routes are dropped."""
    _ip("-n", machine.namespace, "link", "set", name, "down")
    _ip("-n", machine.namespace, "link", "set", name, "name", then)


def _plug(machine: Machine, name: str, then: str) -> None:
    """Rename a device to `then` and bring it up, which restores the route of its address."""
    _ip("-n", machine.namespace, "link", "set", name, "name", then)
    _ip("-n", machine.namespace, "link", "set", then, "up")


def _links(*words: str) -> list[dict[str, str]]:
    found: list[dict[str, str]] = json.loads(_ip("-json", *words))
    return found


def _ip(*words: str) -> str:
    return _run("ip", *words)


def _run(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True, timeout=20, check=False)
    if done.returncode:
        raise Refused(f"{' '.join(words)}: {done.stderr.strip()}")
    return done.stdout
