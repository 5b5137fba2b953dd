"""Checks of broken inputs in forked children of one warm process, each with its own limits; a case
that passes is run.

Run as `python -m tests.helpers.checked DIRECTORY KIND:NUMBER ...`: it prints a JSON line for each
case.
"""

from __future__ import annotations

import faulthandler
import json
import os
import resource
import signal
import sys
import traceback
from dataclasses import asdict, dataclass
from pathlib import Path

from ops.backends import cpu_backend
from roles.planning import planner
from runtime.cli.main import main
from runtime.recovery import up_runs
from runtime.runs import checking, virtual_run
from tests.helpers.broken_inputs import write

IMPORTED = (cpu_backend, planner, checking, up_runs, virtual_run)  # imported once, before the forks
HANGS = 100.0  # seconds: a child that lives longer waits for something
SPACE = 3 << 30  # bytes of address space on top of the present size: the machine is shared
VIRTUAL = (
    "--set",
    "simulation.clock=virtual",
    "--set",
    "run.directory=runs",
    "--set",
    "train.max_iter=2",
)


@dataclass(frozen=True)
class Ended:
    """The end of a command in a child.

    The status is its exit status, or minus the signal that killed it. `seconds` is processor time,
    so that other processes on the machine do not count. `megabytes` is its largest size.
    """

    status: int
    said: str
    seconds: float
    megabytes: float


def ended(arguments: list[str], directory: Path, limit: float) -> Ended:
    """Run the command line in a child. After `limit` seconds of processor time the child prints its
    stacks and ends.
    """
    sys.stdout.flush()
    child = os.fork()
    if not child:
        _be(arguments, directory, limit)
    _, status, used = os.wait4(child, 0)
    said = (directory / "said").read_text(errors="backslashreplace")
    return Ended(
        os.waitstatus_to_exitcode(status),
        said,
        used.ru_utime + used.ru_stime,
        used.ru_maxrss / 1000,
    )


def _be(arguments: list[str], directory: Path, limit: float) -> None:
    status = 70
    try:
        os.chdir(directory)
        said = os.open("said", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for stream in (1, 2):
            os.dup2(said, stream)
        size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size + SPACE, size + SPACE))
        faulthandler.register(signal.SIGPROF, chain=True)
        signal.setitimer(signal.ITIMER_PROF, limit)
        faulthandler.dump_traceback_later(HANGS, exit=True)
        status = main(arguments)
    except BaseException:  # a person would see this traceback
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def examined(directory: Path, kind: str, number: int) -> dict[str, object]:
    """The outcome of `check` for a case, and of `up` if the check passes."""
    more = write(directory, kind, number)
    checked = ended(["check", "cluster.toml", *more], directory, 5.0)
    found: dict[str, object] = {
        "kind": kind,
        "number": number,
        "check": asdict(checked),
        "up": None,
    }
    if checked.status == 0:
        found["up"] = asdict(ended(["up", "cluster.toml", *more, *VIRTUAL], directory, 60.0))
    return found


if __name__ == "__main__":
    for case in sys.argv[2:]:
        name, _, at = case.partition(":")
        folder = Path(sys.argv[1]) / f"{name}-{at}"
        folder.mkdir(parents=True)
        print(json.dumps(examined(folder, name, int(at))), flush=True)
