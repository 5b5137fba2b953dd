"""The status of a run, from its journal and, while it lives, from its supervisor."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from runtime.attached.observed_run import ObservedRun
from runtime.cluster.operators.operator_messages import JOURNAL
from runtime.errors import ActorStopped
from runtime.machine.process_usage import usage
from runtime.plan.run_plan import placement_in
from runtime.records.journal_reading import FILE, events, is_number, torn
from runtime.records.presence import Sign
from runtime.records.run_files import Damaged, LeftOut, Missing
from runtime.records.run_identity import configured, identity_of, recorded
from runtime.regular import is_folder
from runtime.report.run_phase import ENDING, ENDS, RunPhase, after
from runtime.report.run_state import HEADLINE
from runtime.transport import host_identity

T = TypeVar("T")
REGROUPED = "regrouped"  # with the settings of the training from then on
PREDICTION = "prediction"  # with the `text` that the table of `up` shows
KEPT = (
    REGROUPED,
    PREDICTION,
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
)  # events that show the state of a run
WORDS = {"stopping": "winding down", "killed": "over"}  # a state of RunPhase -> the word for people
KILLED = RunPhase.result  # the state of a run whose journal has no end
SLOWER = "straggler"  # events about a worker
AS_FAST = "caught up"


async def run_status(seen: ObservedRun) -> dict[str, Any]:
    """The status of a run as plain data. Parts that cannot be read because of damaged files are
    left out, and `damaged` lists these files. Raises ConvoyError if the supervisor does not
    answer."""
    await seen.refresh(JOURNAL)
    notes: list[str] = []
    placement = await asyncio.to_thread(_read, notes, placement_in, seen.directory)
    told = await asyncio.to_thread(_journal, seen.directory, notes)
    found = await asyncio.to_thread(_recorded, seen, told, notes)
    try:
        presence = await seen.presence()
    except Damaged as error:
        notes.append(str(error))
        presence = None
    if presence is not None and not (presence.sign is Sign.SILENT and after(told).result != KILLED):
        found["state"] = presence.words
    if presence is None and not await seen.answers():
        await asyncio.to_thread(_look_at_the_end, seen.directory, notes)
    if placement is None:
        return found
    found["program"] = placement.topology.program
    if not await seen.answers():
        return found
    try:
        async with seen.client() as client:
            known = await client.status()
    except ActorStopped:  # the run has ended meanwhile
        return found
    found["state"], found["eta_seconds"] = _state(told, lives=True), _remaining(told)
    for spec in placement.processes:
        facts = dict(known.processes.get(spec.name, {}))
        used = usage(facts["pid"]) if facts.pop("host", "") == host_identity.identity() else None
        processor, memory = used or (None, None)
        doing = {actor: _doing(known.actors.get(actor, {})) for actor in spec.actors}
        found["processes"][spec.name] = {
            **facts,
            "cpu_seconds": processor,
            "rss_bytes": memory,
            "actors": doing,
        }
    return found


def _look_at_the_end(directory: Path, notes: list[str]) -> None:
    """Add damage at the end of a finished journal to `notes`."""
    with suppress(Damaged):  # reported already
        notes += torn(directory)


def _read(notes: list[str], read: Callable[[Path], T], directory: Path) -> T | None:
    """The contents of a file of the run directory. None if it is missing or damaged; damage is
    added to `notes`."""
    try:
        return read(directory)
    except Missing:
        return None
    except Damaged as error:
        notes.append(str(error))
        return None


def _journal(directory: Path, notes: list[str]) -> dict[str, dict[str, Any]]:
    """Like `journal`, and adds damage to `notes`."""
    told: dict[str, dict[str, Any]] = {}
    damaged = LeftOut(directory / FILE)
    try:
        for event in events(directory, damaged):
            _keep(told, event)
    except Damaged as error:  # the events before the damage count
        notes.append(str(error))
    notes += damaged.notes
    return told


def _recorded(
    seen: ObservedRun, told: dict[str, dict[str, Any]], notes: list[str]
) -> dict[str, Any]:
    """The status according to the run directory."""
    slower = told.get(SLOWER, {})
    identity = identity_of(seen.directory)
    _read(notes, recorded, seen.directory)
    program = (_read(notes, configured, seen.directory) or {}).get("program", "")
    return {
        "name": seen.name,
        "directory": str(seen.place.resolve() if seen.is_here else seen.place),
        "id": identity.id if identity is not None else "",
        "program": program if isinstance(program, str) else "",
        "since": identity.began if identity is not None else 0.0,
        "state": _state(told, lives=False),
        "progress": _plain(told.get(HEADLINE, {})),
        "result": _plain(told.get(after(told).last_word, {})),
        "settings": _plain(told.get(REGROUPED, {})),
        "prediction": said(told, PREDICTION, "text"),
        "eta_seconds": None,
        "checkpoint": said(told, "checkpoint", "file"),
        "began_with": said(told, "resumed", "checkpoint"),
        "error": said(told, "failed", "error"),
        "goes_on_in": said(told, "continued", "in"),
        "stragglers": {
            worker: last["times"] for worker, last in slower.items() if last["event"] == SLOWER
        },
        "processes": {},
        "damaged": notes,
    }


def said(told: dict[str, dict[str, Any]], event: str, field: str) -> str:
    """The text in a field of an event of `journal`, or ""."""
    text = told.get(event, {}).get(field)
    return text if isinstance(text, str) else ""


def last_checkpoint(found: dict[str, Any], where: Path) -> str:
    """The last checkpoint found by `run_status`, in words. `where` is the folder to put before its
    name."""
    if found["checkpoint"]:
        return str(where / found["checkpoint"])
    if is_folder(Path(found["directory"])) and any(JOURNAL in note for note in found["damaged"]):
        return f"not known, since {JOURNAL} is damaged"
    before = Path(found["began_with"])
    return (
        (f"none since it began with {Path(before.parent.name, before.name)}")
        if found["began_with"]
        else "none"
    )


def journal(directory: Path) -> dict[str, dict[str, Any]]:
    """The latest event of each kind that shows the state of the run, and the first progress report
    as "first". Under "straggler" it has the latest straggler event of each worker. Empty if the
    journal cannot be read."""
    return _journal(directory, [])


def _keep(last: dict[str, dict[str, Any]], event: dict[str, Any]) -> None:
    if event["event"] == HEADLINE:
        last.setdefault("first", event)
    if event["event"] in (HEADLINE, *KEPT):
        last[event["event"]] = event
    if event["event"] in (SLOWER, AS_FAST) and isinstance(event.get("worker"), str):
        times = event.get("times", 0.0)
        if is_number(times):
            last.setdefault(SLOWER, {})[event["worker"]] = {**event, "times": float(times)}


def _state(told: dict[str, dict[str, Any]], *, lives: bool) -> str:
    said = after(told).status(lives=lives)
    return WORDS.get(said, said)


def _plain(event: dict[str, Any]) -> dict[str, Any]:
    return {
        name: value
        for name, value in event.items()
        if name not in ("t", "unix_seconds", "actor", "event")
    }


def _remaining(told: dict[str, dict[str, Any]]) -> float | None:
    """The remaining seconds, by the pace between the first and the last report. None before the
    second report."""
    if told.keys() & {"finished", "failed", "continued", "stopped"} or HEADLINE not in told:
        return None
    first = told["first"]
    now = told[HEADLINE]
    try:
        begun = int(first["iteration"])
        done = int(now["iteration"])
        last = int(now["max_iter"])
    except (KeyError, ValueError, TypeError, OverflowError):
        return None  # the program counts in another way
    return (last - done) * (now["t"] - first["t"]) / (done - begun) if done > begun else None


def _doing(status: dict[str, Any]) -> str:
    if not status:
        return "no heartbeat yet"
    doing = status["doing"]
    return f"waits for {status['waiting_for']} in {doing}" if status["waiting_for"] else doing
