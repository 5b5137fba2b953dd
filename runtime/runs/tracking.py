"""The curves of a run for other programs: TensorBoard, and trackers of experiments."""

from __future__ import annotations

import asyncio

from runtime.config.sections import Run
from runtime.report.rundir import RunDirectory
from runtime.report.tensorboard import TensorBoard
from runtime.report.trackers import Tracked
from runtime.runs.execution import Watchers


class Tracking(Watchers):
    """Passes everything on to those that [run] asks for. Raises LaunchError if the run cannot write
    for TensorBoard."""

    def __init__(self, said: Run, directory: RunDirectory) -> None:
        tell = directory.on_trouble
        self._boards = [TensorBoard(directory.path, tell)] if said.tensorboard else []
        self._trackers = [Tracked(name, directory.path, tell) for name in said.trackers]
        super().__init__(*self._boards, *self._trackers)

    async def close(self) -> None:
        """Complete all files."""
        for board in self._boards:
            board.close()
        await asyncio.gather(*(tracker.close() for tracker in self._trackers))
