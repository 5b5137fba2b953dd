"""Harm to processes. See `benchmarks.chaos`."""

from __future__ import annotations

import json
import os
import signal
import time
from contextlib import suppress
from pathlib import Path

from benchmarks.chaos.paced import PACED, brought, slow_down
from benchmarks.chaos.trials import ERROR, NAMED_WITHIN, Harm, Trials, named_and_back
from benchmarks.helpers.survivor import Survivor, events, living
from nets.files import checkpoint

SILENCE = 2.5  # seconds after which a process counts as dead
GONE_WITHIN = 5.0
WORKERS = 4  # two workers have no reducer, and with three a run does not repeat
KINDS = ("conv-0-0", "reducer-0", "conv_model", "fc_server", "coordinator", "nursery")
TWICE = 2.0  # seconds within which the second death comes
SLOWER = (2, 5, 10)  # times as slow
NAMED_AFTER = 20  # passes
PACE = 0.02  # seconds of each of a worker's two micro-batches in a pass
GROUP_PACE = 0.1  # the same where one worker is a group
GROUP_SECONDS = 8.0  # in which iterations are counted


def double(trials: Trials, times: int) -> None:
    """Kill one process, and within two seconds another one of the run that is then under way, also
    if that only begins."""
    harm = Harm("two SIGKILLs within 2 s")
    with trials.run() as run:
        for _ in range(times):
            with trials.counted(harm):
                trials.pause(0.0, 1.0)
                since = kill(trials.chance.choice(alive(run)))
                trials.pause(0.0, TWICE)
                kill(trials.chance.choice(alive(run)), harm)
                named_and_back(run, harm, since)
                settle(run)
    trials.told(harm, back=20.0)


def paused(trials: Trials, times: int) -> None:
    """Stop a process. A stop shorter than the limit costs only its time; a longer one is named."""
    short = [Harm(f"SIGSTOP for {seconds:g} s") for seconds in (0.2, 1.0)]
    long = Harm(f"SIGSTOP for more than {SILENCE:g} s")
    with trials.run(workers=WORKERS) as run:
        for _ in range(times):
            for kind in KINDS[:-1]:
                for harm, seconds in zip(short, (0.2, 1.0), strict=True):
                    with trials.counted(harm):
                        stopped_for(run.pid(kind), seconds, harm)
                        before = run.newest
                        since = time.monotonic()
                        harm.back.append(next_progress(run, since) - since)
                        assert run.newest == before, "a process was taken for dead"
        for _ in range(times):
            with trials.counted(long):
                kind = trials.chance.choice(KINDS[:-1])
                pid = run.pid(kind)
                since = time.monotonic()
                os.kill(pid, signal.SIGSTOP)
                long.happened += state(pid) == "T"
                line = named_and_back(run, long, since)
                assert f"process {kind} " in line, f"named as {line!r}"
                assert not living(pid), "the process still lives"
    trials.told(*short, long, named=NAMED_WITHIN + 0.5)


def slow(trials: Trials, times: int) -> None:
    """Make one of four workers take 2, 5 or 10 times as long. It must be named within 20 passes.
    The pauses of its layer set its time, as they do in its peers, so the result does not depend on
    other processes that need the cores. Stopping a process for a share of each 4 ms is not the
    same: LeNet's passes of 1.5 ms are hit or missed, and its peers wait for cores too."""
    harms = [Harm(f"a worker takes {factor} times as long") for factor in SLOWER]
    passes: dict[str, list[int]] = {harm.name: [] for harm in harms}
    for turn in range(times):
        for harm, factor in zip(harms, SLOWER, strict=True):
            folder = trials.folder / f"slow-{turn}-{factor}"
            folder.mkdir()
            env = brought(folder, PACE)
            with (
                trials.run(workers=4, folder=folder, env=env, solver=PACED) as run,
                trials.counted(harm),
            ):
                trials.pause(1.0, 2.0)
                began = len(events(run.newest, "progress"))
                since = time.monotonic()
                slow_down(folder, run.pid("conv-0-1"), factor)
                harm.named.append(run.at(r"straggler +worker conv-0-1 ", 60.0) - since)
                (told,) = (
                    event
                    for event in events(run.newest, "straggler")
                    if event["worker"] == "conv-0-1"
                )
                harm.happened += told["times"] > (1 + factor) / 2
                found = _journal(run).index("straggler:conv-0-1") - began
                passes[harm.name].append(found)
                assert found <= NAMED_AFTER, (
                    f"named after {found} passes, expected {NAMED_AFTER} at most"
                )
    trials.record.facts |= {
        (f"passes until it was named, where {name}"): found for name, found in passes.items()
    }
    trials.told(*harms, named=60.0)


def loop(trials: Trials, times: int) -> None:
    """Kill a process each time that it has restarted. The run must give up with exit 4 and a
    checkpoint that loads."""
    harm = Harm("dies at each start, 3 restarts")
    for _ in range(times):
        with trials.run(restarts=3) as run, trials.counted(harm):
            while not list(run.runs.rglob("checkpoint-*.safetensors")):
                run.until("progress ")
            for turn in range(4):
                since = kill(run.pid("conv_model"))
                run.named(ERROR)
                if turn < 3:
                    run.until("restart ")
                    run.until("progress ")
            code, said = run.end(20.0)
            harm.named.append(time.monotonic() - since)
            harm.happened += 1
            assert code == 4, f"ended with {code}"
            assert "is not restarted: it was restarted 3 times" in said, "does not give the reason"
            checkpoint.verify(
                max(
                    run.runs.rglob("checkpoint-*.safetensors"),
                    key=lambda path: path.stat().st_mtime,
                )
            )
    trials.told(harm, named=GONE_WITHIN + 1.0)


def unequal(trials: Trials, times: int) -> None:
    """Make one of four groups take ten times as long. The others keep their pace: a run loses at
    most that group's share of its iterations, and 5 %."""
    harm = Harm(f"one of {WORKERS} groups takes 10 times as long")
    lost = []
    for turn in range(times):
        folder = trials.folder / f"unequal-{turn}"
        folder.mkdir()
        env = brought(folder, GROUP_PACE)
        with (
            trials.run(
                "async", workers=WORKERS, folder=folder, env=env, solver=PACED, reproducible="false"
            ) as run,
            trials.counted(harm),
        ):
            next_progress(run, time.monotonic() + 1.0)
            before = _rate(run)
            since = time.monotonic()
            slow_down(folder, run.pid("conv-1-0"), 10)
            harm.named.append(run.at(r"straggler +worker conv-1-0 ", 60.0) - since)
            lost.append(round(1.0 - _rate(run) / before, 3))
            harm.happened += lost[-1] > 0.5 / WORKERS
            assert lost[-1] <= 1 / WORKERS + 0.05, f"{lost[-1]:.1%} fewer iterations"
    trials.record.facts["share of iterations that was lost"] = lost
    trials.told(harm, named=60.0)


# -- shared helpers


def kill(pid: int, harm: Harm | None = None) -> float:
    """Send SIGKILL and check that the process has died. Returns the time of the signal."""
    since = time.monotonic()
    lived = living(pid)
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
        while living(pid) and time.monotonic() - since < 1.0:
            time.sleep(0.001)
    if harm is not None:
        harm.happened += lived and not living(pid)
    return since


def state(pid: int) -> str:
    """The state that the system reports of a process: "T" is stopped. Waits up to 5 s for that: a
    signal takes a moment, more than 0.2 s once in 150 times."""
    for _ in range(5000):
        found = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        if found == "T":
            break
        time.sleep(0.001)
    return found


def stopped_for(pid: int, seconds: float, harm: Harm) -> None:
    """Stop a process for so many seconds. It counts as happened if the system reports it."""
    os.kill(pid, signal.SIGSTOP)
    try:
        harm.happened += state(pid) == "T"
        time.sleep(seconds)
    finally:
        os.kill(pid, signal.SIGCONT)


def alive(run: Survivor) -> list[int]:
    """The living processes of the present run, or of the one that begins."""
    found: list[int] = []

    def some(pids: dict[str, int]) -> bool:
        found.extend(sorted(pid for pid in pids.values() if living(pid)))
        return bool(found)

    run.reported(some)
    return found


def nursery_of(run: Survivor) -> int:
    """The nursery from which the processes of the present run were forked."""
    pid = next(iter(run.reported().values()))
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def next_progress(run: Survivor, since: float) -> float:
    """The time of the next iteration that was reported after `since`."""
    while (at := run.at("progress ")) < since:
        pass
    return at


def settle(run: Survivor) -> None:
    """Wait until no further restart follows: iterations come, and all are of the newest run."""
    deadline = time.monotonic() + 20.0
    while time.monotonic() < deadline:
        directory = run.newest
        next_progress(run, time.monotonic() + 0.5)
        if run.newest == directory and events(directory, "began"):
            return
    raise AssertionError("the run does not become stable")


def _rate(run: Survivor) -> float:
    """Iterations a second, counted from now on for GROUP_SECONDS."""
    began = len(events(run.newest, "progress"))
    time.sleep(GROUP_SECONDS)
    return (len(events(run.newest, "progress")) - began) / GROUP_SECONDS


def _journal(run: Survivor) -> list[str]:
    """Events in order: "progress" for each iteration, "straggler:WORKER" for each named worker."""
    lines = map(json.loads, (run.newest / "events.jsonl").read_text().splitlines())
    found = [line for line in lines if line["event"] in ("progress", "straggler")]
    return [line["event"] + (f":{line['worker']}" if "worker" in line else "") for line in found]
