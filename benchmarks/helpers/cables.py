"""Cables that let frames wait. A kernel without `netem` delays nothing by itself, so a thread
passes the frames on."""

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
FRAME = 1 << 16  # bytes: none is larger
WAITING = 10_000  # frames that a device keeps for the thread; 1000 are a TCP window of 1.5 MB
AT_ONCE = 256  # frames read before those that are due are looked at
IPV4 = b"\x08\x00"
SPARE = "spare"  # what the cable that was taken out is called meanwhile


@dataclass
class Way:
    """One direction of a cable: frames leave in the order in which they came, each `least` to
    `most` seconds later. `passed` counts those of IPv4."""

    source: int
    target: int
    least: float
    most: float
    chance: random.Random
    passed: int = 0
    frames: deque[tuple[float, bytes]] = field(default_factory=deque)

    def take(self) -> None:
        """Read what has come."""
        with suppress(BlockingIOError):
            for _ in range(AT_ONCE):
                frame = os.read(self.source, FRAME)
                due = time.monotonic() + self.chance.uniform(self.least, self.most)
                self.frames.append((max(due, self.frames[-1][0]) if self.frames else due, frame))

    def give(self) -> float | None:
        """Pass on what is due; the seconds until there is more, None if nothing waits."""
        while self.frames and (left := self.frames[0][0] - time.monotonic()) <= 0:
            _, frame = self.frames.popleft()
            with suppress(OSError):  # a device that is down, or full, loses frames as any does
                os.write(self.target, frame)
                self.passed += frame[12:14] == IPV4
        return left if self.frames else None


class Relay:
    """The thread between two devices, and what it has passed on: to the machine, and from it."""

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
        """Frames of IPv4, to the machine and from it."""
        to, of = self._ways.values()
        return to.passed, of.passed

    def close(self) -> None:
        """What still waits is lost."""
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
def delayed(machine: Machine, least: float, most: float, seed: int = 1) -> Iterator[Relay]:
    """The machine's cable is replaced, under whatever connections it has, by one on which each
    frame waits so many seconds in each direction; its own is plugged in again afterwards. Refused
    says why that cannot be."""
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
        relay = Relay(inside, outside, least, most, seed)
        undo.callback(relay.close)
        yield relay


def _tap(name: str, undo: ExitStack) -> int:
    """A device whose frames are read and written here. It is gone when it is closed."""
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
    """Take a device down, which is called otherwise then. Its address stays, its routes go."""
    _ip("-n", machine.namespace, "link", "set", name, "down")
    _ip("-n", machine.namespace, "link", "set", name, "name", then)


def _plug(machine: Machine, name: str, then: str) -> None:
    """Call a device so, and take it up; the route of its address comes with it."""
    _ip("-n", machine.namespace, "link", "set", name, "name", then)
    _ip("-n", machine.namespace, "link", "set", then, "up")


def _links(*words: str) -> list[dict[str, str]]:
    found: list[dict[str, str]] = json.loads(_ip("-json", *words))
    return found


def _ip(*words: str) -> str:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, timeout=20, check=False)
    if done.returncode:
        raise Refused(f"ip {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout
