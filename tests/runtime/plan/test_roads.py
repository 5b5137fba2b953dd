"""The roads of a run: derived from machines and [links], with the addresses and the keys of each
process.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from runtime.config.file import of_script
from runtime.config.sections import ClusterConfig, Machine
from runtime.config.unused import unused
from runtime.errors import ConfigError
from runtime.machine.addresses import is_loopback, towards
from runtime.plan import run_plan
from runtime.plan.credentials import credentials
from runtime.plan.placement import place
from runtime.plan.roads import Roads, is_far, roads_of
from runtime.plan.run_plan import RunPlan
from runtime.plan.topology import SUPERVISOR, ActorSpec, Placement, Topology
from runtime.runs import checking
from runtime.transport import Endpoints, Limits, zeromq

TOPOLOGY = Topology(
    "program", tuple(ActorSpec(name, "role", {}) for name in "abc"), (("a", "b"), ("b", "c")), "a"
)
FAR = {"name": "far", "namespace": "far", "address": "10.87.64.1"}
ON_FAR = ({"name": "b", "machine": "far", "actors": ("b",)},)


def configured(
    *machines: dict[str, Any], process: tuple[dict[str, Any], ...] = (), **links: Any
) -> ClusterConfig:
    """A configuration with these machines and links."""
    tables: dict[str, Any] = {
        "machine": list(machines) or [{}],
        "links": links,
        "process": list(process),
    }
    return of_script("launch()", tables, Path())


def found(config: ClusterConfig) -> Roads:
    return roads_of(place(TOPOLOGY, config), config)


def planned(config: ClusterConfig, addresses: dict[str, str]) -> RunPlan:
    placement = place(TOPOLOGY, config)
    roads = roads_of(placement, config)
    return RunPlan(
        placement,
        (),
        Endpoints(),
        Limits(),
        0.25,
        roads.transport,
        "/sockets",
        addresses,
        "",
        False,
        roads.scheme,
    )


def test_on_one_machine_all_roads_are_unix_sockets_without_encryption() -> None:
    roads = found(configured())
    assert (roads.far, roads.transport, roads.encrypted) == ((), "ipc", False)
    unused_far = found(configured({}, FAR))  # no process is on that machine
    assert (unused_far.far, unused_far.transport) == ((), "ipc")


@pytest.fixture
def any_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretend that this machine has any address that is wanted of it."""
    monkeypatch.setattr(run_plan, "own", lambda wanted, up: wanted)


@pytest.mark.usefixtures("any_machine")
def test_with_another_host_each_process_listens_for_both_kinds_of_peers() -> None:
    config = configured({}, FAR, process=ON_FAR)
    roads = found(config)
    assert ([machine.name for machine in roads.far], roads.transport, roads.encrypted) == (
        ["far"],
        "both",
        True,
    )
    plan = planned(config, {"local": "10.87.64.254", "far": "10.87.64.1"})
    assert plan.bind_addresses("a", "bulk") == ("unix:///sockets/a.bulk", "curve://10.87.64.254:*")
    assert plan.bind_addresses("b", "control") == (
        "unix:///sockets/b.control",
        "curve://10.87.64.1:*",
    )


@pytest.mark.usefixtures("any_machine")
@pytest.mark.parametrize(("encryption", "scheme"), [("curve", "curve"), ("none", "tcp")])
def test_tcp_alone_is_encrypted_between_hosts_and_shares_no_memory(
    encryption: str, scheme: str
) -> None:
    config = configured({}, FAR, process=ON_FAR, transport="tcp", encryption=encryption)
    roads = found(config)
    assert (roads.encrypted, roads.shared_memory) == (encryption == "curve", False)
    assert planned(config, {"local": "127.0.0.1", "far": "10.87.64.1"}).bind_addresses(
        "b", "bulk"
    ) == (f"{scheme}://10.87.64.1:*",)


def test_links_over_loopback_are_not_encrypted() -> None:
    config = configured({"port": 7000}, transport="tcp")
    assert planned(config, {"local": "127.0.0.1"}).bind_addresses("b", "bulk") == (
        "tcp://127.0.0.1:7003",
    )
    assert not found(config).encrypted


def test_each_process_has_its_own_key_pair_and_the_keys_of_its_peers_and_the_supervisor() -> None:
    placement = place(TOPOLOGY, configured())
    keys = credentials(placement, encrypted=True)
    assert {name: set(each.peers) for name, each in keys.items()} == {
        SUPERVISOR: {"a", "b", "c"},
        "a": {SUPERVISOR, "b"},
        "b": {SUPERVISOR, "a", "c"},
        "c": {SUPERVISOR, "b"},
    }
    assert all(
        key == keys[peer].public for each in keys.values() for peer, key in each.peers.items()
    )
    assert len({each.private for each in keys.values()}) == len(keys)
    assert len({each.secret for each in keys.values()}) == 1
    again = credentials(placement, encrypted=True)
    assert {each.private for each in again.values()}.isdisjoint(
        {each.private for each in keys.values()}
    )
    assert {each.private for each in credentials(placement, encrypted=False).values()} == {b""}


def test_keys_of_links_without_effect_are_reported() -> None:
    def told(config: ClusterConfig) -> list[str]:
        return [line.partition(": ")[2] for line in unused(config)]

    assert told(configured(encryption="none", latency=0.1, bytes_per_second="10MB")) == [
        f"links.{key}: has no effect if all machines are this one: no link leaves it"
        for key in ("encryption", "latency", "bytes_per_second")
    ]
    (line,) = told(configured({"port": 7000}))
    assert line.endswith("if no process listens at a TCP port: all machines are this one")
    assert (
        told(configured({"port": 7000}, FAR, process=ON_FAR, encryption="none", latency=0.1)) == []
    )


def test_another_host_is_refused_if_only_unix_sockets_are_configured() -> None:
    tables = {
        "launcher": {"kind": "mine"},
        "machine": [{"address": "10.0.0.1"}],
        "links": {"transport": "ipc"},
    }
    with pytest.raises(ConfigError) as caught:
        of_script("launch()", tables, Path())
    assert caught.value.problems == [
        (
            "launch(): machine[0].address: names another host, but links.transport = 'ipc' "
            "links processes of one host only: remove links.transport"
        )
    ]


def test_without_encryption_support_another_host_is_refused_with_the_line_to_write(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(zeromq, "can_encrypt", lambda: False)
    with pytest.raises(ConfigError) as caught:
        checking.placed(TOPOLOGY, configured({}, FAR, process=ON_FAR))
    (problem,) = caught.value.problems
    assert (
        "links.encryption: machine 'far' at 10.87.64.1 is another host, and this pyzmq "
        "cannot encrypt"
    ) in problem
    assert problem.endswith("or set links.encryption = 'none'")
    for config in (configured(), configured({}, FAR, process=ON_FAR, encryption="none")):
        assert isinstance(checking.placed(TOPOLOGY, config), Placement)


def test_which_addresses_mean_this_machine() -> None:
    assert [is_loopback(address) for address in ("127.0.0.1", "localhost", "::1", "127.3.4.5")] == [
        True
    ] * 4
    assert [
        is_loopback(address) for address in ("10.0.0.1", "node1", "eth0", "10.0.0.0/8", "")
    ] == [False] * 5
    assert is_far(Machine(namespace="a"))
    assert not is_far(Machine())
    assert towards("127.0.0.1") == "127.0.0.1"
    assert towards("no-such-host.invalid") == ""
