"""The Python stacks of a process. A signal, which needs no event loop, makes the process append
them to a file of the run directory. The system reports whether a process is stopped."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

from runtime.attached.attach import Client
from runtime.attached.observed_run import ObservedRun
from runtime.cluster.operators.operator_messages import STACKS
from runtime.errors import ConfigError
from runtime.machine.stacks import INTO_FILE, stacks_of
from runtime.regular import size_now

HERE_SECONDS = 2.0  # until the stacks are written on this host
FAR_SECONDS = 8.0  # until they are copied from another host
LOOK_SECONDS = 0.05
NATIVE_SECONDS = 20.0
STATES = {
    "T": "stopped",
    "t": "stopped by a debugger",
    "Z": ("over: its parent has not read its exit status yet"),
}


def is_called(pid: int, process: str) -> bool:
    """Return whether a process with this pid and this name exists here. Two hosts may share a name,
    and a signal would end a foreign process that does not expect it."""
    try:
        return Path(f"/proc/{pid}/comm").read_text("utf-8", "replace").rstrip("\n") == process[:15]
    except OSError:
        return False


def stands_still(pid: int) -> str:
    """The reason why a process of this host cannot write, in words. "" if it can."""
    try:
        state = (
            Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()[0]
        )
    except OSError:
        return "gone"
    more = f": `kill -CONT {pid}` lets it go on" if state == "T" else ""
    return STATES.get(state, "") + more if state in STATES else ""


async def written(seen: ObservedRun, process: str, pid: int | None, client: Client | None) -> str:
    """The stacks of a process of this host (by its pid), or of another host. "" if none arrive in
    time."""
    path = stacks_of(seen.directory, process)
    await seen.refresh(STACKS)
    before = size_now(path)
    if pid is not None:
        with suppress(ProcessLookupError):
            os.kill(pid, INTO_FILE)
    elif client is not None:
        await client.show_stacks(process)
    size = before
    with suppress(TimeoutError):
        async with asyncio.timeout(FAR_SECONDS if pid is None else HERE_SECONDS):
            while True:  # written in one go, so a file that has stopped growing is whole
                await asyncio.sleep(LOOK_SECONDS)
                await seen.refresh(STACKS)
                size, last = size_now(path), size
                if size == last > before:
                    break
    if size <= before:
        return ""
    with path.open("rb") as file:
        file.seek(before)
        return file.read().decode(errors="replace")


def shortened(text: str) -> Iterator[str]:
    """The lines, with files named as they are imported."""
    places = sorted({f'File "{place}/' for place in sys.path if place}, key=len, reverse=True)
    for line in text.splitlines():
        place = next(filter(line.lstrip().startswith, places), "")
        yield line.replace(place, 'File "', 1) if place else line


async def native(pid: int) -> list[str]:
    """The stacks with the frames of libraries and kernels. Raises ConfigError if py-spy is not
    installed."""
    tool = shutil.which(
        "py-spy",
        path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
    )
    if tool is None:
        text = "--native: py-spy is not installed: pip install 'convoy-runtime[stacks]'"
        raise ConfigError([text])
    run = partial(
        subprocess.run, capture_output=True, encoding="utf-8", errors="replace", check=False
    )
    command = [tool, "dump", "--native", "--pid", str(pid)]
    try:
        done = await asyncio.to_thread(run, command, timeout=NATIVE_SECONDS)
    except subprocess.TimeoutExpired:
        return [f"py-spy did not end within {NATIVE_SECONDS:g} s"]
    if done.returncode:
        why = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        return [
            f"py-spy cannot look into the process: {why[0]}",
            "it needs the right to trace: root, or kernel.yama.ptrace_scope = 0",
        ]
    return done.stdout.splitlines()
