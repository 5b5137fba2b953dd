"""What a person sees of a run: a live table on a terminal, plain lines in a file or pipe.

It shows any program's events by their fields and any actor's state; it knows nothing of what they
mean.
"""

from __future__ import annotations

import errno
import select
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from runtime.cluster.lifecycle import Heartbeat
from runtime.cluster.preparing import PREPARING
from runtime.cluster.warnings import WARNING
from runtime.errors import ConvoyError
from runtime.reasons import reason
from runtime.report.columns import spoken
from runtime.report.nonblocking_stream import NonblockingStream, nonblocking
from runtime.report.run_state import HEADLINE, PREDICTION, RunState
from runtime.report.screen import final, screen
from runtime.terminal_text import one_line, printable

# cells: a terminal shows Ctrl-C as ^C where the table ends, which must not begin a new line
ECHO = 2
QUIET = frozenset(
    {"process", "link lost", PREDICTION, "unsaved", "resumed"}
)  # no lines: told in the journal only, in the table, as a warning, or before the run
IN_TABLE = frozenset({HEADLINE, PREPARING})  # no lines either, where there is one


class RunConsole:
    """Shows a run. `live` forces the table on or off; by default it is on where stdout is a
    terminal."""

    def __init__(self, console: Console | None = None, live: bool | None = None) -> None:
        self.console = console or Console(file=self._stdout(), highlight=False, soft_wrap=True)
        self._picture = RunState()
        self._now: Callable[[], float] = lambda: 0.0
        self._warned: set[str] = set()
        self._wanted = self.console.is_terminal if live is None else live
        self._live: Live | None = None
        self._is_over = False  # the run is
        self.open()

    def _stdout(self) -> TextIO:
        """A run never waits for who looks at it."""
        return nonblocking(sys.stdout)

    def open(self) -> None:
        """Show the table, if it is wanted."""
        if self._wanted and self._live is None:
            self._live = Live(console=self.console, refresh_per_second=4, get_renderable=self.table)
            self._live.start()

    def expect(self, actors: Mapping[str, str], now: Callable[[], float]) -> None:
        """A run begins, with these actors in these processes. `now`: seconds since, from any
        thread."""
        self._now = now
        self._picture = RunState(actors)

    def say(self, line: str) -> None:
        """A line for the person. Once stdout is gone (a closed pipe, a full disk) stderr says so,
        and no more comes."""
        try:
            self.console.print(Text(printable(line)))
        except SystemExit:  # rich ends the program when a pipe is closed
            self._unheard(BrokenPipeError(errno.EPIPE, "the reader of its pipe has gone"))
        except OSError as error:
            self._unheard(error)

    def _unheard(self, error: OSError) -> None:
        self.console.quiet = True
        told = f"stdout: {reason(error)}: what happens is told in events.jsonl only"
        print(told, file=sys.stderr, flush=True)  # noqa: T201

    def warn(self, text: str) -> None:
        """What the person should know before anything starts, on stderr."""
        print(f"{WARNING}: {printable(text)}", file=sys.stderr, flush=True)  # noqa: T201

    def event(self, actor: str, event: str, fields: dict[str, Any]) -> None:
        """Headline events update the table (or are a line where there is none); others are lines.
        What several processes warn of is told once."""
        if event == WARNING:
            self._warn(fields.get("process", actor), str(fields.get("text")))
            return
        self._picture.event(event, fields, self._now())
        if event not in QUIET and (event not in IN_TABLE or self._live is None):
            self.say(f"{event:<10} {describe(fields)}".rstrip())

    def _warn(self, who: str, text: str) -> None:
        if text not in self._warned:
            self._warned.add(text)
            self.say(f"{WARNING:<10} {who}: {text}")

    def beat(self, process: str, heartbeat: Heartbeat) -> None:
        """Note what the actors of a process do, and for whom each waited since the last beat."""
        self._picture.beat(heartbeat)

    def failed(self, error: ConvoyError) -> None:
        """What ended the run, on stderr."""
        self.close()
        print(printable(str(error)), file=sys.stderr, flush=True)  # noqa: T201  # what went wrong belongs on stderr

    def close(self) -> None:
        """In place of the table leave the values that the run ended with."""
        live = self._live
        self._live = None
        if live is not None:
            self._is_over = True
            with suppress(OSError):  # stdout is gone, which `say` tells
                live.stop()  # shows the table once more
            self._is_over = False
        self.settle()

    def settle(self) -> None:
        """All that was said is with whoever reads it, or they are told on stderr that they read too
        little."""
        if not isinstance(self.console.file, NonblockingStream) or self.console.quiet:
            return
        try:
            missed = self.console.file.settle()
        except OSError as error:
            self._unheard(error)
        else:
            if missed:
                self._unheard(
                    OSError(errno.EAGAIN, (f"nobody reads it, and {missed} lines are not shown"))
                )

    def table(self) -> Group:
        """The live view: how far the run is, what it learns, what is predicted, who does what, who
        waits for whom."""
        width, height = self.console.size
        width -= ECHO
        if self._is_over:
            return as_lines(final(self._picture, self._now(), width))
        return as_lines(screen(self._picture, self._now(), width, height))


class Teller(RunConsole):
    """What a command tells that does nothing else: it ends with whoever reads it. BrokenPipeError
    when he has gone; ConvoyError when stdout takes nothing more for another reason."""

    def __init__(self) -> None:
        super().__init__(live=False)

    def _stdout(self) -> TextIO:
        return sys.stdout

    def _unheard(self, error: OSError) -> None:
        if isinstance(error, BrokenPipeError):
            raise error
        raise ConvoyError(f"stdout: {reason(error)}") from None

    def check(self) -> None:
        """BrokenPipeError if nobody reads any more, though nothing is told now."""
        stdout = select.poll()
        with suppress(OSError, ValueError):  # it has no descriptor: nobody can go
            stdout.register(sys.stdout, 0)
        if any(event & select.POLLERR for _, event in stdout.poll(0)):
            raise BrokenPipeError(errno.EPIPE, "the reader of its pipe has gone")


def describe(fields: dict[str, Any]) -> str:
    """`iteration 100/400  loss 0.1234  images/s 5123`: names and short values."""
    return "  ".join(f"{name} {value}" for name, value in spoken(fields))


def as_lines(lines: list[str]) -> Group:
    """Each as it is: a name may hold [brackets], or what would move the cursor."""
    return Group(*(Text(one_line(line), no_wrap=True, overflow="crop") for line in lines))
