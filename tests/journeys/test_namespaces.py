"""Machines that are network namespaces of this one: a run over their cables, and what is said where there are none."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from benchmarks.machines import Machine, Refused, machines
from tests.support import configure, events, run_directory, run_up

MACHINE = '[[machine]]\nname = "m{number}"\nnamespace = "{namespace}"\naddress = "{address}"\nthreads = 1\n'
PROCESS = '[[process]]\nname = "p{number}"\nmachine = "m{number}"\nactors = ["{actors}"]\n'
TCP = '[links]\ntransport = "tcp"\n'


@pytest.fixture(scope="module")
def three() -> Iterator[list[Machine]]:
    """Three machines with cables of 1 Gbit/s."""
    try:
        with machines(3, 10**9) as made:
            yield made
    except Refused as why:
        pytest.skip(f"no network namespaces here: {why}")


def placed(made: list[Machine], *actors: str, addresses: Sequence[str] = ()) -> str:
    """A machine and a process for each pattern of actors; what the last machines say of their `addresses`."""
    said = [dict(vars(machine)) for machine in made]
    for machine, address in zip(reversed(said), addresses, strict=False):
        machine["address"] = address
    text = [MACHINE.format(number=number, **machine) for number, machine in enumerate(said)]
    text += [PROCESS.format(number=number, actors=pattern) for number, pattern in enumerate(actors)]
    return TCP + "".join(text)


def test_a_run_over_three_namespaces_trains_through_their_cables(tmp_path: Path, three: list[Machine]) -> None:
    addresses = "eth0", "10.0.0.0/8"
    more = placed(three, "conv-0-0", "conv-0-1", "[!c]*", addresses=addresses) + '[placement]\nprocesses = "one"\n'
    cluster = configure(tmp_path, "sync", workers=2, iterations=4, more=more)
    received = [received_bytes(machine) for machine in three[:2]]
    done = run_up(cluster)
    assert done.returncode == 0, done.stderr
    assert len(events(run_directory(cluster), "progress")) == 4
    grown = [received_bytes(machine) - before for machine, before in zip(three[:2], received, strict=True)]
    assert min(grown) > 4 * 102_280  # the conv phase of LeNet, each time


@pytest.mark.slow
def test_a_message_that_travels_longer_than_a_heartbeat_may_be_late_arrives(tmp_path: Path) -> None:
    try:
        with machines(2, 6_000_000) as slow:  # 1.6 MB of gradients take more than 2 s, a heartbeat may be 1.5 s late
            more = placed(slow, "replica-0", "[!r]*") + '[placement]\nprocesses = "one"\n'
            more = more.replace("[!r]*", 'coordinator", "replica-1')
            cluster = configure(tmp_path, "replicas", workers=2, iterations=1, more=more)
            done = run_up(cluster)
    except Refused as why:
        pytest.skip(f"no network namespaces here: {why}")
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_a_machine_without_the_address_that_is_wanted_of_it_says_what_it_has(
    tmp_path: Path, three: list[Machine]
) -> None:
    more = placed(three[:1], "*", addresses=["eth7"])
    done = run_up(configure(tmp_path, "single", more=more))
    assert done.returncode == 3
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"machine 'm0' (host {platform.node()}): address 'eth7': no interface and no host has this")
    assert line.endswith(f"this machine has lo 127.0.0.1, eth0 {three[0].address}")


def received_bytes(machine: Machine) -> int:
    """Of the interface in a namespace."""
    with os.popen(f"ip netns exec {machine.namespace} cat /sys/class/net/eth0/statistics/rx_bytes") as said:
        return int(said.read())


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="network namespaces are Linux's")
def test_a_namespace_that_does_not_exist_is_named_with_what_makes_it(tmp_path: Path) -> None:
    more = TCP + MACHINE.format(number=0, namespace="nowhere", address="10.87.64.1")
    done = run_up(configure(tmp_path, "single", more=more))
    assert done.returncode == 3
    assert done.stderr == ("machine 'm0': there is no network namespace 'nowhere'; make it: ip netns add nowhere\n")


@pytest.mark.few("its loopback")
@pytest.mark.parametrize(
    ("more", "said"),
    [
        (
            MACHINE.format(number=0, namespace="a", address="10.0.0.1"),
            "machine[0].namespace: separates TCP connections only",
        ),
        (TCP + MACHINE.format(number=0, namespace="a", address="127.0.0.1"), "its loopback is its own"),
    ],
)
def test_a_namespace_needs_tcp_and_an_address_of_its_own(tmp_path: Path, more: str, said: str) -> None:
    done = run_up(configure(tmp_path, "single", more=more))
    assert done.returncode == 2
    assert said in done.stderr
