"""The loss of a machine for good, with half of the workers and all servers: how long until the
other machine trains again? Compared with torchelastic (rendezvous c10d) with the same net, batch,
machines and harm. See `benchmarks.chaos`.

Two machines with two workers each, on network namespaces that ssh reaches. Our coordinator, conv
model and FC server are on the machine that is lost. `up` and torchelastic's rendezvous are where
they survive. Both sides save once a second.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple, TypeVar

from benchmarks.chaos.trials import Absent, Trials
from benchmarks.helpers.far_machines import Far, far_machines
from benchmarks.helpers.machines import Machine, Refused
from benchmarks.helpers.report import missing
from benchmarks.helpers.survivor import Gone, Survivor, environment, events

T = TypeVar("T")
LIMIT = 90.0  # seconds that a side may take
PORT = 29400
OURS = {"as it comes": "", "told to be quick": "[liveness]\nlink_seconds = 2.0\n"}
# gloo's timeout, and how long its rendezvous waits for more machines once it has enough
THEIRS = {
    "as it comes": (0.0, ""),
    "told to be quick": (5.0, ",last_call_timeout=1,keep_alive_interval=1"),
}


@dataclass(frozen=True)
class Lost:
    """Seconds from the loss to the next iteration, and to the first one that had not been trained
    before. `rejoined`: seconds from the order that the machine shall rejoin to the next iteration
    with it, where that was measured."""

    on: float
    new: float
    rejoined: float | None = None


def loss(trials: Trials, times: int) -> None:
    """Measure each side and each fault, once with default settings and once with quick ones."""
    theirs = not missing({"torch": "torch"})
    if not theirs:
        trials.record.note("torchelastic left out: install it with: python -m pip install torch")
    trials.record.tables.clear()
    columns = (
        "went on",
        "on p50",
        "on max",
        "anew p50",
        "anew max",
        "with it again p50",
        "with it again max",
    )
    text = (
        "Seconds from the loss to the next iteration, to a new one, and from `scale "
        "--with` to one with it again"
    )
    trials.record.table(text, "side", "harm", "n", *columns)
    for what, harm in (
        ("its cable is cut and all on it dies", unplugged),
        ("all on it is killed", killed),
    ):
        for how in OURS:
            _row(trials, f"convoy, {how}", what, times, partial(ours, trials, harm, OURS[how]))
            if theirs:
                hopeless = how == "as it comes" and harm is unplugged  # gloo waits for half an hour
                turns = 1 if hopeless else times
                _row(
                    trials,
                    f"torchelastic, {how}",
                    what,
                    turns,
                    partial(torchelastic, trials, harm, *THEIRS[how]),
                )


def _row(
    trials: Trials, side: str, what: str, times: int, turn: Callable[[Far, Path], Lost]
) -> None:
    found: list[Lost] = []
    for number in range(times):
        folder = trials.folder / f"{side} {what} {number}".replace(" ", "-").replace(",", "")
        try:
            with far_machines(folder / "ssh", 2) as far:
                try:
                    found.append(turn(far, folder))
                finally:
                    for machine in far.machines:
                        killed(machine)
        except Refused as why:
            raise Absent(f"no machines here: {why}") from None
        except (Gone, AssertionError) as error:
            said = f"{side}, {what}: {str(error).splitlines()[0]}"
            (trials.record.fail if side.startswith("convoy") else trials.record.note)(said)
    again = [lost.rejoined for lost in found if lost.rejoined is not None]
    seconds = [[lost.on for lost in found], [lost.new for lost in found], again]
    cells = [
        cell for some in seconds for cell in ([median(some), max(some)] if some else ["-", "-"])
    ]
    trials.record.row(side, what, times, len(found), *cells)


# -- the harm


def unplugged(machine: Machine) -> None:
    """Harm a machine as a power cut does: no peer hears from it again, and its processes end."""
    subprocess.run(
        ["ip", "-n", machine.namespace, "link", "set", "eth0", "down"], check=True, timeout=20
    )
    killed(machine)


def killed(machine: Machine) -> None:
    """Kill all processes of a machine. Its kernel closes their connections."""
    deadline = time.monotonic() + 10.0
    while found := machine.pids():
        assert time.monotonic() < deadline, f"still living on {machine.namespace}: {found}"
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


# -- the sides


def ours(
    trials: Trials, harm: Callable[[Machine], None], more: str, far: Far, folder: Path
) -> Lost:
    """Measure a run of `up`."""
    more = far.tables(more=f'directory = "{folder}"\n') + '[launcher]\nkind = "ssh"\n' + more
    with trials.run(
        workers=4, machines="reachable", more=more, env=far.path(), folder=folder
    ) as run:
        before = run.newest
        while not events(before, "checkpoint"):
            run.until("progress ")
        trials.pause(1.0, 2.0)
        since = time.monotonic()
        harm(far.machines[0])
        run.until("restart +goes on without machine 'm0'", LIMIT)
        on, line = run.told("progress ", LIMIT)
        reached = events(before, "progress")[-1]["iteration"]
        new = on
        while _iteration(line) <= reached:
            new, line = run.told("progress ", LIMIT)
        return Lost(on - since, new - since, _rejoined(run, far, folder))


def _rejoined(run: Survivor, far: Far, folder: Path) -> float:
    """Bring the machine back, and order with `scale --with` that it rejoins."""
    far.revive(0)
    words = [sys.executable, "-m", "runtime", "scale", "--with", "m0"]
    since = time.monotonic()
    said = subprocess.run(
        words, env=environment(), cwd=folder, capture_output=True, text=True, timeout=LIMIT
    )
    assert said.returncode == 0, said.stderr
    run.until("scaled +with m0", LIMIT)
    return run.at("progress ", LIMIT) - since


def torchelastic(
    trials: Trials,
    harm: Callable[[Machine], None],
    patience: float,
    more: str,
    far: Far,
    folder: Path,
) -> Lost:
    """Measure torchelastic: an agent on each machine, the rendezvous on the second one."""
    with _agents(far, folder, patience, more):
        progress = folder / "progress"
        _until(lambda: (folder / "checkpoint.pt").exists(), "trains")
        trials.pause(1.0, 2.0)
        before = _read(progress)[-1].pid
        since = time.monotonic()
        harm(far.machines[0])
        later = _until(lambda: [line for line in _read(progress) if line.pid != before], "goes on")
        reached = max(line.iteration for line in _read(progress) if line.pid == before)
        again = partial(_beyond, progress, before, reached)
        return Lost(later[0].at - since, _until(again, "has caught up")[0].at - since)


@contextmanager
def _agents(far: Far, folder: Path, patience: float, more: str) -> Iterator[None]:
    place: Mapping[str, str] = {
        **environment(),
        "GLOO_SOCKET_IFNAME": "eth0",
        "OMP_NUM_THREADS": "1",
    }
    host = far.machines[1]
    agents = []
    with (folder / "agents.log").open("w") as log:
        for machine in (host, far.machines[0]):
            words = f"""ip netns exec {machine.namespace} {sys.executable} -m torch.distributed.run
                --nnodes=1:2 --nproc-per-node=2 --max-restarts=100 --rdzv-backend=c10d --rdzv-id=convoy
                --rdzv-endpoint={host.address}:{PORT} --local-addr={machine.address}
                --rdzv-conf=is_host={int(machine is host)}{more}
                -m benchmarks.chaos.elastic_peer {folder} {patience}"""
            agents.append(
                subprocess.Popen(words.split(), env=place, cwd=folder, stdout=log, stderr=log)
            )
        try:
            yield
        finally:
            for machine in far.machines:
                killed(machine)
            for agent in agents:
                agent.wait()


def _until(found: Callable[[], T], what: str) -> T:
    deadline = time.monotonic() + LIMIT
    while not (now := found()):
        assert time.monotonic() < deadline, f"not within {LIMIT:g} s: {what}"
        time.sleep(0.02)
    return now


class Line(NamedTuple):
    """An iteration of torchelastic, the time of its end, and the process that trained it, which is
    another one after a loss."""

    iteration: int
    at: float
    pid: int


def _read(progress: Path) -> list[Line]:
    """The lines of a progress file that are complete."""
    lines = progress.read_text().splitlines(keepends=True)
    whole = (line.split() for line in lines if line.endswith("\n"))
    return [Line(int(iteration), float(at), int(pid)) for iteration, at, pid in whole]


def _beyond(progress: Path, before: int, reached: int) -> list[Line]:
    """The iterations of other processes than `before` that it had not reached."""
    return [line for line in _read(progress) if line.pid != before and line.iteration > reached]


def _iteration(line: str) -> int:
    found = re.search(r"iteration (\d+)/", line)
    assert found is not None, line
    return int(found[1])
