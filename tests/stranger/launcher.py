"""A launcher that Convoy does not have: `kind = "plain"` starts every process from scratch, with
all its imports."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from runtime.cluster.launcher import Launched, Launcher, LaunchPlan
from runtime.cluster.process import live
from runtime.config.sections import Machine
from runtime.errors import LaunchError
from runtime.plan.run_plan import RunPlan
from runtime.plan.topology import ProcessSpec


@dataclass
class PlainProcess(Launched):
    """A process of this machine. Its standard input is open as long as the launcher lives."""

    name: str
    log: Path
    process: subprocess.Popen[bytes]

    async def wait(self) -> int:
        return await asyncio.to_thread(self.process.wait)

    def signal(self, number: signal.Signals) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, number)


class PlainLauncher(Launcher):
    """A launcher that runs this file once for each process."""

    def __init__(self, plan: LaunchPlan) -> None:
        super().__init__(plan)
        self.logs = plan.directory / "logs"
        self.started = list[PlainProcess]()

    async def open(self, machine: Machine) -> None:
        self.logs.mkdir(exist_ok=True)

    async def launch(self, spec: ProcessSpec, incarnation: int) -> Launched:
        try:
            self.started.append(self._start(spec, incarnation))
        except OSError as error:
            raise LaunchError(f"process '{spec.name}' could not be started: {error}") from None
        return self.started[-1]

    def _start(self, spec: ProcessSpec, incarnation: int) -> PlainProcess:
        path = self.logs / f"{spec.name}.log"
        command = [sys.executable, __file__, str(self.plan.directory), spec.name, str(incarnation)]
        there = next(
            machine.environment for machine in self.plan.machines if machine.name == spec.machine
        )
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **there}
        with path.open("ab") as log:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,
            )
        return PlainProcess(spec.name, path, process)

    async def close(self) -> None:
        for one in self.started:
            if one.process.stdin is not None:
                one.process.stdin.close()


if __name__ == "__main__":
    directory, name, incarnation = sys.argv[1:]
    print(f"{name} was started by the plain launcher", flush=True)
    sys.exit(live(RunPlan.read(Path(directory)), Path(directory), name, int(incarnation)))
