"""Harm that is done to what processes live on: disks, clocks, cables. See `benchmarks.chaos`."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.chaos_processes import next_progress
from benchmarks.chaos_trials import ERROR, Absent, Harm, Trials
from benchmarks.checkpoint_writers import Nursery, arrays_of, loaded
from benchmarks.machines import Machine, Refused, machines
from benchmarks.survivor import Survivor, environment, events
from nets.files import checkpoint

WRITERS = 20  # killed for each time of the part
LINK_SECONDS = 2.0
GIGABIT, SLOW_RATE = 10**9, 10**7  # bits per second
HOUR = 3600
CLOCK = """
import time
_real, _said = time.time, {said!r}

def _faked():
    with open(_said) as file:
        return _real() + float(file.read())

time.time = _faked
"""
MACHINE = '[[machine]]\nname = "m{number}"\nnamespace = "{namespace}"\naddress = "{address}"\nthreads = 1\n'
PROCESS = '[[process]]\nname = "p{number}"\nmachine = "m{number}"\nactors = ["{actors}"]\n'
LINKS = f'[links]\ntransport = "tcp"\nencryption = "none"\n[liveness]\nlink_seconds = {LINK_SECONDS}\n'


def disk(trials: Trials, times: int) -> None:
    """A full one costs checkpoints and no training; a writer that is killed leaves the file before or the new one."""
    full, writers = Harm("no space left on the disk"), Harm("SIGKILL of a writer")
    path = trials.folder / "checkpoint-0000001.safetensors"
    nursery = Nursery(path)
    try:
        checkpoint.save(path, arrays_of(0), {"iteration": "0"})
        for _ in range(WRITERS * times):
            with trials.counted(writers):
                before = loaded(path)
                nursery.kill(nursery.start(before + 1), trials.chance.uniform(0.0, 0.02))
                writers.happened += 1
                assert max(before, nursery.whole) <= loaded(path) <= nursery.whole + 1, "another file than was written"
    finally:
        nursery.close()
    halves = len(list(trials.folder.glob(".*.tmp")))
    trials.record.facts["half-written files that killed writers left"] = halves
    for _ in range(times):
        with small_disk(trials.folder / "disk") as folder, trials.run(folder=folder) as run, trials.counted(full):
            _fill(folder / "full")
            since = time.monotonic()
            warned = run.at(r"warning +\S+: no checkpoint: .*No space left on device")
            full.named.append(warned - since)
            full.happened += bool(events(run.newest, "unsaved"))
            next_progress(run, time.monotonic())
            (folder / "full").unlink()
            since = time.monotonic()
            full.back.append(run.at(r"checkpoint ") - since)
    trials.told(writers, full, named=30.0, back=30.0)


def clock(trials: Trials, times: int) -> None:
    """An hour ahead, and back: nobody is taken for dead. In every process of the run `time.time` is a double that adds
    what a file says; the kernel's clocks go on."""
    said, site = trials.folder / "clock", trials.folder / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(CLOCK.format(said=str(said)))
    _set(said, 0)
    path = environment()["PYTHONPATH"]
    harm = Harm("the wall clock jumps by an hour")
    with trials.run(env={**environment(), "PYTHONPATH": f"{site}{os.pathsep}{path}"}) as run:
        for _ in range(times):
            for hours in (1, 0, -1, 0):
                with trials.counted(harm):
                    directory, since = run.newest, time.monotonic()
                    _set(said, hours)
                    trials.pause(2.5, 3.0)  # longer than any silence that is no death
                    harm.back.append(next_progress(run, since + 2.5) - since)
                    shown = events(run.newest, "progress")[-1]["unix_seconds"] - time.time()
                    harm.happened += abs(shown - hours * HOUR) < HOUR / 2
                    assert run.newest == directory, "it was taken for dead"
                    assert events(directory, "failed") == [], "it has failed"
    trials.told(harm)


def links(trials: Trials, times: int) -> None:
    """Three machines, the cable of one of them."""
    short, long = Harm(f"cut for less than {LINK_SECONDS / 3:.1f} s"), Harm("cut for good")
    one_way, narrow = Harm("cut one way"), Harm("10 Mbit/s instead of 1 Gbit/s")
    try:
        with machines(3, GIGABIT) as made, trials.run(more=LINKS + _apart(made)) as run:
            for number in range(times):
                machine = made[number % len(made)]
                with trials.counted(short):
                    with cut(machine, short):
                        trials.pause(0.1, LINK_SECONDS / 3)
                    _goes_on(run, short)
                    trials.pause(1.0, 1.5)
                with trials.counted(narrow), rate(machine, SLOW_RATE, narrow):
                    _goes_on(run, narrow)
                for harm, way in ((long, cut), (one_way, deaf)):
                    with trials.counted(harm):
                        since = time.monotonic()
                        with way(machine, harm):
                            at, line = run.named(ERROR, since=since)
                            harm.named.append(at - since)
                            assert f" on m{made.index(machine)} " in line, f"does not name the machine: {line!r}"
                            assert "network" in line, f"does not say that it may be the network: {line!r}"
                        run.until("restart ")
                        harm.back.append(run.at("progress ") - since)
    except Refused as why:
        raise Absent(f"no network namespaces here: {why}") from None
    trials.told(short, narrow, long, one_way, named=LINK_SECONDS + 5.0, back=LINK_SECONDS + 15.0)


# -- the harm itself


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """A disk of 64 MiB."""
    folder.mkdir(exist_ok=True)
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "none", folder], capture_output=True, text=True)
    if done.returncode:
        raise Absent(f"no disk can be mounted: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True, timeout=20)


@contextmanager
def cut(machine: Machine, harm: Harm) -> Iterator[None]:
    """Its cable is unplugged."""
    _ip(machine, "link", "set", "eth0", "down")
    try:
        harm.happened += "state DOWN" in _ip(machine, "link", "show", "eth0")
        yield
    finally:
        _ip(machine, "link", "set", "eth0", "up")


@contextmanager
def deaf(machine: Machine, harm: Harm) -> Iterator[None]:
    """What it sends to the others is lost; it still hears them."""
    network = f"{machine.address.rpartition('.')[0]}.0/24"
    halves = [network.replace(".0/24", ".0/25"), network.replace(".0/24", ".128/25")]  # go before the whole
    for half in halves:
        _ip(machine, "route", "add", "blackhole", half)
    try:
        harm.happened += "blackhole" in _ip(machine, "route", "show")
        yield
    finally:
        for half in halves:
            _ip(machine, "route", "del", "blackhole", half)


@contextmanager
def rate(machine: Machine, bits_per_second: int, harm: Harm) -> Iterator[None]:
    """Its cable carries so much."""
    _rate(machine, bits_per_second)
    try:
        shown = subprocess.run(
            ["tc", "-n", machine.namespace, "qdisc", "show", "dev", "eth0"], capture_output=True, text=True, check=True
        )
        harm.happened += f"rate {bits_per_second // 10**6}Mbit" in shown.stdout
        yield
    finally:
        _rate(machine, GIGABIT)


# -- what they share


def _goes_on(run: Survivor, harm: Harm) -> None:
    """The same run has further iterations."""
    directory, since = run.newest, time.monotonic()
    for _ in range(2):
        at = next_progress(run, since)
    harm.back.append(at - since)
    assert run.newest == directory, "it was taken for dead"


def _apart(made: list[Machine]) -> str:
    text = [MACHINE.format(number=number, **vars(machine)) for number, machine in enumerate(made)]
    actors = ("conv-0-0", "conv-0-1", "[!c]*")
    text += [PROCESS.format(number=number, actors=pattern) for number, pattern in enumerate(actors)]
    return '[placement]\nprocesses = "one"\n' + "".join(text)


def _ip(machine: Machine, *words: str) -> str:
    done = subprocess.run(
        ["ip", "-n", machine.namespace, *words], capture_output=True, text=True, check=True, timeout=20
    )
    return done.stdout


def _rate(machine: Machine, bits_per_second: int) -> None:
    shape = f"root tbf rate {bits_per_second}bit burst 128kb latency 50ms".split()
    subprocess.run(["tc", "-n", machine.namespace, "qdisc", "replace", "dev", "eth0", *shape], check=True, timeout=20)


def _fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(1 << 16))
        except OSError:
            return


def _set(said: Path, hours: int) -> None:
    """What the faked clocks show: so many hours more than it is."""
    half = said.with_suffix(".new")
    half.write_text(f"{hours * HOUR:+d}")
    half.replace(said)
