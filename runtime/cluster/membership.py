"""The roll of a run: which processes have greeted, and from where. Peers and people are informed
from it."""

from __future__ import annotations

import os
import platform
from collections.abc import Collection
from dataclasses import asdict, replace
from typing import Any

from runtime.cluster.lifecycle import Directory, Hello
from runtime.plan.topology import SUPERVISOR, Placement, ProcessSpec
from runtime.transport import Endpoints, host_identity

# peers in one message: its header has 64 KiB, and a peer takes some hundred bytes plus the names of
# its actors
MOST_PEERS = 32


class Membership:
    """The processes of a run. `greetings` has the Hello of each process in its current life."""

    def __init__(self, placement: Placement) -> None:
        self._placed(placement)
        self.greetings: dict[str, Hello] = {}
        self._ended: dict[str, int] = {}  # process -> its last incarnation, while it is restarted

    def __repr__(self) -> str:
        return f"<roll: {len(self.greetings)} of {len(self.specs)} processes>"

    def _placed(self, placement: Placement) -> None:
        self._placement = placement
        self.specs = {spec.name: spec for spec in placement.processes}

    def grow(self, placement: Placement) -> None:
        """Go on with a placement that has a process more."""
        self._placed(placement)

    def remove(self, process: str, placement: Placement) -> None:
        """Go on with a placement without a process, which has ended. If its name is used again,
        that is its next life."""
        self.ended(process)
        self._placed(placement)

    def spec(self, process: str) -> ProcessSpec:
        """Return the plan of a process."""
        return self.specs[process]

    def life(self, process: str) -> int:
        """Return the last incarnation in which a process has greeted; 0 if it never has."""
        greeting = self.greetings.get(process)
        return self._ended.get(process, 0) if greeting is None else greeting.incarnation

    def ended(self, process: str) -> None:
        """Note that a process has died, and will greet again."""
        self._ended[process] = self.life(process)
        self.greetings.pop(process, None)

    def host(self, process: str) -> str:
        """Describe where a process runs, for people: its machine, the name of the host and the
        process id, as far as they are known."""
        if process == SUPERVISOR:
            return f"the host of `up` ({platform.node()}, pid {os.getpid()})"
        greeting = self.greetings.get(process)
        machine = self.specs[process].machine
        return f"{machine} ({greeting.host_name}, pid {greeting.pid})" if greeting else machine

    def on_one_host(self, processes: Collection[str]) -> bool:
        """Whether these processes are known to be on one host, where links need no network."""
        greetings = {name: self.greetings.get(name) for name in processes if name != SUPERVISOR}
        hosts = {greeting.host if greeting else "" for greeting in greetings.values()}
        if SUPERVISOR in processes:
            hosts.add(host_identity.identity())
        return len(hosts) == 1 and "" not in hosts

    def facts(self, process: str) -> dict[str, str | int]:
        """Return the machine of a process and, if it has greeted, the facts of its greeting. For
        people."""
        greeting = self.greetings.get(process)
        machine = self.specs[process].machine
        if greeting is None:
            return {"machine": machine}
        return {
            "machine": machine,
            "host": greeting.host,
            "host_name": greeting.host_name,
            "pid": greeting.pid,
        }

    def peers(self, process: str) -> tuple[str, ...]:
        """Return the processes that it exchanges messages with and that have greeted, except
        itself."""
        return tuple(name for name in self.neighbours(process) if name in self.greetings)

    def neighbours(self, process: str) -> tuple[str, ...]:
        """Return the processes that it exchanges messages with, except itself."""
        return tuple(name for name in self._placement.neighbours(process) if name != process)

    def directory_of(self, process: str) -> dict[str, Any]:
        """Return the entry of a process that has greeted in the directories of its peers."""
        hello = self.greetings[process]
        entry = {
            **asdict(endpoints(hello)),
            "incarnation": hello.incarnation,
            "actors": list(self.specs[process].actors),
        }
        return {process: entry}

    def directory(self, process: str, only: str = "") -> list[Directory]:
        """Return the addresses of all peers of a process that have greeted, or of one of them, in
        as many messages as needed."""
        peers: dict[str, Any] = {}
        for name in self._placement.neighbours(process):
            if name in self.greetings and name == (only or name):
                peers |= self.directory_of(name)
        names = list(peers)
        pieces = [names[at : at + MOST_PEERS] for at in range(0, len(names), MOST_PEERS)] or [[]]
        return [
            Directory(peers={name: peers[name] for name in piece}, more=number < len(pieces))
            for number, piece in enumerate(pieces, 1)
        ]


def endpoints(hello: Hello) -> Endpoints:
    """Return the addresses where a process that greets can be reached."""
    return Endpoints(hello.control, hello.bulk, hello.arena, hello.host)


def hears_at(hello: Hello, *, arrays: bool) -> Endpoints:
    """Return the addresses where a process receives the supervisor's messages. They have no arena
    unless these messages contain large `arrays`."""
    found = endpoints(hello)
    return found if arrays else replace(found, arena="")
