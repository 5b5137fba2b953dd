"""The started processes of a run: their start by the launcher, signals to them, and the wait for
their end.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

from runtime.cluster.launcher import Launched, Launcher
from runtime.cluster.lifecycle import FIRST
from runtime.cluster.supervising.supervised_run import SupervisedRun
from runtime.errors import ConvoyError, LaunchError
from runtime.plan.topology import ProcessSpec

TERMINATE_SECONDS = 1.0  # from SIGTERM to SIGKILL

# awaited with a process that has ended, its incarnation, and its exit status (`Launched.wait`)
OnExit = Callable[[Launched, int, int], Awaitable[None]]


class Processes:
    """The started processes of one run, by name. `exited` is awaited when one has ended."""

    def __init__(self, run: SupervisedRun, launcher: Launcher, exited: OnExit) -> None:
        self._run = run
        self._launcher = launcher
        self._exited = exited
        self._launched: dict[str, Launched] = {}
        self._watchers: set[asyncio.Task[None]] = set()

    def __repr__(self) -> str:
        return f"<processes: {len(self._watchers)} of {len(self._launched)} have not ended>"

    def __contains__(self, process: object) -> bool:
        return process in self._launched

    def __getitem__(self, process: str) -> Launched:
        return self._launched[process]

    def __iter__(self) -> Iterator[str]:
        return iter(self._launched)

    # -- starts

    async def start_all(self) -> None:
        """Open all machines of the run and start its processes. An error ends the run."""
        run = self._run
        try:
            used = {spec.machine for spec in run.placement.processes}
            for machine in self._launcher.plan.machines:
                if machine.name in used:
                    async with self._in_time(f"machine '{machine.name}' was not ready"):
                        await self._launcher.open(machine)
            for spec in run.placement.processes:
                await self.start(spec, FIRST)
        except ConvoyError as error:
            run.end(error)
        except Exception as error:  # noqa: BLE001  # a mistake in the launcher: passed on with the outcome
            run.fail(error)

    async def start(self, spec: ProcessSpec, incarnation: int) -> None:
        """Start one life of a process. Raises LaunchError if it cannot be started."""
        async with self._in_time(f"process '{spec.name}' was not started"):
            launched = await self._launcher.launch(spec, incarnation)
        self._launched[spec.name] = launched
        if self._run.outcome.done():
            launched.signal(signal.SIGKILL)
        self._run.supervision.launched(spec.name, self._run.now())
        watcher = asyncio.create_task(
            self._watch_exit(launched, incarnation), name=f"exit of {spec.name}"
        )
        self._watchers.add(watcher)
        watcher.add_done_callback(self._watchers.discard)

    @asynccontextmanager
    async def _in_time(self, what: str) -> AsyncIterator[None]:
        seconds = max(self._run.liveness.start_seconds, self._launcher.patience)
        try:
            async with asyncio.timeout(seconds):
                yield
        except TimeoutError:
            raise LaunchError(f"{what} within {seconds:g} s: {self._launcher.waiting()}") from None

    # -- ends

    async def _watch_exit(self, launched: Launched, incarnation: int) -> None:
        await self._exited(launched, incarnation, await launched.wait())

    def log(self, process: str) -> Path:
        """Return the log of a process."""
        return self._launched[process].log

    def forget(self, process: str) -> None:
        """Forget a process that has ended in order, or could not be started."""
        self._launched.pop(process, None)

    async def ended(self, process: str) -> None:
        """Wait until a process that was told to end has ended. It is killed if it does not."""
        launched = self._launched[process]
        try:
            await asyncio.wait_for(launched.wait(), TERMINATE_SECONDS)
        except TimeoutError:
            launched.signal(signal.SIGKILL)
            await launched.wait()

    async def all_ended(self, patience: float) -> None:
        """Wait until all processes have ended, `patience` seconds at most."""
        if self._watchers:
            await asyncio.wait(self._watchers, timeout=patience)

    def signal_all(self, number: signal.Signals) -> None:
        """Send a signal to all processes that have not ended."""
        for launched in self._launched.values():
            launched.signal(number)

    async def kill_all(self) -> None:
        """End the processes that have not ended: by SIGTERM, then by SIGKILL."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            self.signal_all(number)
            await self.all_ended(TERMINATE_SECONDS)

    def signal(self, process: str, number: signal.Signals) -> None:
        """Send a signal to a process, on any machine. Does nothing if the process was not started
        or has ended."""
        if process in self._launched:
            self._launched[process].signal(number)
