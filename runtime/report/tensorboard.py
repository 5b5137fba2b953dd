"""The numbers of progress reports and tests in TensorBoard's format, for `tensorboard --logdir
runs`.

They are written by tensorboardX, which is imported only if the run asks for it. The run directory
gets one file, and each number is in it as soon as it is reported. A full or broken disk does not
end the run; the error is reported once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from runtime.errors import ConvoyError, LaunchError
from runtime.reasons import reason
from runtime.report.trackers import EVENTS, numbers_of

FOLDER = "tensorboard"


class TensorBoard:
    """A watcher that writes the numbers of a run. Calls `tell` with a text if numbers are lost.
    Raises LaunchError if tensorboardX is missing or the file cannot be made."""

    def __init__(self, directory: Path, tell: Callable[[str], None]) -> None:
        try:
            from tensorboardX import event_file_writer
        except ImportError:
            text = "run.tensorboard is true, but tensorboardX is not installed"
            raise LaunchError(f"{text}: pip install 'convoy-runtime[tensorboard]'") from None
        self._path = directory / FOLDER
        self._tell = tell
        self._is_broken = False
        self._steps: dict[str, int] = {}
        try:
            self._path.mkdir()
            self._writer = event_file_writer.EventsWriter(str(self._path / "events"))
            self._writer.flush()
        except OSError as error:
            raise LaunchError(f"{self._path}: cannot be written: {reason(error)}") from None

    def __repr__(self) -> str:
        return f"<numbers for TensorBoard in {self._path}>"

    def event(self, actor: str, event: str, fields: Mapping[str, Any]) -> None:
        """Write the numbers of a progress report or test. Other events are ignored."""
        if event in EVENTS and not self._is_broken:
            self._write(*numbers_of(event, fields, self._steps))

    def beat(self, process: str, heartbeat: object) -> None:
        """Ignore it: a heartbeat is not an event."""

    def failed(self, error: ConvoyError) -> None:
        """Ignore it: an error has no numbers."""

    def close(self) -> None:
        """Close the file."""
        self._guarded(self._writer.close)

    def _write(self, numbers: Mapping[str, float], step: int) -> None:
        from tensorboardX.proto.event_pb2 import Event
        from tensorboardX.proto.summary_pb2 import Summary

        values = [Summary.Value(tag=tag, simple_value=value) for tag, value in numbers.items()]
        event = Event(wall_time=time.time(), step=step, summary=Summary(value=values))
        self._guarded(lambda: self._writer.write_event(event))
        self._guarded(self._writer.flush)

    def _guarded(self, act: Callable[[], object]) -> None:
        try:
            if not self._is_broken:
                act()
        except OSError as error:
            self._is_broken = True
            self._tell(f"{self._path}: {reason(error)}: nothing more is written for TensorBoard")
