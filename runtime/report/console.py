"""The view of a run for people: a live table on a terminal, plain lines in a file or pipe.

It shows any program's events by their fields, and any actor's state. It does not depend on their
meaning.
"""

from __future__ import annotations

import errno
import os
import select
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from runtime.cluster.preparing import PREPARING
from runtime.cluster.warnings import WARNING
from runtime.errors import ConvoyError
from runtime.reasons import reason
from runtime.report.columns import spoken
from runtime.report.nonblocking_stream import NonblockingStream, nonblocking
from runtime.report.run_state import (
    CONFUSION,
    HEADLINE,
    HISTOGRAMS,
    PREDICTION,
    RunState,
    shown_fields,
)
from runtime.report.screen import final, screen
from runtime.terminal_text import one_line, printable

if TYPE_CHECKING:
    from runtime.cluster.lifecycle import Heartbeat

# cells kept free: a terminal prints ^C for Ctrl-C at the table's end, which must not wrap the line
ECHO = 2
QUIET = frozenset(
    {"process", "link lost", PREDICTION, "unsaved", "resumed", CONFUSION, HISTOGRAMS}
)  # no lines: shown only in the journal, in the table, as a warning, or before the run
IN_TABLE = frozenset({HEADLINE, PREPARING})  # no lines if there is a table


class RunConsole:
    """Shows a run. `live` forces the table on or off. By default it is on if stdout is a terminal
    in whose foreground this process is. `verbose`: show each step of the preparation, the exposed
    seconds, and predictions that agree with the measurement."""

    def __init__(
        self, console: Console | None = None, live: bool | None = None, *, verbose: bool = False
    ) -> None:
        self.console = console or Console(file=self._stdout(), highlight=False, soft_wrap=True)
        self._verbose = verbose
        self._prepared: set[str] = set()  # phases of the preparation that have a line
        self._picture = RunState(verbose=verbose)
        self._now: Callable[[], float] = lambda: 0.0
        self._warned: set[str] = set()
        self._wanted = _has_terminal(self.console) if live is None else live
        self._live: Live | None = None
        self._is_over = False  # whether the run is over
        self.open()

    def _stdout(self) -> TextIO:
        """The stream to print to. It never makes the run wait for its reader."""
        return nonblocking(sys.stdout)

    def open(self) -> None:
        """Show the table, if it is wanted."""
        if self._wanted and self._live is None:
            self._live = Live(console=self.console, refresh_per_second=4, get_renderable=self.table)
            self._live.start()

    def expect(self, actors: Mapping[str, str], now: Callable[[], float]) -> None:
        """Prepare for a run that begins with these actors: actor -> process. `now` returns the
        seconds since the run began, and may be called from any thread."""
        self._now = now
        self._prepared.clear()
        self._picture = RunState(actors, verbose=self._verbose)

    def say(self, line: str) -> None:
        """Print a line. If stdout fails (a closed pipe, a full disk), stderr reports it once, and
        no more lines are printed."""
        try:
            self.console.print(Text(printable(line)))
        except SystemExit:  # rich ends the program when a pipe is closed
            self._unheard(BrokenPipeError(errno.EPIPE, "the reader of its pipe has gone"))
        except OSError as error:
            self._unheard(error)

    def _unheard(self, error: OSError) -> None:
        self.console.quiet = True
        told = f"stdout: {reason(error)}: further events are written to events.jsonl only"
        print(told, file=sys.stderr, flush=True)  # noqa: T201

    def warn(self, text: str) -> None:
        """Print a warning to stderr, before the run starts. It is not shown again."""
        self._warned.add(text)
        print(f"{WARNING}: {printable(text)}", file=sys.stderr, flush=True)  # noqa: T201

    def event(self, actor: str, event: str, fields: dict[str, Any]) -> None:
        """Show an event. Headline events update the table, or are a line if there is no table;
        other events are lines. A warning that several processes report is shown once."""
        if event == WARNING:
            self._warn(fields.get("process", actor), str(fields.get("text")))
            return
        self._picture.event(event, fields, self._now())
        if event in QUIET or (event in IN_TABLE and self._live is not None):
            return
        if event == PREPARING and not self._verbose:
            self._phase(str(fields.get("what")))
        else:
            said = describe(shown_fields(fields, verbose=self._verbose))
            self.say(f"{event:<10} {said}".rstrip())

    def _phase(self, what: str) -> None:
        """Print one line for each phase of the preparation, such as "compiling kernels"."""
        if what not in self._prepared:
            self._prepared.add(what)
            self.say(f"{PREPARING:<10} {what}")

    def _warn(self, who: str, text: str) -> None:
        if text not in self._warned:
            self._warned.add(text)
            self.say(f"{WARNING:<10} {who}: {text}")

    def beat(self, process: str, heartbeat: Heartbeat) -> None:
        """Note what the actors of a process do, and how long each waited for which peer since the
        last beat."""
        self._picture.beat(heartbeat)

    def failed(self, error: ConvoyError) -> None:
        """Print the error that ended the run to stderr."""
        self.close()
        print(printable(str(error)), file=sys.stderr, flush=True)  # noqa: T201

    def close(self) -> None:
        """Replace the table with the values that the run ended with."""
        live = self._live
        self._live = None
        if live is not None:
            self._is_over = True
            with suppress(OSError):  # stdout is gone; `say` reports it
                live.stop()  # shows the table once more
            self._is_over = False
        self.settle()

    def settle(self) -> None:
        """Wait a moment until all lines are read. If some are not, stderr reports how many were not
        shown."""
        if not isinstance(self.console.file, NonblockingStream) or self.console.quiet:
            return
        try:
            missed = self.console.file.settle()
        except OSError as error:
            self._unheard(error)
        else:
            if missed:
                self._unheard(
                    OSError(errno.EAGAIN, (f"it is not read, and {missed} lines are not shown"))
                )

    def table(self) -> Group:
        """The live view: progress, loss and accuracy, the prediction, and for each actor its work
        and the peers it waits for."""
        width, height = self.console.size
        width -= ECHO
        if self._is_over:
            return as_lines(final(self._picture, self._now(), width))
        return as_lines(screen(self._picture, self._now(), width, height))


class Teller(RunConsole):
    """Prints the output of a command that only reports something, and fails when its reader goes
    away. Raises BrokenPipeError when the reader has closed the pipe, and ConvoyError when stdout
    fails for another reason."""

    def __init__(self) -> None:
        super().__init__(live=False)

    def _stdout(self) -> TextIO:
        return sys.stdout

    def _unheard(self, error: OSError) -> None:
        if isinstance(error, BrokenPipeError):
            raise error
        raise ConvoyError(f"stdout: {reason(error)}") from None

    def check(self) -> None:
        """Raise BrokenPipeError if the reader has gone, without printing anything."""
        stdout = select.poll()
        with suppress(OSError, ValueError):  # stdout has no descriptor, so no reader can close it
            stdout.register(sys.stdout, 0)
        if any(event & select.POLLERR for _, event in stdout.poll(0)):
            raise BrokenPipeError(errno.EPIPE, "the reader of its pipe has gone")


def _has_terminal(console: Console) -> bool:
    """Whether the console is a terminal that this process has to itself. The table of a command in
    the background (`up &`) would overwrite what the user types."""
    if not console.is_terminal:
        return False
    try:
        return os.tcgetpgrp(console.file.fileno()) == os.getpgrp()
    except (OSError, ValueError):  # not the terminal of this session, or a file without a number
        return True


def describe(fields: dict[str, Any]) -> str:
    """Names and short values: `iteration 100/400 loss 0.1234 images/s 5123`."""
    return "  ".join(f"{name} {value}" for name, value in spoken(fields))


def as_lines(lines: list[str]) -> Group:
    """Each line exactly as it is: [brackets] in a name are not markup, and characters that would
    move the cursor are escaped."""
    return Group(*(Text(one_line(line), no_wrap=True, overflow="crop") for line in lines))
