"""Machines that are network namespaces of this host: a run over their cables, and the errors if a
namespace does not exist."""

from __future__ import annotations

import os
import platform
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from benchmarks.helpers.machines import Machine, Refused, machines
from roles import Options, forecast, plan
from runtime.cli.main import main
from runtime.config.file import load_with_program
from runtime.machine.addresses import towards
from runtime.plan.run_plan import RunPlan
from runtime.plan.topology import Topology
from runtime.transport.keys import Keys
from tests.chaos.test_links import running
from tests.helpers.far_machines import or_skip
from tests.helpers.support import configure, events, run_directory, run_up, train

MACHINE = (
    '[[machine]]\nname = "m{number}"\nnamespace = "{namespace}"\naddress = '
    '"{address}"\nthreads = 1\n'
)
PROCESS = '[[process]]\nname = "p{number}"\nmachine = "m{number}"\nactors = ["{actors}"]\n'
TCP = '[links]\ntransport = "tcp"\n'


@pytest.fixture(scope="module")
def three() -> Iterator[list[Machine]]:
    """Three machines with cables of 1 Gbit/s."""
    with or_skip(machines(3, 10**9)) as made:
        yield made


def placed(made: list[Machine], *actors: str, addresses: Sequence[str] = ()) -> str:
    """A machine and a process for each pattern of actors. `addresses` are the address settings of
    the last machines."""
    said = [dict(vars(machine)) for machine in made]
    for machine, address in zip(reversed(said), addresses, strict=False):
        machine["address"] = address
    text = [MACHINE.format(number=number, **machine) for number, machine in enumerate(said)]
    text += [PROCESS.format(number=number, actors=pattern) for number, pattern in enumerate(actors)]
    return TCP + "".join(text)


# Each other machine has two workers, and the node that adds up their gradients. All other actors
# are on the first machine.
WHERE = {"m0": ("conv-0-2", "conv-0-3", "reducer-1"), "m1": ("conv-0-4", "conv-0-5", "reducer-2")}


def two_each(made: list[Machine], encryption: str) -> str:
    """This host with its loopback address, and two other machines. They find their addresses by
    interface and by network."""
    text = ["[[machine]]\nthreads = 1\n"]
    network = f"{made[1].address.rpartition('.')[0]}.0/24"
    for number, (machine, address) in enumerate(zip(made, ("eth0", network), strict=False)):
        text.append(MACHINE.format(number=number, **vars(machine) | {"address": address}))
    for machine, names in WHERE.items():
        text += [
            (f'[[process]]\nname = "{name}"\nmachine = "{machine}"\nactors = ["{name}"]\n')
            for name in names
        ]
    return f'[links]\nencryption = "{encryption}"\n[placement]\nprocesses = "one"\n' + "".join(text)


@pytest.mark.few("curve")
@pytest.mark.parametrize("encryption", ["curve", "none"])
def test_two_workers_on_each_of_three_machines_train_as_one_and_send_only_the_necessary_bytes(
    encryption: str, tmp_path: Path, three: list[Machine]
) -> None:
    iterations = 12
    cluster = configure(
        tmp_path / "apart",
        "sync",
        workers=6,
        iterations=iterations,
        more=two_each(three, encryption),
    )
    before = [carried(machine) for machine in three[:2]]
    with running(cluster) as run:
        (sockets,) = Path(tempfile.gettempdir()).glob(f"convoy-sockets-{run.process.pid}-*")
        keys = [Keys.read(path) for path in sockets.glob("*.keys")]
        assert len(keys) == len(run.pids)
        assert found_keys(keys, run.pids.values(), run_directory(cluster)) == []
        _, problems = run.process.communicate(timeout=60)
    assert (run.process.returncode, problems) == (0, "")
    assert ("links.encryption is 'none'" in "".join(run.said)) == (encryption == "none")
    assert bool(keys[0].private) == (encryption == "curve")
    assert found_keys(keys, (), run_directory(cluster)) == []
    assert RunPlan.read(run_directory(cluster)).shared_memory
    loaded = load_with_program(cluster)
    assert isinstance(loaded.options, Options)
    foretold = crossing(plan(loaded.config, loaded.options))
    for machine, was, sizes in zip(three, before, foretold, strict=False):
        *grown, within = (now - then for now, then in zip(carried(machine), was, strict=True))
        for found, size in zip(grown, sizes, strict=True):
            # heartbeats, greetings, headers
            assert iterations * size < found < 1.1 * iterations * size + 200_000
        # the arrays of its two workers are read in place, so none of them uses the machine's own
        # network
        assert within < 20_000
    losses = [event["loss"] for event in events(run_directory(cluster), "progress")]
    alone = train(configure(tmp_path / "alone", "single", iterations=iterations), checkpoint=False)
    assert losses == pytest.approx(alone.losses(), rel=1e-5)


def carried(machine: Machine) -> list[int]:
    """The bytes that a machine has received, the bytes that it has sent, and the bytes between its
    own processes."""
    paths = [
        f"/sys/class/net/{name}_bytes"
        for name in ("eth0/statistics/rx", "eth0/statistics/tx", "lo/statistics/rx")
    ]
    with os.popen(f"ip netns exec {machine.namespace} cat {' '.join(paths)}") as said:
        return [int(line) for line in said]


def crossing(topology: Topology) -> list[tuple[int, int]]:
    """The bytes of arrays that arrive at and leave each other host in an iteration, as `plan`
    predicts them."""
    home = {name: machine for machine, names in WHERE.items() for name in names}
    foretold = forecast(topology)
    sizes = {
        link: foretold.on_link(link) or 0
        for link in foretold.traffic
        if home.get(link[0]) != home.get(link[1])
    }
    return [
        (
            sum(size for (_, receiver), size in sizes.items() if home.get(receiver) == machine),
            sum(size for (sender, _), size in sizes.items() if home.get(sender) == machine),
        )
        for machine in WHERE
    ]


def found_keys(keys: Iterable[Keys], pids: Iterable[int], directory: Path) -> list[Path]:
    """The files of a run, and the command lines and environments of its processes, that contain a
    part of its keys."""
    hidden = {
        key
        for each in keys
        for key in (each.secret.encode(), each.private, each.public, *each.peers.values())
    }
    hidden |= {key.hex().encode() for key in hidden} - {b""}
    places = [Path(f"/proc/{pid}") / name for pid in pids for name in ("cmdline", "environ")]
    places += [path for path in directory.rglob("*") if path.is_file()]
    assert len(places) > 5
    found = []
    for path in places:
        with suppress(FileNotFoundError):  # a checkpoint gets another name when it is complete
            text = path.read_bytes()
            found += [path] if any(key in text for key in hidden if key) else []
    return found


@pytest.mark.slow
def test_sums_of_workers_on_two_machines_equal_the_sums_on_one(
    tmp_path: Path, three: list[Machine]
) -> None:
    text = [
        MACHINE.format(number=number, **vars(machine)) for number, machine in enumerate(three[:2])
    ]
    # Neighbours by rank are on different machines. Each member sums 1.6 MB, so some members add up
    # for all.
    for number in range(4):
        name = f"replica-{number}"
        text += [f'[[process]]\nname = "{name}"\nmachine = "m{number % 2}"\nactors = ["{name}"]\n']
    cluster = configure(tmp_path / "apart", "replicas", workers=4, iterations=4, more="".join(text))
    done = run_up(cluster)
    assert done.returncode == 0, done.stderr
    losses = [event["loss"] for event in events(run_directory(cluster), "progress")]
    alone = train(configure(tmp_path / "alone", "single", iterations=4), checkpoint=False)
    assert losses == pytest.approx(alone.losses(), rel=1e-5)


@pytest.mark.slow
def test_another_host_without_a_connection_is_named(tmp_path: Path, three: list[Machine]) -> None:
    more = MACHINE.format(number=0, namespace=three[0].namespace, address="no-such-host.invalid")
    done = run_up(configure(tmp_path, "single", more=more))
    assert done.returncode == 3
    assert done.stderr.startswith(
        "machine 'm0' at no-such-host.invalid cannot be reached from here: "
    )
    assert done.stderr.count("\n") == 1


@pytest.mark.slow
def test_a_message_that_travels_longer_than_a_heartbeat_may_be_late_arrives(tmp_path: Path) -> None:
    try:
        # 1.6 MB of gradients take more than 2 s, and a heartbeat may be 1.5 s late
        with machines(2, 6_000_000) as slow:
            more = placed(slow, "replica-0", "[!r]*") + '[placement]\nprocesses = "one"\n'
            more = more.replace("[!r]*", 'coordinator", "replica-1')
            cluster = configure(tmp_path, "replicas", workers=2, iterations=1, more=more)
            done = run_up(cluster)
    except Refused as why:
        pytest.skip(f"no network namespaces here: {why}")
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_a_machine_without_the_requested_address_reports_its_addresses(
    tmp_path: Path, three: list[Machine]
) -> None:
    more = placed(three[:1], "*", addresses=["eth7"])
    cluster = configure(tmp_path, "single", more=more)
    done = run_up(cluster)
    assert done.returncode == 3
    assert done.stderr.startswith(
        "machine 'm0' at eth7 cannot be reached from here: no network route leads there; set launcher."
    )
    assert "by which others reach this host: this machine has lo 127.0.0.1, " in done.stderr
    done = run_up(cluster, "--set", f"launcher.address={towards(three[0].address)}")
    assert done.returncode == 3
    line = (
        f"machine 'm0' (host {platform.node()}): address 'eth7': no interface and no host "
        "has this name; "
    )
    assert f"{line}this machine has lo 127.0.0.1, eth0 {three[0].address}" in done.stderr


def received_bytes(machine: Machine) -> int:
    """The bytes received at the interface of a namespace."""
    with os.popen(
        f"ip netns exec {machine.namespace} cat /sys/class/net/eth0/statistics/rx_bytes"
    ) as said:
        return int(said.read())


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="network namespaces are Linux's")
def test_a_namespace_that_does_not_exist_is_named_with_the_command_that_makes_it(
    tmp_path: Path,
) -> None:
    more = TCP + MACHINE.format(number=0, namespace="nowhere", address="10.87.64.1")
    done = run_up(configure(tmp_path, "single", more=more))
    assert done.returncode == 3
    assert done.stderr == (
        "machine 'm0': there is no network namespace 'nowhere'; make it: ip netns add nowhere\n"
    )


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (
            '[links]\ntransport = "ipc"\n'
            + MACHINE.format(number=0, namespace="a", address="10.0.0.1"),
            (
                "machine[0].namespace: names another host, but links.transport = 'ipc' links "
                "processes of one host only: remove links.transport"
            ),
        ),
        (
            TCP + MACHINE.format(number=0, namespace="a", address="127.0.0.1"),
            "its loopback is its own",
        ),
    ],
)
def test_a_namespace_needs_a_route_out_of_it_and_its_own_address(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], more: str, said: str
) -> None:
    assert main(["check", str(configure(tmp_path, "single", more=more))]) == 2
    assert said in capsys.readouterr().err
