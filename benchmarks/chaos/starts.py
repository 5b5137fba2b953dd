"""Runs that start and end many times. See `benchmarks.chaos`."""

from __future__ import annotations

import signal
import tempfile
import time
from pathlib import Path

from benchmarks.chaos.processes import GONE_WITHIN, kill
from benchmarks.chaos.trials import Harm, Trials
from benchmarks.helpers.survivor import Survivor, living

ROLES = 32  # processes of a run
OTHERS = 3  # of them that are not workers
UP_WITHIN = 5.0  # seconds until all of them have begun


def orphans(trials: Trials, times: int) -> None:
    """Kill `up` itself: after five seconds no process and no folder of sockets may be left."""
    harm = Harm("SIGKILL of `up`")
    for _ in range(times):
        with trials.run() as run, trials.counted(harm):
            pids = run.pids()
            since = kill(run.process.pid, harm)
            run.process.wait(5.0)
            nothing_left(run, pids, since)
            harm.named.append(time.monotonic() - since)
    trials.told(harm, named=GONE_WITHIN)


def storms(trials: Trials, times: int) -> None:
    """Start `up` with 32 roles, and end it as soon as all have begun. `on` counts from the start
    until then."""
    trials.told(come_and_gone(trials, times), back=UP_WITHIN)


def come_and_gone(trials: Trials, times: int) -> Harm:
    """Start and end `up` so many times. Roles must not disturb each other, nothing may be left."""
    harm = Harm(f"`up` and Ctrl-C of {ROLES} roles")
    for _ in range(times):
        since = time.monotonic()
        with (
            trials.counted(harm),
            trials.run(
                "async", workers=ROLES - OTHERS, reproducible="false", first="began "
            ) as run,
        ):
            harm.back.append(time.monotonic() - since)
            pids = run.pids()
            harm.happened += len(pids) == ROLES
            run.process.send_signal(signal.SIGINT)
            code, said = run.end(20.0)
            assert code == 130, f"ended with {code}: {said}"
            nothing_left(run, pids, time.monotonic())
    return harm


def nothing_left(run: Survivor, pids: dict[str, int], since: float) -> None:
    """Check that no process and no folder of sockets is left five seconds after `since`. Raises
    AssertionError otherwise."""
    while left := [name for name, pid in pids.items() if living(pid)]:
        assert time.monotonic() - since < GONE_WITHIN, f"left after 5 s: {', '.join(left)}"
        time.sleep(0.01)
    folder = f"convoy-sockets-{run.process.pid}-*"
    while found := list(Path(tempfile.gettempdir()).glob(folder)):
        assert time.monotonic() - since < GONE_WITHIN, f"left after 5 s: {found[0].name}"
        time.sleep(0.01)
