"""Harm to the disks and clocks that processes depend on. See `benchmarks.chaos`."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.chaos.checkpoint_writers import Nursery, arrays_of, loaded
from benchmarks.chaos.processes import next_progress
from benchmarks.chaos.trials import Absent, Harm, Trials
from benchmarks.helpers.survivor import environment, events
from nets.files import checkpoint

WRITERS = 20  # killed in each round of the part
HOUR = 3600
CLOCK = """
import time
_real, _said = time.time, {said!r}

def _faked():
    with open(_said) as file:
        return _real() + float(file.read())

time.time = _faked
"""


def disk(trials: Trials, times: int) -> None:
    """Fill the disk: that costs checkpoints but no training. Kill checkpoint writers: each leaves
    the previous file or the new one."""
    full = Harm("no space left on the disk")
    writers = Harm("SIGKILL of a writer")
    path = trials.folder / "checkpoint-0000001.safetensors"
    nursery = Nursery(path)
    try:
        checkpoint.save(path, arrays_of(0), {"iteration": "0"})
        for _ in range(WRITERS * times):
            with trials.counted(writers):
                before = loaded(path)
                nursery.kill(nursery.start(before + 1), trials.chance.uniform(0.0, 0.02))
                writers.happened += 1
                # a writer may die before it says that a file is whole
                last = max(before, nursery.whole)
                assert last <= loaded(path) <= last + 1, "the file is not one that was written"
    finally:
        nursery.close()
    halves = len(list(trials.folder.glob(".*.tmp")))
    trials.record.facts["half-written files that killed writers left"] = halves
    for _ in range(times):
        with (
            small_disk(trials.folder / "disk") as folder,
            trials.run(folder=folder) as run,
            trials.counted(full),
        ):
            _fill(folder / "full")
            since = time.monotonic()
            warned = run.at(r"warning +\S+: no checkpoint: .*No space left on device")
            full.named.append(warned - since)
            # the journal, too, may have no room for the event
            full.happened += os.statvfs(folder).f_bavail == 0
            next_progress(run, time.monotonic())
            (folder / "full").unlink()
            since = time.monotonic()
            full.back.append(run.at(r"checkpoint ") - since)
    trials.told(writers, full, named=30.0, back=30.0)


def clock(trials: Trials, times: int) -> None:
    """Move the wall clock an hour ahead, and back: no process may be taken for dead. In every
    process of the run, `time.time` is replaced by a function that adds the number in a file. The
    kernel's clocks go on."""
    said = trials.folder / "clock"
    site = trials.folder / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(CLOCK.format(said=str(said)))
    _set(said, 0)
    path = environment()["PYTHONPATH"]
    harm = Harm("the wall clock jumps by an hour")
    with trials.run(env={**environment(), "PYTHONPATH": f"{site}{os.pathsep}{path}"}) as run:
        for _ in range(times):
            for hours in (1, 0, -1, 0):
                with trials.counted(harm):
                    directory = run.newest
                    since = time.monotonic()
                    _set(said, hours)
                    trials.pause(2.5, 3.0)  # longer than any silence that does not mean death
                    harm.back.append(next_progress(run, since + 2.5) - since)
                    shown = events(run.newest, "progress")[-1]["unix_seconds"] - time.time()
                    harm.happened += abs(shown - hours * HOUR) < HOUR / 2
                    assert run.newest == directory, "a process was taken for dead"
                    assert events(directory, "failed") == [], "the run has failed"
    trials.told(harm)


# -- the harm itself


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """Mount a disk of 64 MiB."""
    folder.mkdir(exist_ok=True)
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64m", "none", folder], capture_output=True, text=True
    )
    if done.returncode:
        raise Absent(f"no disk can be mounted: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True, timeout=20)


# -- shared helpers


def _fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(1 << 16))
        except OSError:
            return


def _set(said: Path, hours: int) -> None:
    """Set how many hours the faked clocks are ahead."""
    half = said.with_suffix(".new")
    half.write_text(f"{hours * HOUR:+d}")
    half.replace(said)
