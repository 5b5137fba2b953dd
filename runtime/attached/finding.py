"""Which runs live, and which one is meant. There is no list of them: a run lives if whoever listens at the socket that
its run directory names answers.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from pathlib import Path

from runtime.errors import ConfigError, ConvoyError
from runtime.plan.run_plan import FILE, RunPlan
from runtime.reasons import reason

PATIENCE = 1.5  # seconds in which a supervisor answers; one that is stopped is named within 2


def directories(below: Path) -> list[Path]:
    """The run directories in a folder, the newest last; `below` itself if it is one. ConvoyError if it is another
    user's."""
    try:
        found = [path for path in below.iterdir() if _has_plan(path)] if below.is_dir() else []
        return [below] if _has_plan(below) else sorted(found, key=lambda path: (_began(path), path.name))
    except PermissionError:
        raise ConvoyError(f"{below}: it is another user's") from None
    except OSError as error:
        raise ConvoyError(f"{below}: runs cannot be looked for: {reason(error)}") from None


async def live(below: Path) -> list[Path]:
    """Those whose supervisor is there, whether it answers or is stopped."""
    found = await asyncio.to_thread(directories, below)
    there = await asyncio.gather(*(asyncio.to_thread(listens, path) for path in found))
    return [path for path, is_there in zip(found, there, strict=True) if is_there]


async def meant(run: Path | None, below: Path) -> Path:
    """The run directory of this path or name; with none the only live run, else the newest. ConfigError if there is
    none or there are several, ConvoyError if it is another user's."""
    if run is not None:
        for path in (run, below / run):
            if path.is_dir():
                return _checked(path)
        raise ConfigError([f"{run}: found no such folder, expected a run directory, or the name of one in {below}"])
    living = await live(below)
    if len(living) > 1:
        names = ", ".join(path.name for path in living)
        raise ConfigError([f"{len(living)} live runs in {below}: {names}; say which"])
    found = living or await asyncio.to_thread(directories, below)
    if not found:
        raise ConfigError(
            [f"{below}: found no run there, expected the folder of run directories, or a run by its path"]
        )
    return found[-1]


def listens(directory: Path) -> bool:
    """Does somebody listen at the private socket of this run? The system says so also of one that is stopped.
    ConvoyError if it cannot be asked."""
    try:
        address = RunPlan.read(directory).supervisor.control[0].removeprefix("unix://")
        with socket.socket(socket.AF_UNIX) as knock:
            knock.settimeout(PATIENCE)
            knock.connect(address)
    except TimeoutError:  # too many wait before it
        return True
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            raise ConvoyError(f"{directory}: whether this run is live is not known: {reason(error)}") from None
        return False
    except (KeyError, TypeError, ValueError, AttributeError, IndexError):
        return False
    return True


def _checked(path: Path) -> Path:
    try:
        if _has_plan(path):
            return path
    except PermissionError:
        raise ConvoyError(f"the run in {path} is another user's") from None
    raise ConfigError(
        [f"{path}: found no {FILE} in it, expected the directory of a run whose actors live in processes"]
    )


def _has_plan(path: Path) -> bool:
    try:
        return (path / FILE).exists()
    except PermissionError:
        raise
    except OSError:
        return False


def _began(path: Path) -> float:
    return (path / FILE).stat().st_mtime
