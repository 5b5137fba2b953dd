"""Harm to links between machines: cables that are cut, slow or long, and connections that are
reset. See `benchmarks.chaos`."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from benchmarks.chaos.processes import next_progress
from benchmarks.chaos.trials import ERROR, Absent, Harm, Trials, named_and_back, trained_twice
from benchmarks.helpers import resets
from benchmarks.helpers.cables import delayed
from benchmarks.helpers.machines import Machine, Refused, machines
from benchmarks.helpers.survivor import Survivor

LINK_SECONDS = 2.0
GIGABIT = 10**9  # bits per second
SLOW_RATE = 10**7
DELAY = 0.1  # seconds, each way
JITTER = 0.02
CUTS = (5, 60)  # seconds
LONGEST_EVERY = 3  # turns: this cut takes more than a minute
BACK_AFTER = 5.0  # seconds after such a cable is plugged in again
MACHINE = (
    '[[machine]]\nname = "m{number}"\nnamespace = "{namespace}"\naddress = '
    '"{address}"\nthreads = 1\n'
)
PROCESS = '[[process]]\nname = "p{number}"\nmachine = "m{number}"\nactors = ["{actors}"]\n'
LINKS = (
    f'[links]\ntransport = "tcp"\nencryption = "none"\n[liveness]\nlink_seconds = {LINK_SECONDS}\n'
)
Way = Callable[[Machine, Harm], AbstractContextManager[None]]


def links(trials: Trials, times: int) -> None:
    """Three machines. Harm the cable of one of them, or one connection, in turn. The cut for a
    minute comes only once in three turns, and at least once: nightly takes twenty minutes so."""
    try:
        with machines(3, GIGABIT) as made, trials.run(more=LINKS + _apart(made)) as run:
            Links(trials, made, run).harmed(times)
    except Refused as why:
        raise Absent(f"no network namespaces here: {why}") from None


class Links:
    """The harm to the links of one run on three machines."""

    def __init__(self, trials: Trials, made: list[Machine], run: Survivor) -> None:
        self._trials = trials
        self._made = made
        self._run = run
        self._no_delay = ""  # the reason why this machine cannot delay frames

    def harmed(self, times: int) -> None:
        """Do each sort of harm so many times."""
        short = Harm(f"cut for less than {LINK_SECONDS / 3:.1f} s")
        narrow = Harm("10 Mbit/s instead of 1 Gbit/s")
        slow = Harm(f"{1000 * DELAY:.0f} ± {1000 * JITTER:.0f} ms each way")
        long = Harm("cut for good")
        one_way = Harm("cut one way")
        back = {seconds: Harm(f"cut for {seconds} s") for seconds in CUTS}
        reset = Harm("a connection is reset")
        of_up = Harm("a connection of `up` is reset")
        for number in range(times):
            place = number % len(self._made)
            self._short(place, short)
            self._narrow(place, narrow)
            self._slow(place, slow)
            self._lost(place, long, cut)
            self._lost(place, one_way, deaf)
            for seconds, harm in back.items():
                if seconds < max(CUTS) or number % LONGEST_EVERY == 0:
                    self._cut_for(place, seconds, harm)
            self._reset(reset, of_up=False)
            self._reset(of_up, of_up=True)
        kept = [short, narrow, long, one_way, reset, of_up] + [slow] * (not self._no_delay)
        self._trials.told(*kept, named=LINK_SECONDS + 5.0, back=LINK_SECONDS + 15.0)
        self._trials.told(*back.values(), named=LINK_SECONDS + 5.0, back=BACK_AFTER)
        if self._no_delay:
            self._trials.record.note(f"no delay: {self._no_delay}")
        for text in trained_twice(self._run):
            self._trials.record.fail(f"another loss after a restart: {text}")

    # -- harm that the run survives

    def _short(self, place: int, harm: Harm) -> None:
        with self._trials.counted(harm):
            with cut(self._made[place], harm):
                self._trials.pause(0.1, LINK_SECONDS / 3)
            self._goes_on(harm)
            # TCP doubles its pauses: a link may stay silent for as long as it was cut
            self._trials.pause(1.0, 1.5)

    def _narrow(self, place: int, harm: Harm) -> None:
        with self._trials.counted(harm), rate(self._made[place], SLOW_RATE, harm):
            self._goes_on(harm)

    def _slow(self, place: int, harm: Harm) -> None:
        """Replace the cable during the run, and put its own cable back. TCP sends the frames again
        that are lost by that."""
        if self._no_delay:
            return
        try:
            with self._trials.counted(harm):
                with delayed(self._made[place], DELAY - JITTER, DELAY + JITTER) as relay:
                    self._goes_on(harm)
                harm.happened += min(relay.passed) > 0
                self._goes_on(Harm("its own cable again"))
                self._trials.pause(1.0, 1.5)
        except Refused as why:
            self._no_delay = str(why)

    def _goes_on(self, harm: Harm) -> None:
        """Check that the same run trains further iterations."""
        directory = self._run.newest
        since = time.monotonic()
        for _ in range(2):
            at = next_progress(self._run, since)
        harm.back.append(at - since)
        assert self._run.newest == directory, "a process was taken for dead"

    # -- harm after which another run starts

    def _lost(self, place: int, harm: Harm, way: Way) -> None:
        """Harm a cable until the loss of its machine is named."""
        with self._trials.counted(harm):
            since = time.monotonic()
            with way(self._made[place], harm):
                self._named(place, harm, since)
            self._run.until("restart ")
            harm.back.append(self._run.at("progress ") - since)

    def _cut_for(self, place: int, seconds: float, harm: Harm) -> None:
        """Cut a cable for longer than a link may be silent. `back` counts from the end of the
        cut."""
        with self._trials.counted(harm):
            before = self._run.newest
            since = time.monotonic()
            with cut(self._made[place], harm):
                self._named(place, harm, since)
                time.sleep(max(0.0, since + seconds - time.monotonic()))
            end = time.monotonic()
            harm.back.append(next_progress(self._run, end) - end)
            assert self._run.newest != before, "the same run goes on"

    def _named(self, place: int, harm: Harm, since: float) -> None:
        at, line = self._run.named(ERROR, since=since)
        harm.named.append(at - since)
        assert f" on m{place} " in line, f"does not name the machine: {line!r}"
        assert "network" in line, f"does not say that it may be the network: {line!r}"

    def _reset(self, harm: Harm, *, of_up: bool) -> None:
        """Reset one connection between two machines, or between `up` and a machine, at random."""
        with self._trials.counted(harm):
            up = self._run.process.pid
            pids = self._run.pids()
            found = _between_machines([up, *pids.values()])
            connection, peer = self._trials.chance.choice(
                [(one, peer) for one, peer in found if of_up == (up in (one.pid, peer))]
            )
            before = resets.resets(peer)
            since = time.monotonic()
            resets.reset(connection)
            harm.happened += resets.was_reset(peer, connection, before)
            line = named_and_back(self._run, harm, since)
            ends = [name for name, pid in pids.items() if pid in (connection.pid, peer)]
            assert all(f" {name} " in line for name in ends), (
                f"does not name {' and '.join(ends)}: {line!r}"
            )


# -- the harm itself


@contextmanager
def cut(machine: Machine, harm: Harm) -> Iterator[None]:
    """Unplug the cable of a machine."""
    _ip(machine, "link", "set", "eth0", "down")
    try:
        harm.happened += "state DOWN" in _ip(machine, "link", "show", "eth0")
        yield
    finally:
        _ip(machine, "link", "set", "eth0", "up")


@contextmanager
def deaf(machine: Machine, harm: Harm) -> Iterator[None]:
    """Drop all that a machine sends to the others; it still receives from them."""
    network = f"{machine.address.rpartition('.')[0]}.0/24"
    # more specific routes win over the whole network's
    halves = [network.replace(".0/24", ".0/25"), network.replace(".0/24", ".128/25")]
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
    """Limit the rate of a machine's cable."""
    _rate(machine, bits_per_second)
    try:
        shown = subprocess.run(
            ["tc", "-n", machine.namespace, "qdisc", "show", "dev", "eth0"],
            capture_output=True,
            text=True,
            check=True,
        )
        harm.happened += f"rate {bits_per_second // 10**6}Mbit" in shown.stdout
        yield
    finally:
        _rate(machine, GIGABIT)


# -- shared helpers


def _apart(made: list[Machine]) -> str:
    text = [MACHINE.format(number=number, **vars(machine)) for number, machine in enumerate(made)]
    actors = ("conv-0-0", "conv-0-1", "[!c]*")
    text += [PROCESS.format(number=number, actors=pattern) for number, pattern in enumerate(actors)]
    return '[placement]\nprocesses = "one"\n' + "".join(text)


def _between_machines(pids: list[int]) -> list[tuple[resets.Connection, int]]:
    """The connections of these processes to a process of another machine, each with that process's
    id."""
    found = [one for pid in pids for one in resets.connections(pid)]
    ends = {one.here: one.pid for one in found}
    return [
        (one, ends[one.there]) for one in found if one.there in ends and one.there[0] != one.here[0]
    ]


def _ip(machine: Machine, *words: str) -> str:
    done = subprocess.run(
        ["ip", "-n", machine.namespace, *words],
        capture_output=True,
        text=True,
        check=True,
        timeout=20,
    )
    return done.stdout


def _rate(machine: Machine, bits_per_second: int) -> None:
    shape = f"root tbf rate {bits_per_second}bit burst 128kb latency 50ms".split()
    subprocess.run(
        ["tc", "-n", machine.namespace, "qdisc", "replace", "dev", "eth0", *shape],
        check=True,
        timeout=20,
    )
