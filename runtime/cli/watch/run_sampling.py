"""The states of all processes of a run, asked for again and again. A process that does not answer
is not asked a second time meanwhile, and is shown as silent until it answers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from runtime.attached.attach import Client
from runtime.attached.observed_run import ObservedRun
from runtime.cli.arguments import Connection, runs_here, seen
from runtime.errors import ConfigError
from runtime.records.runs import run_directory
from runtime.suggest import hint

State = Mapping[str, Any]  # the state of a process, see `actors.snapshot`


@dataclass(frozen=True)
class Look:
    """The states at one moment: process -> its state, or None if it does not answer. `at` is the
    time of this process's event loop."""

    at: float
    states: Mapping[str, State | None]
    # process -> seconds without an answer
    silent: Mapping[str, float] = field(default_factory=dict)


class Looking:
    """Asks for states through a client, as an async context manager. Raises ConvoyError when the
    run is over."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self._asking: dict[str, asyncio.Task[State | None]] = {}
        self._since: dict[str, float] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for task in self._asking.values():
            task.cancel()
        await asyncio.gather(*self._asking.values(), return_exceptions=True)

    async def look(self, within: float) -> Look:
        """The states of all processes, as far as they arrive within so many seconds."""
        now = asyncio.get_running_loop().time
        present = [spec.name for spec in self.client.placement.processes]
        for ended in self._since.keys() - {*present}:
            self._asking.pop(ended).cancel()
            del self._since[ended]
        for process in present:
            if process not in self._asking:
                self._asking[process] = asyncio.create_task(self.client.snapshot(process))
                self._since.setdefault(process, now())
        await asyncio.wait(self._asking.values(), timeout=within)
        states: dict[str, State | None] = {}
        for process, task in list(self._asking.items()):
            states[process] = None
            if task.done():
                del self._asking[process]
                states[process] = task.result()  # raises ConvoyError if the run is over
            if states[process] is not None:
                del self._since[process]
        silent = {process: now() - since for process, since in self._since.items()}
        return Look(now(), states, silent)


def seen_by(
    run: str | None, name: str | None, connection: Connection
) -> tuple[AbstractAsyncContextManager[ObservedRun], str | None]:
    """The run, and the name of an actor or process in it, for `COMMAND [RUN] [NAME]`. A single word
    that does not name a run is a NAME in the only live run, else the newest, or the run that
    `--connect` leads to."""
    if run is None or name is not None:
        return seen(run, connection), name
    is_run = connection.connect is None and run_directory(Path(run), runs_here()) is not None
    return (seen(run, connection), None) if is_run else (seen(None, connection), run)


def named(name: str, known: Sequence[str], what: str) -> None:
    """Raise ConfigError if `name` is not among the `known` names."""
    if name not in known:
        raise ConfigError([f"no {what} of this run is called '{name}'{hint(name, known)}"])
