"""What a person sees of a run: a live table on a terminal, plain lines in a file or pipe.

It shows any program's events by their fields and any actor's state; it knows nothing of what they mean.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from runtime.cluster.lifecycle import Heartbeat
from runtime.cluster.warnings import WARNING
from runtime.errors import ConvoyError
from runtime.text import one_line, printable

HEADLINE = "progress"  # the event whose latest fields head the table
PREDICTION = "prediction"  # the event whose latest `text` stands below
QUIET = frozenset(
    {"process", "link lost", PREDICTION, "unsaved", "resumed"}
)  # no lines: told in the journal only, in the table, as a warning, or before the run
WHOLE = "max_iter"  # of `iteration`
PER_SECOND, SECONDS = re.compile("_per_second$"), re.compile("_seconds$")


class RunConsole:
    """Shows a run. `live` forces the table on or off; by default it is on where stdout is a terminal."""

    def __init__(self, console: Console | None = None, live: bool | None = None) -> None:
        self.console = console or Console(highlight=False, soft_wrap=True)
        self._headline: dict[str, Any] = {}
        self._predicted = ""
        self._actors: dict[str, dict[str, Any]] = {}
        self._warned: set[str] = set()
        self._wanted = self.console.is_terminal if live is None else live
        self._live: Live | None = None
        self.open()

    def open(self) -> None:
        """Show the table, if it is wanted; of whoever was in it nothing is known any more."""
        self._actors.clear()
        if self._wanted and self._live is None:
            self._live = Live(console=self.console, refresh_per_second=4, get_renderable=self.table)
            self._live.start()

    def say(self, line: str) -> None:
        """A line for the person. Once stdout is gone (a closed pipe, a full disk) stderr says so, and no more comes."""
        try:
            self.console.print(Text(printable(line)))
        except (OSError, SystemExit) as error:  # rich ends the program when a pipe is closed
            self.console.quiet = True
            why = error.strerror if isinstance(error, OSError) else "the reader of its pipe has gone"
            print(f"stdout: {why}: what happens is told in events.jsonl only", file=sys.stderr, flush=True)  # noqa: T201

    def warn(self, text: str) -> None:
        """What the person should know before anything starts, on stderr."""
        print(f"{WARNING}: {printable(text)}", file=sys.stderr, flush=True)  # noqa: T201

    def event(self, actor: str, event: str, fields: dict[str, Any]) -> None:
        """Headline events update the table (or are a line where there is none); others are lines. What several
        processes warn of is told once."""
        if event == WARNING:
            self._warn(fields.get("process", actor), str(fields.get("text")))
            return
        if event == HEADLINE:
            self._headline = fields
        if event == PREDICTION:
            self._predicted = str(fields.get("text", ""))
        if event not in QUIET and (event != HEADLINE or self._live is None):
            self.say(f"{event:<10} {describe(fields)}".rstrip())

    def _warn(self, who: str, text: str) -> None:
        if text not in self._warned:
            self._warned.add(text)
            self.say(f"{WARNING:<10} {who}: {text}")

    def beat(self, process: str, heartbeat: Heartbeat) -> None:
        """Note what the actors of a process do, and for whom each waited since the last beat."""
        for name, status in heartbeat.actors.items():
            before = self._actors.get(name, {}).get("waited", {})
            spans = {peer: total - before.get(peer, 0.0) for peer, total in status["waited"].items()}
            longest = sorted(spans, key=lambda peer: -spans[peer])
            shares = [f"{peer} {spans[peer] / heartbeat.period:.0%}" for peer in longest if spans[peer] > 0.01]
            waits = ", ".join(shares) or status["waiting_for"]
            self._actors[name] = {**status, "process": process, "waits": waits}

    def failed(self, error: ConvoyError) -> None:
        """What ended the run, on stderr."""
        self.close()
        print(printable(str(error)), file=sys.stderr, flush=True)  # noqa: T201  # what went wrong belongs on stderr

    def close(self) -> None:
        """Leave the terminal as it was."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def table(self) -> Group:
        """The live view: the headline, what is predicted, then who does what and who waits for whom."""
        table = Table(box=None, pad_edge=False)
        for title in ("actor", "process", "doing", "waits for", "handled", "inbox"):
            table.add_column(title, justify="right" if title in ("handled", "inbox") else "left")
        for name in sorted(self._actors):
            status = self._actors[name]
            cells = [status[key] for key in ("process", "doing", "waits", "handled", "inbox")]
            table.add_row(*(Text(one_line(str(cell))) for cell in (name, *cells)))  # plain: a name may hold [brackets]
        lines = [describe(self._headline), *([self._predicted] if self._predicted else [])]
        return Group(*(Text(printable(line)) for line in lines), table)


def describe(fields: dict[str, Any]) -> str:
    """`iteration 100/400  loss 0.1234  images/s 5123`: names and short values."""
    return "  ".join(f"{name} {value}" for name, value in _spoken(fields))


def _spoken(fields: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Names and values as people say them: "images/s" for `images_per_second`, "work s" for `work_seconds`."""
    whole = fields.get(WHOLE) if "iteration" in fields else None
    for name, value in fields.items():
        if name == "iteration" and whole is not None:
            yield name, f"{value}/{whole}"
        elif name != WHOLE or whole is None:
            yield SECONDS.sub(" s", PER_SECOND.sub("/s", name)), _brief(value)


def _brief(value: Any) -> str:
    if not isinstance(value, float):
        return str(value)
    return f"{value:.4g}" if abs(value) < 1e5 else f"{value:.0f}"
