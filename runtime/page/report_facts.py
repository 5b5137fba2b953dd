"""The facts of one run that a report shows in addition to its curves, as plain data for the
template."""

from __future__ import annotations

import base64
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from runtime.counting import counted
from runtime.drawing.svg import svg
from runtime.durations import duration
from runtime.page.charts import bars
from runtime.page.colours import COLOURS, WAITING
from runtime.page.confusion import matrices
from runtime.page.gantt import FILE as TRACE
from runtime.page.gantt import gantt
from runtime.page.headline import headline
from runtime.page.link_traffic import links
from runtime.page.planned_traffic import outlook
from runtime.page.run_history import RunHistory
from runtime.page.time_shares import Share, Times, times_of
from runtime.records import run_files
from runtime.records.journal_reading import is_number
from runtime.records.run_files import Damaged, LeftOut, Missing, read_json, read_text
from runtime.records.run_identity import CONFIG, configured
from runtime.report.console import describe
from runtime.terminal_text import bounded, printable

T = TypeVar("T")
STAMPS = ("t", "unix_seconds", "actor", "event", "process")
OF_CONFIG = (("net", "net"), ("solver", "solver"), ("batch", "batch"))
OF_STRATEGY = ("preset", "workers", "groups", "exchange")


def facts(
    story: RunHistory, stories: Sequence[RunHistory], trusted: Collection[str]
) -> dict[str, Any]:
    """The facts of one run; page.html uses them. For `trusted` see outlook."""
    known = outlook(story, trusted)
    first = headline(story)
    times = times_of(story)
    damaged = LeftOut(story.directory / TRACE)
    chart = _read(story, partial(gantt, damaged=damaged), story.directory)
    story.damaged += damaged.notes
    config = _read(story, configured, story.directory) or {}
    found = {
        "name": story.name,
        "state": story.state,
        "colour": COLOURS[stories.index(story) % len(COLOURS)],
        "headline": first,
        "figures": {figure.key: figure for figure in first},
        "began": story.since,
        "keys": config,
        "facts": list(_facts(story, config)),
        "error": printable(str(story.last.get("failed", {}).get("error", ""))),
        "times": None if times is None else _times(times),
        "matrices": matrices(story),
        "predicted": str(story.last.get("prediction", {}).get("text", "")),
        "stations": list(_stations(story)),
        "links": links(story, times, known),
        "gantt": "" if chart is None else bars(chart),
        "gantt_of": chart,
        "decisions": [(float(one["t"]), one["event"], _said(one)) for one in story.decisions],
        "decided": story.decided,
        "choice": _read(story, _choice, story.directory / "tuning.json") or "",
        "told": [(float(one["t"]), _who(one), one["event"], _said(one)) for one in story.told],
        "topology": "" if known is None else base64.b64encode(svg(*known).encode()).decode(),
        "count": story.count,
        "names": sorted(story.names.items()),
        "config": _read(story, read_text, story.directory / CONFIG) or "",
        "versions": _read(story, read_text, story.directory / "versions.json") or "",
    }
    return found | {"notes": list(_notes(story))}


def _facts(story: RunHistory, config: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "began", story.since
    yield "directory", str(story.directory.resolve())
    if story.placement is not None:
        topology = story.placement.topology
        processes = story.placement.processes
        yield "program", topology.program
        machines = sorted({spec.machine for spec in processes})
        shown = ", ".join(machines[:6]) + (
            f" and {len(machines) - 6} more" if len(machines) > 6 else ""
        )
        actors = counted(len(topology.actors), "actor")
        yield "runs as", f"{actors} in {counted(len(processes), 'process')} on {shown}"
    yield from _training(config)
    if is_number(rate := story.last.get("progress", {}).get("learning_rate")):
        yield "learning rate", f"{rate:.4g}"
    if saved := story.last.get("checkpoint", {}).get("file"):
        yield "last checkpoint", str(saved)
    if story.forerunners:
        yield "continues", ", ".join(story.forerunners)
    if is_number(took := story.ended.get("seconds")):
        yield "training took", duration(took)


def _training(config: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The settings in [train], if the program has such a section."""
    train = config.get("train")
    if not isinstance(train, dict):
        return
    for key, said in OF_CONFIG:
        if isinstance(train.get(key), str | int):
            yield said, str(train[key])
    strategy = train.get("strategy")
    if isinstance(strategy, dict) and strategy:
        yield (
            "strategy",
            ", ".join(f"{key} {strategy[key]}" for key in OF_STRATEGY if key in strategy),
        )


def _times(times: Times) -> dict[str, Any]:
    """The shares of time with colours: one for each kind of work, grey for waiting."""
    kinds = sorted(
        {what for share in times.shares for kind, what in share.parts if kind == "works"}
    )
    colour = {kind: COLOURS[number % len(COLOURS)] for number, kind in enumerate(kinds)}
    longest = max(share.whole for share in times.shares) or 1.0
    rows = [
        {
            "actor": share.actor,
            "role": share.role,
            "parts": list(_parts(share, colour, longest)),
            "said": _length(share),
        }
        for share in times.shares
    ]
    return {
        "rows": rows,
        "legend": [*colour.items(), ("waits for others", WAITING)],
        "per": times.per,
        "stragglers": times.stragglers,
        "work": sorted(times.work, key=lambda work: -work.pieces * work.mean),
    }


def _parts(
    share: Share, colour: Mapping[str, str], longest: float
) -> Iterator[tuple[str, str, str]]:
    left = 100.0
    for (kind, what), seconds in sorted(
        share.parts.items(), key=lambda part: (part[0][0] != "works", -part[1])
    ):
        width = min(left, 100 * seconds / longest)
        left -= width
        if width >= 0.1:
            about = (
                f"{what}: {1000 * seconds:.3g} ms"
                if kind == "works"
                else (f"waits for {what}: {1000 * seconds:.3g} ms")
            )
            yield f"{width:.2f}", colour[what] if kind == "works" else WAITING, about


def _length(share: Share) -> str:
    return (
        f"{1000 * share.works:.3g} ms work, {1000 * share.waits:.3g} waiting, "
        f"{1000 * share.rest:.3g} rest"
    )


def _stations(story: RunHistory) -> Iterator[tuple[str, float | None, float | None]]:
    """(station, predicted use, measured use), busiest first."""
    last = story.last.get("prediction", {})
    predicted, measured = (_uses(last.get(f"{kind}_use")) for kind in ("predicted", "measured"))
    names = predicted.keys() | measured.keys()
    for name in sorted(
        names, key=lambda name: (-max(measured.get(name, 0.0), predicted.get(name, 0.0)), name)
    )[:40]:
        yield name, predicted.get(name), measured.get(name)


def _uses(found: Any) -> dict[str, float]:
    if not isinstance(found, dict):
        return {}
    return {name: max(0.0, min(1.0, use)) for name, use in found.items() if is_number(use)}


def _choice(path: Path) -> str:
    """The final choice of the tuner, from its record. Raises Damaged or Missing."""
    choice = read_json(path).get("choice")
    if not isinstance(choice, dict):
        raise run_files.damaged(path, "no choice in it")
    return describe(
        {name: value for name, value in choice.items() if not isinstance(value, dict | list)}
    )


def _notes(story: RunHistory) -> Iterator[str]:
    if story.state == "killed":
        yield (
            "The journal has no end: `up` was killed, or its machine stopped. The report "
            "shows everything that was written before."
        )
    yield from story.damaged
    yield from story.notes


def _who(event: Mapping[str, Any]) -> str:
    return str(event.get("process") or event["actor"])


def _said(event: Mapping[str, Any]) -> str:
    fields = {name: value for name, value in event.items() if name not in STAMPS}
    if set(fields) <= {"text"} or set(fields) == {"error", "exit_code"}:
        return bounded(printable(str(fields.get("text", fields.get("error", "")))))
    return bounded(printable(describe(fields)))


def _read(story: RunHistory, read: Callable[[Path], T], path: Path) -> T | None:
    """The contents of a file of the run. None if it is missing or damaged; damage is added to the
    history."""
    try:
        return read(path)
    except Missing:
        return None
    except Damaged as error:
        if str(error) not in story.damaged:
            story.damaged.append(str(error))
        return None
