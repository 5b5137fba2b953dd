"""Processes that kill themselves at a chosen point of their work. See `benchmarks.chaos`."""

from __future__ import annotations

import time
from itertools import product
from pathlib import Path

from benchmarks.chaos.failpoints import ARMED, HIT, POINTS, VARIABLE, arm
from benchmarks.chaos.processes import WORKERS
from benchmarks.chaos.trials import Harm, Trials, named_and_back, trained_twice
from benchmarks.helpers.survivor import PATIENCE, environment, living

KINDS = ("conv-0-0", "conv_model", "fc_server", "reducer-0", "reducer-1", "coordinator")
PROGRAM = 'program = "benchmarks.chaos.failpoints"'
MOST = 20  # times that a process reaches its point until it dies


def points(trials: Trials, times: int) -> None:
    """Kill each kind of process at each point: before it sends, between two halves of a message,
    after it has sent, in its work. Every loss after a restart must be the same as before."""
    harms = {point: Harm(f"SIGKILL at: {point}") for point in POINTS}
    folder = trials.folder / "points"
    folder.mkdir()
    env = {**environment(), VARIABLE: str(folder)}
    with trials.run(workers=WORKERS, folder=folder, env=env, more=PROGRAM) as run:
        for _, kind, (point, harm) in product(range(times), KINDS, harms.items()):
            with trials.counted(harm):
                trials.pause(0.0, 0.5)
                pid = run.pid(kind)
                arm(folder, pid, point, trials.chance.randint(1, MOST))
                try:
                    since = _death(pid, folder / HIT)
                finally:  # else it would die in the middle of the next trial
                    (folder / ARMED).unlink(missing_ok=True)
                harm.happened += 1
                line = named_and_back(run, harm, since)
                assert f"process {kind} " in line, f"named as {line!r}"
        again = trained_twice(run)
    trials.told(*harms.values())
    for text in again:
        trials.record.fail(f"another loss after a restart: {text}")


def _death(pid: int, hit: Path) -> float:
    """The time at which a process reached its point and died. Raises AssertionError if it does not
    die."""
    deadline = time.monotonic() + PATIENCE
    while living(pid):
        assert time.monotonic() < deadline, "the process did not reach its point"
        time.sleep(0.001)
    # the file was renamed at that moment; the loop above notices the death later
    ago = time.time() - hit.stat().st_ctime
    hit.unlink()
    return time.monotonic() - ago
