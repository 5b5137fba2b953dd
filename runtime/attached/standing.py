"""What is known of a run: what its journal says, and, while it lives, what its supervisor knows."""

from __future__ import annotations

import asyncio
from datetime import datetime
from pathlib import Path
from typing import Any

from runtime.attached.attach import plan_in
from runtime.attached.seen import Seen
from runtime.cluster.operators.words import JOURNAL
from runtime.errors import ActorStopped
from runtime.machine.usage import usage
from runtime.plan.run_plan import FILE
from runtime.plan.topology import Placement
from runtime.records.identity import configured, identity_of
from runtime.records.presence import Sign
from runtime.records.reading import events
from runtime.report.course import ENDING, ENDS, Course, after
from runtime.report.picture import HEADLINE
from runtime.transport import host

KEPT = (
    "began",
    "resumed",
    "checkpoint",
    *ENDING,
    *ENDS,
    "failed",
    "restart",
    "scaled",
    "leaving",
    "continued",
    "ended",
    "stopped",
)  # events that tell how it stands
WORDS = {"stopping": "winding down", "killed": "over"}  # for people, of a course's
KILLED = Course.result  # of a run whose journal has no last word
SLOWER, AS_FAST = "straggler", "caught up"  # events about a worker


async def standing(seen: Seen) -> dict[str, Any]:
    """As plain data. ConfigError if its plan cannot be read, ConvoyError if its supervisor does not answer."""
    await seen.refresh(JOURNAL)
    placement = await asyncio.to_thread(_placement, seen.directory)
    told = await asyncio.to_thread(journal, seen.directory)
    found = await asyncio.to_thread(_recorded, seen, told)
    presence = await seen.presence()
    if presence is not None and not (presence.sign is Sign.SILENT and after(told).result != KILLED):
        found["state"] = presence.words
    if placement is None:
        return found
    found["program"] = placement.topology.program
    if not await seen.answers():
        return found
    try:
        async with seen.client() as client:
            known = await client.status()
    except ActorStopped:  # it has ended meanwhile
        return found
    found["state"], found["eta_seconds"] = _state(told, lives=True), _remaining(told)
    for spec in placement.processes:
        facts = dict(known.processes.get(spec.name, {}))
        used = usage(facts["pid"]) if facts.pop("host", "") == host.identity() else None
        processor, memory = used or (None, None)
        doing = {actor: _doing(known.actors.get(actor, {})) for actor in spec.actors}
        found["processes"][spec.name] = {**facts, "cpu_seconds": processor, "rss_bytes": memory, "actors": doing}
    return found


def _placement(directory: Path) -> Placement | None:
    """Who lives where; None of a run whose actors do not live in processes of their own, or that has no plan yet."""
    return plan_in(directory).placement if (directory / FILE).exists() else None


def _recorded(seen: Seen, told: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """What the run directory says."""
    slower = told.get(SLOWER, {})
    identity = identity_of(seen.directory)
    return {
        "name": seen.name,
        "directory": str(seen.place.resolve() if seen.is_here else seen.place),
        "id": identity.id if identity is not None else "",
        "program": configured(seen.directory).get("program", ""),
        "since": identity.began if identity is not None else 0.0,
        "state": _state(told, lives=False),
        "progress": _plain(told.get(HEADLINE, {})),
        "eta_seconds": None,
        "checkpoint": told.get("checkpoint", {}).get("file", ""),
        "began_with": told.get("resumed", {}).get("checkpoint", ""),
        "error": told.get("failed", {}).get("error", ""),
        "goes_on_in": told.get("continued", {}).get("in", ""),
        "stragglers": {worker: said["times"] for worker, said in slower.items() if said["event"] == SLOWER},
        "processes": {},
    }


def last_checkpoint(found: dict[str, Any], where: Path) -> str:
    """In words, of what `standing` has found; `where`: before the name of its own."""
    if found["checkpoint"]:
        return str(where / found["checkpoint"])
    before = Path(found["began_with"])
    return f"none since it began with {Path(before.parent.name, before.name)}" if found["began_with"] else "none"


def journal(directory: Path) -> dict[str, dict[str, Any]]:
    """The last of each event that tells how the run stands, and the first progress report as "first"; of those about
    stragglers the last of each worker, as "straggler"."""
    last: dict[str, dict[str, Any]] = {}
    try:
        for event in events(directory, damaged=lambda line: None):
            if event["event"] == HEADLINE:
                last.setdefault("first", event)
            if event["event"] in (HEADLINE, *KEPT):
                last[event["event"]] = event
            if event["event"] in (SLOWER, AS_FAST):
                last.setdefault(SLOWER, {})[event["worker"]] = event
    except OSError:  # what could be read counts
        pass
    return last


def _state(told: dict[str, dict[str, Any]], *, lives: bool) -> str:
    said = after(told).standing(lives=lives)
    return WORDS.get(said, said)


def _plain(event: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in event.items() if name not in ("t", "unix_seconds", "actor", "event")}


def _remaining(told: dict[str, dict[str, Any]]) -> float | None:
    """Seconds, by what has passed between the first and the last report; None before the second."""
    if told.keys() & {"finished", "failed", "continued", "stopped"} or HEADLINE not in told:
        return None
    first, now = told["first"], told[HEADLINE]
    try:
        begun, done, last = int(first["iteration"]), int(now["iteration"]), int(now["max_iter"])
    except (KeyError, ValueError, TypeError):
        return None  # of a program that counts otherwise
    return (last - done) * (now["t"] - first["t"]) / (done - begun) if done > begun else None


def _doing(status: dict[str, Any]) -> str:
    if not status:
        return "not heard of yet"
    doing = status["doing"]
    return f"waits for {status['waiting_for']} in {doing}" if status["waiting_for"] else doing


def moment(since: float) -> str:
    """When that was, for people."""
    return datetime.fromtimestamp(since).astimezone().strftime("%Y-%m-%d %H:%M:%S")
