"""The roll of a run: which processes have greeted and from where. What peers and people are told of
them."""

from __future__ import annotations

import os
import platform
from dataclasses import asdict, replace

from runtime.cluster.lifecycle import Directory, Hello
from runtime.plan.topology import SUPERVISOR, Placement, ProcessSpec
from runtime.transport import Endpoints

# of one message, whose header has 64 KiB; a peer has some hundred bytes, and the names of its
# actors
MOST_PEERS = 32


class Membership:
    """`greetings`: what each process said of itself, in its present life."""

    def __init__(self, placement: Placement) -> None:
        self._placement = placement
        self.specs = {spec.name: spec for spec in placement.processes}
        self.greetings: dict[str, Hello] = {}

    def __repr__(self) -> str:
        return f"<roll: {len(self.greetings)} of {len(self.specs)} processes>"

    def spec(self, process: str) -> ProcessSpec:
        """What was planned of a process."""
        return self.specs[process]

    def life(self, process: str) -> int:
        """Its incarnation; 0 if it has not greeted."""
        greeting = self.greetings.get(process)
        return 0 if greeting is None else greeting.incarnation

    def host(self, process: str) -> str:
        """For people: its machine, the name of the host and its process number, as far as they are
        known."""
        if process == SUPERVISOR:
            return f"the host of `up` ({platform.node()}, pid {os.getpid()})"
        greeting = self.greetings.get(process)
        machine = self.specs[process].machine
        return f"{machine} ({greeting.host_name}, pid {greeting.pid})" if greeting else machine

    def facts(self, process: str) -> dict[str, str | int]:
        """For people: its machine, and what it said when it greeted, if it has."""
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
        """Whom it talks to, but for itself."""
        return tuple(name for name in self._placement.neighbours(process) if name != process)

    def directory(self, process: str, only: str = "") -> list[Directory]:
        """Where the peers of a process are, or one of them; in as many messages as that takes."""
        peers = {}
        for name, actors in self._placement.neighbours(process).items():
            if not only or name == only:
                hello = self.greetings[name]
                peers[name] = {
                    **asdict(endpoints(hello)),
                    "incarnation": hello.incarnation,
                    "actors": list(actors),
                }
        names = list(peers)
        pieces = [names[at : at + MOST_PEERS] for at in range(0, len(names), MOST_PEERS)] or [[]]
        return [
            Directory(peers={name: peers[name] for name in piece}, more=number < len(pieces))
            for number, piece in enumerate(pieces, 1)
        ]


def endpoints(hello: Hello) -> Endpoints:
    """Where a process that greets can be reached."""
    return Endpoints(hello.control, hello.bulk, hello.arena, hello.host)


def hears_at(hello: Hello) -> Endpoints:
    """Where a process hears the supervisor: nothing of that holds arrays."""
    return replace(endpoints(hello), arena="")
