"""The numbers of progress reports and tests as TensorBoard reads them, for `tensorboard --logdir
runs`.

Written by tensorboardX's own writer, which is imported when a run asks for it. One file of the run
directory; every number is there as soon as it is reported. A disk that is full or broken ends no
run: it is told once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from runtime.errors import ConvoyError, LaunchError
from runtime.reasons import reason

FOLDER = "tensorboard"
EVENTS = ("progress", "test")
NO_CURVES = ("iteration", "max_iter", "elapsed_seconds")


class TensorBoard:
    """A watcher of a run. `tell` hears in words what is lost. LaunchError if tensorboardX is
    missing or the file cannot be made."""

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
        """See Watcher."""
        if event not in EVENTS or self._is_broken:
            return
        counted = self._steps[event] = self._steps.get(event, 0) + 1
        step = fields.get("iteration")
        net = f"{fields['net']}/" if "net" in fields else ""
        numbers = {
            f"{event}/{net}{name}": float(value)
            for name, value in fields.items()
            if isinstance(value, (int, float)) and name not in NO_CURVES
        }
        self._write(numbers, step if isinstance(step, int) else counted)

    def beat(self, process: str, heartbeat: object) -> None:
        """A heartbeat is no event."""

    def failed(self, error: ConvoyError) -> None:
        """See Watcher."""

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
