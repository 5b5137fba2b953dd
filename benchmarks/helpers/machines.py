"""Several machines on one: network namespaces, each with a cable to the same switch. Every cable
has a rate in both directions."""

from __future__ import annotations

import itertools
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

_made = itertools.count()
NETWORKS = 128
BURST = "128kb"  # of the rate limit: the bytes that may leave at once
QUEUE = "400ms"  # of the rate limit: the longest wait of a packet


class Refused(Exception):
    """Machines cannot be made here."""


@dataclass(frozen=True)
class Machine:
    """A namespace and its address."""

    namespace: str
    address: str

    @property
    def before(self) -> tuple[str, ...]:
        """The words in front of a command that runs on the machine."""
        return ("ip", "netns", "exec", self.namespace)

    def pids(self) -> set[int]:
        """The processes that live on the machine. Raises OSError or CalledProcessError."""
        words = ["ip", "netns", "pids", self.namespace]
        found = subprocess.run(words, capture_output=True, text=True, timeout=20, check=True)
        return {int(pid) for pid in found.stdout.split()}


@contextmanager
def machines(
    count: int, bits_per_second: int | Sequence[int], burst: float | None = None
) -> Iterator[list[Machine]]:
    """Make `count` machines that reach each other and this one, with cables of one rate or of a
    rate each. After a pause a cable carries BURST at once, or the bytes of `burst` seconds. Needs
    root. Raises Refused with the reason if they cannot be made."""
    rates = [bits_per_second] * count if isinstance(bits_per_second, int) else bits_per_second
    prefix = f"cv{os.getpid() % 100_000}{chr(ord('a') + next(_made) % 26)}"
    network = _free_network()
    made = [Machine(f"{prefix}{number}", f"{network}.{number + 1}") for number in range(count)]
    switch = f"{prefix}s"  # an interface's name has 15 letters at most
    try:
        _do(
            f"ip link add {switch} type bridge",
            f"ip addr add {network}.254/24 dev {switch}",
            f"ip link set {switch} up",
        )
        for number, machine in enumerate(made):
            cable = f"{prefix}c{number}"
            inside = f"ip -n {machine.namespace}"
            _do(
                f"ip netns add {machine.namespace}",
                f"ip link add {cable} type veth peer name eth0 netns {machine.namespace}",
                f"ip link set {cable} master {switch} up",
                f"{inside} addr add {machine.address}/24 dev eth0",
                f"{inside} link set lo up",
                f"{inside} link set eth0 up",
                f"tc qdisc add dev {cable} {rate_limit(rates[number], burst)}",
                f"tc -n {machine.namespace} qdisc add dev eth0 {rate_limit(rates[number], burst)}",
            )
        yield made
    finally:
        for machine in made:
            _done(f"ip netns del {machine.namespace}")  # its cable goes with it
        _done(f"ip link del {switch}")


def _free_network() -> str:
    """A network that no interface has. A network of another run, or of a killed one, would receive
    our packets."""
    try:
        taken = subprocess.run(
            ["ip", "route", "show"], capture_output=True, text=True, timeout=20, check=False
        ).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Refused(f"ip route show: {error}") from None
    for turn in range(NETWORKS):
        network = f"10.87.{64 + (os.getpid() + turn) % NETWORKS}"
        if f"{network}.0/24" not in taken:
            return network
    raise Refused(
        f"all of 10.87.64.0/24 to 10.87.{64 + NETWORKS - 1}.0/24 are taken: see 'ip route show'"
    )


def rate_limit(bits_per_second: int, burst: float | None = None) -> str:
    """The words for `tc qdisc` that limit a device to a rate. After a pause it sends BURST at once,
    or the bytes of `burst` seconds."""
    at_once = BURST if burst is None else f"{int(bits_per_second / 8 * burst)}b"
    return f"root tbf rate {bits_per_second}bit burst {at_once} latency {QUEUE}"


def _do(*commands: str) -> None:
    for command in commands:
        if problem := _done(command):
            raise Refused(f"{command}: {problem}")


def _done(command: str) -> str:
    """Run a command. Returns the reason if it fails, else an empty text."""
    try:
        done = subprocess.run(
            command.split(), capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return "" if done.returncode == 0 else done.stderr.strip() or str(done.returncode)
