"""The built-in program, whose islands and outer server write down what they train and merge.

Each life of an actor writes one file into the folder in CONVOY_NOTES, a line of JSON for each
iteration or outer step. `gathered` reads them.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import roles
from benchmarks.islands.attended import Ledger
from roles.islands.island import LIFE_BITS, Island
from roles.islands.island_messages import OuterModel
from roles.islands.outer_server import Arrived, OuterServer
from roles.messages import TRAIN, Ticket
from runtime.plan.topology import Topology

FOLDER = "CONVOY_NOTES"


class NotingIsland(Island):
    """An island that notes the first sample of each iteration, and when it begins."""

    def _compute(self, ticket: Ticket) -> dict[str, float]:
        if ticket.phase == TRAIN:
            note(self, number=ticket.number, first=ticket.first)
        return super()._compute(ticket)


class NotingServer(OuterServer):
    """An outer server that notes the iterations of each outer step."""

    async def _merge(self, arrived: Mapping[str, Arrived]) -> dict[str, OuterModel]:
        gains = {name: each.gain for name, each in arrived.items()}
        new = {name: gain for name, gain in gains.items() if gain.sequence > self._merged[name]}
        answers = await super()._merge(arrived)
        parts = [
            (name, gain.sequence >> LIFE_BITS, gain.number, gain.count)
            for name, gain in new.items()
        ]
        note(self, version=self._version, gains=parts)
        return answers

    async def _anchored(self) -> None:
        await super()._anchored()
        note(self, anchored=self._version)


ROLES = {**roles.ROLES, "island": NotingIsland, "outer_server": NotingServer}


def plan(config: Any, options: Any) -> Topology:
    """The topology of the built-in program, whose processes run this module."""
    return replace(roles.plan(config, options), program=__name__)


def __getattr__(name: str) -> Any:
    return getattr(roles, name)


def note(actor: Island | OuterServer, **fields: Any) -> None:
    """Write down one line, with the time on the clock that all processes of this host share."""
    path = Path(os.environ[FOLDER], f"{actor.name}.{actor.incarnation}")
    with path.open("a") as file:
        file.write(json.dumps({"at": time.monotonic(), **fields}) + "\n")


Lives = dict[str, dict[int, list[dict[str, Any]]]]


def lives_in(folder: Path) -> Lives:
    """The lines that were written so far: actor -> life -> its lines. The last line of a life that
    was killed may be cut off."""
    found: Lives = {}
    for path in folder.iterdir():
        actor, _, life = path.name.rpartition(".")
        lines = path.read_text().splitlines(keepends=True)
        whole = [json.loads(line) for line in lines if line.endswith("\n")]
        found.setdefault(actor, {})[int(life)] = whole
    return found


def ledger_of(lives: Lives, server: str, batch: int) -> Ledger:
    """The iterations that the lives of the server merged, with the samples that each island trained
    in them."""
    first = {
        (actor, life, line["number"]): line["first"]
        for actor, each in lives.items()
        if actor != server
        for life, lines in each.items()
        for line in lines
    }
    ledger = Ledger(batch)
    for line in _in_order(lives[server]):
        if "anchored" in line:
            ledger.goes_on_at(line["anchored"])
            continue
        firsts = [
            first[island, life, number + each]
            for island, life, number, count in line["gains"]
            for each in range(count)
        ]
        ledger.merged(line["version"], firsts, line["at"])
    return ledger


def _in_order(lives: Mapping[int, list[dict[str, Any]]]) -> Iterator[dict[str, Any]]:
    for life in sorted(lives):
        yield from lives[life]
