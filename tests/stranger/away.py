"""A launcher of an installed package that starts processes as on another machine: with a run directory and a private
folder of their own, into which it brings what they need as bytes.
"""

from __future__ import annotations

import dataclasses
import tempfile

from runtime.cluster.launcher import LaunchPlan
from runtime.plan.run_plan import RunPlan
from runtime.transport.keys import Keys
from tests.stranger.launcher import PlainLauncher, PlainProcess


class AwayLauncher(PlainLauncher):
    """Every process has a folder below the run directory that stands for the disk of its machine, and short-lived
    sockets elsewhere."""

    def __init__(self, plan: LaunchPlan) -> None:
        super().__init__(plan)
        self._folders: list[tempfile.TemporaryDirectory[str]] = []

    def _start(self, name: str, incarnation: int) -> PlainProcess:
        private = tempfile.TemporaryDirectory()
        self._folders.append(private)
        away = dataclasses.replace(RunPlan.read(self.plan.directory), socket_directory=private.name)
        Keys.of(self.plan.keys[name].blob()).write(away.key_file(name))
        disk = self.plan.directory / f"disk-of-{name}"
        disk.mkdir()
        away.write(disk)
        return self._run(disk, name, incarnation)

    async def close(self) -> None:
        await super().close()
        for folder in self._folders:
            folder.cleanup()
