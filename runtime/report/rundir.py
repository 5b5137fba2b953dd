"""The run directory: all files of one run in one place, readable without the program.

    run.json       the identity of the run        config.toml   the resolved configuration
    versions.json  versions of what `up` runs     plan.json     actors, processes, links
    events.jsonl   the events, one JSON object a line
    logs/          one log per process            checkpoint-*.safetensors, written by the program
    log.csv        progress and tests as a table  usage.jsonl   totals of each process, now and then
    said.toml      the original cluster.toml of a run that was scaled
    service-times.json  how long array work took, if `run.record_service_times`
    summary.json   the state, scores and keys of a run that is over
    tensorboard/   the numbers of progress and tests, if `run.tensorboard`
    wandb/         the same for Weights & Biases, if `run.trackers` has "wandb"
    histograms.jsonl  histograms of parameters and gradients, if `run.histograms`

The program does not need these files to run; deleting a run directory loses only its history, and
`remaking` makes it again. Only its owner may read it.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from runtime.cluster.lifecycle import Heartbeat
from runtime.errors import ConvoyError, LaunchError
from runtime.machine.private_files import replace
from runtime.reasons import no_run_directory, reason
from runtime.records.journal_reading import FILE
from runtime.records.run_identity import Identity, identity_of
from runtime.records.runs import next_begin
from runtime.report import log_table, run_summary, usage
from runtime.report.journal import Journal
from runtime.report.remaking import Remaking
from runtime.report.run_state import HISTOGRAMS
from runtime.report.run_summary import Summing
from runtime.report.usage import Usage
from runtime.terminal_text import one_line

HISTOGRAMS_FILE = "histograms.jsonl"
RESUMED = "resumed"  # the lead's event: the checkpoint that the run begins with


class RunDirectory:
    """Makes the directory of one run, with mode 0700, and writes its journal. Raises LaunchError,
    with the file that cannot be made.

    `now` is the run's clock. `virtual` says that it is not real time: then no event has a time of
    day, so that a repeated run writes the same bytes. A run that is not `observed` has no files
    next to its journal. Set `on_trouble` to get a text about each loss in the journal.

    `up` is the id of the lock that is held while the run lives. `title` is the name that the
    topology gives its runs. `continues` is the id of the run that this one follows; the event
    `resumed` also sets it, from the checkpoint that the run began with. `clock_behind` is a warning
    if another run of the folder began later than the present time. The folder's name is only for
    people.
    """

    def __init__(
        self,
        below: Path,
        name: str,
        now: Callable[[], float] = time.monotonic,
        *,
        virtual: bool = False,
        observed: bool = True,
        up: str = "",
        continues: str = "",
        title: str = "",
    ) -> None:
        stamp = time.strftime("%Y%m%d-%H%M%S")
        self.on_trouble: Callable[[str], None] = lambda text: None
        try:
            below.mkdir(parents=True, exist_ok=True)
            began = self._next_begin(below)
            self.path = _make_unique(below / f"{stamp}-{name}")
            self.identity = Identity.new(name, began, up=up, continues=continues, title=title)
            self._journal = self._begun()
        except OSError as error:
            raise no_run_directory(below, error) from None
        self._now = now
        self._began = now()
        self._made = time.monotonic()
        self._virtual = virtual
        beside = {log_table.FILE, usage.FILE, run_summary.FILE, HISTOGRAMS_FILE}
        self._refused: set[str] = set() if observed else beside
        self._summing = Summing()
        self._table: Journal | None = None
        self._lines: Journal | None = None  # usage.jsonl
        self._histograms: Journal | None = None
        self._usage = Usage(self._use)
        self._remaking = Remaking(self.path, self._journals, lambda text: self.on_trouble(text))

    @property
    def age(self) -> float:
        """Seconds of this machine's clock since the run began, whatever clock the run uses."""
        return time.monotonic() - self._made

    def write(self, name: str, content: str | dict[str, Any] | list[Any]) -> None:
        """Write a file of the run: text as it is, anything else as JSON. Raises LaunchError if the
        file cannot be written."""
        text = content if isinstance(content, str) else json.dumps(content, indent=1) + "\n"
        try:
            replace(self.path / name, text.encode())
        except UnicodeEncodeError as error:
            part = one_line(error.object[max(0, error.start - 40) : error.end + 40])
            why = (
                f"it would hold bytes that are not UTF-8, near '{part}': rename that file or folder"
            )
            raise LaunchError(f"{self.path / name}: cannot be written: {why}") from None
        except OSError as error:
            raise LaunchError(f"{self.path / name}: cannot be written: {reason(error)}") from None

    def event(self, actor: str, event: str, fields: dict[str, Any]) -> None:
        """Append an event to events.jsonl. `t` is in seconds since the run began, `unix_seconds` in
        seconds since 1970. Progress reports and tests also become rows of log.csv. Histograms are
        appended to histograms.jsonl instead."""
        if not self._virtual:
            self._remaking.look(self.age)
        if event == HISTOGRAMS:
            self._keep_histograms(actor, fields)
            return
        stamp = {"t": self._since()}
        if not self._virtual:
            stamp["unix_seconds"] = round(time.time(), 3)
        self._journal.write(stamp, actor, event, fields)
        self._summing.event(stamp["t"], event, fields)
        if event in log_table.EVENTS:
            if self._table is None:
                self._table = self._beside(log_table.FILE, log_table.header())
            if self._table is not None:
                self._table.append(log_table.row(stamp, event, fields))
        if event == RESUMED:
            self._continue_from(fields.get("checkpoint"))

    def beat(self, process: str, heartbeat: Heartbeat) -> None:
        """Add the totals of a heartbeat to usage.jsonl when a line is due. A directory that was
        removed is made again."""
        self._remaking.keep()
        self._remaking.look(self.age)
        self._usage.beat(process, heartbeat, self._since())

    def used(
        self,
        process: str,
        work: Mapping[str, Any],
        actors: Mapping[str, Any] | None = None,
        received: Mapping[str, Any] | None = None,
    ) -> None:
        """Note the totals of a process that sends no heartbeats: see Usage.add."""
        self._usage.add(process, actors or {}, work, received or {}, self._since())

    def failed(self, error: ConvoyError) -> None:
        """Write the error that ended the run to the journal."""
        self.event("supervisor", "failed", {"error": str(error), "exit_code": error.exit_code})

    def close(self) -> None:
        """Write the summary of the run, and close the journal and the files next to it."""
        self._usage.end()
        self._sum_up()
        for journal in self._journals():
            journal.close()

    def _sum_up(self) -> None:
        if run_summary.FILE not in self._refused:
            # without this file the summary is made from the journal; a full disk is reported there
            with suppress(OSError, ConvoyError):
                run_summary.write(self._summing, self.path)

    def _journals(self) -> list[Journal]:
        beside = (self._table, self._lines, self._histograms)
        return [self._journal, *(each for each in beside if each is not None)]

    def discard(self) -> None:
        """Close and delete the run directory, since there was no run."""
        self.close()
        shutil.rmtree(self.path, ignore_errors=True)

    def _next_begin(self, below: Path) -> float:
        clock = time.time()
        began, before = next_begin(below, clock)
        self.clock_behind = ""
        if before is not None:
            ahead = (
                f"{before.directory.name} began {before.identity.began - clock:.0f} s "
                "later than it is now"
            )
            mend = "this run is recorded as begun right after that; set the clock if it is wrong"
            self.clock_behind = f"by the clock of this host {ahead}: {mend}"
        return began

    def _continue_from(self, checkpoint: object) -> None:
        """Record the run whose checkpoint this one began with, if the checkpoint lies in a run
        directory."""
        try:
            before = identity_of(Path(checkpoint).parent) if isinstance(checkpoint, str) else None
            if before is not None and before.id not in ("", self.identity.id):
                self.identity = dataclasses.replace(self.identity, continues=before.id)
                self.identity.write(self.path)
        except OSError as error:
            self.on_trouble(
                f"{self.path}: {error.strerror}: it is not recorded which run this one continues"
            )

    def _since(self) -> float:
        return round(self._now() - self._began, 6)

    def _use(self, line: dict[str, Any]) -> None:
        if self._lines is None:
            self._lines = self._beside(usage.FILE)
        if self._lines is not None:
            self._lines.append(json.dumps(line) + "\n")

    def _keep_histograms(self, actor: str, fields: dict[str, Any]) -> None:
        if self._histograms is None:
            self._histograms = self._beside(HISTOGRAMS_FILE)
        if self._histograms is not None:
            line = {"t": self._since(), "actor": actor, **fields}
            self._histograms.append(json.dumps(line, separators=(",", ":")) + "\n")

    def _beside(self, name: str, first: str = "") -> Journal | None:
        """Open another file next to the journal. None if it cannot be made: this is reported once,
        and the run goes on without the file."""
        if name in self._refused:
            return None
        try:
            made = self._opened(name)
        except OSError as error:
            self._refused.add(name)
            self.on_trouble(f"{self.path / name}: {reason(error)}: it is not written")
            return None
        if first:
            made.append(first)
        return made

    def _begun(self) -> Journal:
        """Write the first files. On an error, delete the directory."""
        try:
            self.identity.write(self.path)
            return self._opened(FILE)
        except BaseException:
            shutil.rmtree(self.path, ignore_errors=True)
            raise

    def _opened(self, name: str) -> Journal:
        return Journal(self.path / name, lambda text: self.on_trouble(text))


def _make_unique(path: Path) -> Path:
    for number in range(1, 1000):
        candidate = path if number == 1 else path.with_name(f"{path.name}-{number}")
        try:
            candidate.mkdir(mode=0o700)
        except FileExistsError:
            continue
        return candidate
    raise FileExistsError(path)
