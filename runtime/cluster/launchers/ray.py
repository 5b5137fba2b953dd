"""Machines that are nodes of a Ray cluster. Ray finds a node for each and starts its agent. No data
travel through Ray.

Ray runs in a separate process (`ray_driver`), so that its threads and signal handlers are not in
`up`, and its output goes to `logs/ray.log` of the run. The process ends with `up`. Ray then frees
everything that it holds for the run.

      up                                            ray_driver
       |  --- {"address": a, "bundles": [...]} -->      joins the cluster, asks for room
       |  <-- {"waiting": why} ------------------       again and again, until there is room
       |  --- {"start": m, "command", "line"} -->       an actor there runs the command
       |  --- {"kill": m} ---------------------->
       |  <-- {"ended": m, "how": words} --------       once for each that was started
       |  <-- {"failed": words} -----------------       the last message
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from runtime.cluster.launcher import LaunchPlan, describe_exit
from runtime.cluster.launchers.agents import AgentLauncher, Handle, shell_line
from runtime.errors import LaunchError
from runtime.machine.owned import open_file
from runtime.reasons import reason
from runtime.terminal_text import bounded, one_line

if TYPE_CHECKING:
    from runtime.config.sections import Machine  # importing it loads pydantic

LOG = "ray.log"
END_SECONDS = 10.0  # for the driver to disconnect from Ray


class RayLauncher(AgentLauncher):
    """The launcher of `kind = "ray"`."""

    start_seconds = 120.0  # a cluster may have to grow first

    def __init__(self, plan: LaunchPlan) -> None:
        super().__init__(plan)
        self._driver: Driver | None = None

    async def start(self, machine: Machine, argv: Sequence[str], line: str) -> Handle:
        """Ray carries the line as an argument of a call, from process to process. The line appears
        in no table, store or log of Ray."""
        if self._driver is None:
            self._driver = Driver(self.plan.directory / "logs" / LOG)
            wishes = self._wishes.ray if self._wishes is not None else None
            more = {} if wishes is None else wishes.resources
            bundles = {each.name: {"CPU": each.cores or 1, **more} for each in self._elsewhere}
            self._driver.say(address=None if wishes is None else wishes.address, bundles=bundles)
        return RayAgent(machine.name, shell_line(machine, argv), line, self._driver)

    async def close(self) -> None:
        await super().close()
        if self._driver is not None:
            await self._driver.close()


class RayAgent(Handle):
    """The starter of one machine's agent."""

    def __init__(self, machine: str, command: str, line: str, driver: Driver) -> None:
        self._machine = machine
        self._driver = driver
        self._ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        driver.hears(machine, self._end)
        driver.say(start=machine, command=command, line=line)

    async def wait(self) -> str:
        return await asyncio.shield(self._ended)

    def kill(self) -> None:
        if not self._ended.done():
            self._driver.say(kill=self._machine)

    def waiting(self) -> str:
        return self._driver.waiting

    def _end(self, how: str) -> None:
        if not self._ended.done():
            self._ended.set_result(how)


class Driver:
    """The process that is connected to Ray. `waiting` describes what it waits for."""

    def __init__(self, log: Path) -> None:
        words = [sys.executable, "-m", "runtime.cluster.launchers.ray_driver"]
        pipe = subprocess.PIPE
        try:
            into = open_file(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            # a separate session, since `up` handles Ctrl-C
            with os.fdopen(into, "ab") as file:
                self._process = subprocess.Popen(
                    words, stdin=pipe, stdout=pipe, stderr=file, start_new_session=True
                )
        except OSError as error:
            raise LaunchError(f"ray: {error.filename or words[0]}: {reason(error)}") from None
        assert self._process.stdin is not None and self._process.stdout is not None
        self.waiting = "Ray has not answered yet"
        self._log = log
        self._over = ""
        self._ends: dict[str, Callable[[str], None]] = {}
        self._loop = asyncio.get_running_loop()
        self._orders: IO[bytes] = self._process.stdin
        threading.Thread(
            target=self._read, args=(self._process.stdout,), name="ray", daemon=True
        ).start()

    def hears(self, machine: str, ended: Callable[[str], None]) -> None:
        """Call `ended` with the text of how the agent of a machine has ended."""
        self._ends[machine] = ended
        if self._over:
            ended(self._over)

    def say(self, **order: Any) -> None:
        """Send an order. Does nothing if the driver has ended."""
        with suppress(OSError, ValueError):
            self._orders.write(json.dumps(order).encode() + b"\n")
            self._orders.flush()

    async def close(self) -> None:
        """Let the driver disconnect from Ray, which then frees everything that it holds for the
        run."""
        with suppress(OSError):
            self._orders.close()
        try:
            await asyncio.to_thread(self._process.wait, END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            text = (
                "ray: the driver did not end within %g s and was killed; Ray itself frees "
                "what it held, see %s"
            )
            logging.getLogger("convoy").warning(text, END_SECONDS, self._log)
            await asyncio.to_thread(self._process.wait)

    def _read(self, said: IO[bytes]) -> None:
        """Read the driver's messages and its exit status, in a thread."""
        with said:
            for line in said:
                self._call(self._hear, json.loads(line))
        self._call(self._lost, self._process.wait())

    def _call(self, function: Callable[[Any], None], argument: Any) -> None:
        with suppress(RuntimeError):  # the event loop has ended: no task waits any more
            self._loop.call_soon_threadsafe(function, argument)

    def _hear(self, said: dict[str, str]) -> None:
        if "waiting" in said:
            self.waiting = said["waiting"]
        elif "ended" in said:
            self._ends[said["ended"]](bounded(one_line(said["how"])))
        else:
            self._end(said["failed"])

    def _lost(self, status: int) -> None:
        last = self._last_line()
        self._end(f"its driver {describe_exit(status)}{f': {last}' if last else ''}")

    def _end(self, why: str) -> None:
        self._over = self._over or f"ray: {bounded(one_line(why))}"
        for ended in self._ends.values():
            ended(self._over)

    def _last_line(self) -> str:
        try:
            lines = self._log.read_text("utf-8", "replace").splitlines()
        except OSError:
            return ""
        return next((line.strip() for line in reversed(lines) if line.strip()), "")
