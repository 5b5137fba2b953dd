"""Harm that is done to processes. See `benchmarks.chaos`."""

from __future__ import annotations

import json
import os
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from benchmarks.chaos_trials import ERROR, NAMED_WITHIN, Harm, Trials, named_and_back
from benchmarks.survivor import Survivor, events, living
from nets.files import checkpoint

SILENCE = 2.5  # seconds after which a process counts as dead
GONE_WITHIN = 5.0
KINDS = ("conv-0-0", "reducer-0", "conv_model", "fc_server", "coordinator", "nursery")
TWICE = 2.0  # seconds within which the second death comes
PERIOD = 0.004  # seconds of a turn of a slow worker: shorter than a pass


def double(trials: Trials, times: int) -> None:
    """One dies, and within two seconds another of whichever run is then under way: also one that only begins."""
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
    """Shorter than the limit it costs its time; longer, it is named."""
    short = [Harm(f"SIGSTOP for {seconds:g} s") for seconds in (0.2, 1.0)]
    long = Harm(f"SIGSTOP for more than {SILENCE:g} s")
    with trials.run() as run:
        for _ in range(times):
            for kind in KINDS[:-1]:
                for harm, seconds in zip(short, (0.2, 1.0), strict=True):
                    with trials.counted(harm):
                        stopped_for(run.pids()[kind], seconds, harm)
                        before, since = run.newest, time.monotonic()
                        harm.back.append(next_progress(run, since) - since)
                        assert run.newest == before, "it was taken for dead"
        for _ in range(times):
            with trials.counted(long):
                kind = trials.chance.choice(KINDS[:-1])
                pid, since = run.pids()[kind], time.monotonic()
                os.kill(pid, signal.SIGSTOP)
                long.happened += state(pid) == "T"
                line = named_and_back(run, long, since)
                assert f"process {kind} " in line, f"named as {line!r}"
                assert not living(pid), "it lives on"
    trials.told(*short, long, named=NAMED_WITHIN + 0.5)


def slow(trials: Trials, times: int) -> None:
    """A worker that is stopped for a share of each PERIOD is named. How slow that makes its passes hangs on who else
    wants the cores: that one of a known slowness is named within 20 passes, tests on the virtual clock show."""
    shares = (0.5, 0.8, 0.9)
    harms = [Harm(f"a worker stopped for {share:.0%} of the time") for share in shares]
    passes: dict[str, list[int]] = {harm.name: [] for harm in harms}
    for _ in range(times):
        for harm, share in zip(harms, shares, strict=True):
            with trials.run("sync", workers=4) as run, trials.counted(harm):
                trials.pause(1.0, 2.0)
                began = len(events(run.newest, "progress"))
                since = time.monotonic()
                with slowed(run.pids()["conv-0-1"], share) as turns:
                    at = run.at(r"straggler +worker conv-0-1 ", 30.0)
                harm.happened += turns[0] > 0
                harm.named.append(at - since)
                passes[harm.name].append(_journal(run).index("straggler:conv-0-1") - began)
    trials.record.facts |= {f"passes until {name} was named": found for name, found in passes.items()}
    trials.told(*harms, named=30.0)


def loop(trials: Trials, times: int) -> None:
    """Killed as often as it begins anew: the run gives up with exit 4 and a checkpoint that loads."""
    harm = Harm("dies at each start, 3 restarts")
    for _ in range(times):
        with trials.run(restarts=3) as run, trials.counted(harm):
            while not list(run.runs.rglob("checkpoint-*.safetensors")):
                run.until("progress ")
            for turn in range(4):
                since = kill(run.pids()["conv_model"])
                run.named(ERROR)
                if turn < 3:
                    run.until("restart ")
                    run.until("progress ")
            code, said = run.end(20.0)
            harm.named.append(time.monotonic() - since)
            harm.happened += 1
            assert code == 4, f"ended with {code}"
            assert "does not begin anew: it did 3 times" in said, "does not say why"
            checkpoint.verify(max(run.runs.rglob("checkpoint-*.safetensors"), key=lambda path: path.stat().st_mtime))
    trials.told(harm, named=GONE_WITHIN + 1.0)


def orphans(trials: Trials, times: int) -> None:
    """SIGKILL of `up`: within five seconds no process and no folder of sockets is left."""
    harm = Harm("SIGKILL of `up`")
    for _ in range(times):
        with trials.run() as run, trials.counted(harm):
            pids = run.pids()
            since = kill(run.process.pid, harm)
            run.process.wait(5.0)
            while left := [name for name, pid in pids.items() if living(pid)]:
                assert time.monotonic() - since < GONE_WITHIN, f"left after 5 s: {', '.join(left)}"
                time.sleep(0.01)
            folder = f"convoy-sockets-{run.process.pid}-*"
            while found := list(Path(tempfile.gettempdir()).glob(folder)):
                assert time.monotonic() - since < GONE_WITHIN, f"left after 5 s: {found[0].name}"
                time.sleep(0.01)
            harm.named.append(time.monotonic() - since)
    trials.told(harm, named=GONE_WITHIN)


# -- what they share


def kill(pid: int, harm: Harm | None = None) -> float:
    """SIGKILL, and see that it has happened; when."""
    since, lived = time.monotonic(), living(pid)
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
        while living(pid) and time.monotonic() - since < 1.0:
            time.sleep(0.001)
    if harm is not None:
        harm.happened += lived and not living(pid)
    return since


def state(pid: int) -> str:
    """What the system says it is at: "T" is stopped. A signal takes a moment."""
    for _ in range(200):
        found = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        if found == "T":
            break
        time.sleep(0.001)
    return found


def stopped_for(pid: int, seconds: float, harm: Harm) -> None:
    """SIGSTOP for so long; it happened if the system says so."""
    os.kill(pid, signal.SIGSTOP)
    try:
        harm.happened += state(pid) == "T"
        time.sleep(seconds)
    finally:
        os.kill(pid, signal.SIGCONT)


@contextmanager
def slowed(pid: int, share: float) -> Iterator[list[int]]:
    """Stop it for this share of each PERIOD; how many periods there were."""
    over, turns = threading.Event(), [0]

    def turn() -> None:
        while not over.is_set():
            os.kill(pid, signal.SIGSTOP)
            over.wait(share * PERIOD)
            os.kill(pid, signal.SIGCONT)
            over.wait((1.0 - share) * PERIOD)
            turns[0] += 1

    worker = threading.Thread(target=turn)
    worker.start()
    try:
        yield turns
    finally:
        over.set()
        worker.join()


def alive(run: Survivor) -> list[int]:
    """The processes of the present run, or of the one that begins."""
    deadline = time.monotonic() + 20.0
    while not (found := sorted(pid for pid in run.pids().values() if living(pid))):
        assert time.monotonic() < deadline, "no process lives any more"
        time.sleep(0.01)
    return found


def nursery_of(run: Survivor) -> int:
    """The process that the present run's processes were forked from."""
    pid = next(iter(run.pids().values()))
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def next_progress(run: Survivor, since: float) -> float:
    """When the next iteration was told after this moment."""
    while (at := run.at("progress ")) < since:
        pass
    return at


def settle(run: Survivor) -> None:
    """Whatever still follows is over: iterations come, and all are of the newest run."""
    deadline = time.monotonic() + 20.0
    while time.monotonic() < deadline:
        directory = run.newest
        next_progress(run, time.monotonic() + 0.5)
        if run.newest == directory and events(directory, "began"):
            return
    raise AssertionError("it does not come to rest")


def _journal(run: Survivor) -> list[str]:
    """In order: "progress" for each iteration, "straggler:WORKER" where one was named."""
    lines = map(json.loads, (run.newest / "events.jsonl").read_text().splitlines())
    found = [line for line in lines if line["event"] in ("progress", "straggler")]
    return [line["event"] + (f":{line['worker']}" if "worker" in line else "") for line in found]
