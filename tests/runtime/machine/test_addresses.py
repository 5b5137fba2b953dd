"""The choice of the address that a machine uses: `pick` among given interfaces, and `own` on this
machine.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from runtime.cli.main import main
from runtime.cluster.launchers.machine_agent import reached
from runtime.config.file import load
from runtime.errors import ConfigError, LaunchError
from runtime.machine import addresses
from runtime.machine.addresses import (
    Interface,
    interfaces,
    is_ipv6,
    is_loopback,
    mistake,
    own,
    pick,
)

HERE = [
    Interface("lo", "127.0.0.1"),
    Interface("docker0", "172.17.0.1"),
    Interface("eth0", "192.168.1.4"),
    Interface("ib0", "10.1.0.4"),
    Interface("ib0", "10.2.0.4"),
]
NAMES = {"node4": ["127.0.1.1", "10.1.0.4"], "mine": ["127.0.0.1"], "other": ["10.1.0.5"]}
HAS = (
    "this machine has lo 127.0.0.1, docker0 172.17.0.1, eth0 192.168.1.4, ib0 10.1.0.4, "
    "ib0 10.2.0.4"
)


def looked_up(name: str) -> list[str]:
    return NAMES.get(name, [])


@pytest.mark.parametrize(
    ("wanted", "address"),
    [
        ("10.2.0.4", "10.2.0.4"),
        ("10.0.0.0/8", "10.1.0.4"),
        ("10.2.0.0/16", "10.2.0.4"),
        ("0.0.0.0/0", "172.17.0.1"),
        ("127.0.0.0/8", "127.0.0.1"),
        ("eth0", "192.168.1.4"),
        ("ib0", "10.1.0.4"),
        ("lo", "127.0.0.1"),
        ("node4", "10.1.0.4"),
        ("127.0.0.9", "127.0.0.9"),
        ("auto", "192.168.1.4"),
    ],
)
def test_a_machine_picks_the_wanted_address(wanted: str, address: str) -> None:
    assert pick(wanted, HERE, "192.168.1.4", looked_up) == address


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        ("10.3.0.4", "no interface has it"),
        ("10.3.0.0/16", "no interface is in this network"),
        ("eth7", "no interface and no host has this name"),
        ("other", "the name stands for 10.1.0.5, which this machine does not have"),
        ("auto", "which of its addresses others reach is not known"),
    ],
)
def test_a_machine_without_the_wanted_address_lists_its_addresses(wanted: str, why: str) -> None:
    with pytest.raises(LaunchError) as caught:
        pick(wanted, HERE, "", looked_up)
    assert str(caught.value).startswith(f"address '{wanted}': {why}; {HAS}")


def test_a_name_that_only_this_machine_reaches_is_not_an_address_for_others() -> None:
    with pytest.raises(
        LaunchError,
        match=(r"'mine': the name stands for 127.0.0.1, which " r"only this machine reaches"),
    ):
        pick("mine", HERE, "", looked_up)


def test_auto_is_the_only_address_that_others_reach_if_there_is_one() -> None:
    assert pick("auto", HERE[:2]) == "172.17.0.1"
    with pytest.raises(LaunchError, match="it has none that others can reach"):
        pick("auto", HERE[:1])


def test_an_address_that_no_machine_can_have_is_rejected_before_any_is_asked() -> None:
    for wanted in (
        "auto",
        "eth0",
        "eth0.100",
        "br-12ab",
        "node7.lan",
        "10.0.0.7",
        "10.0.0.0/8",
        "eth0:1",
        "lo",
    ):
        assert mistake(wanted) == ""
    for wanted in ("10.0.0.0/33", "10.0.0", "0.0.0.0", "", "a b", "-x", "1.2.3.4.5", "eth0/8"):
        assert mistake(wanted) != ""


@pytest.mark.parametrize(
    "wanted", ["::1", "[::1]", "fe80::1", "fe80::1%eth0", "2001:db8::/32", "::", "::ffff:10.0.0.1"]
)
def test_an_address_of_ipv6_is_refused_with_the_reason_in_every_key_and_command(
    wanted: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert is_ipv6(wanted)
    assert mistake(wanted).startswith("it is an address of IPv6, and links and pages use IPv4: ")
    (tmp_path / "p.py").write_text("ROLES = {}\ndef plan(config, options): ...\n")
    (tmp_path / "cluster.toml").write_text(
        f"program = 'p'\n[launcher]\nkind = 'manual'\naddress = '{wanted}'\n"
        f"[metrics]\naddress = '{wanted}'\n[operators]\naddress = '{wanted}'\n"
        f"[[machine]]\naddress = '{wanted}'\n"
    )
    with pytest.raises(ConfigError) as caught:
        load(tmp_path / "cluster.toml")
    keys = ["launcher.address", "metrics.address", "operators.address", "machine[0].address"]
    for key, problem in zip(keys, caught.value.problems, strict=True):
        assert f"{key}: found '{wanted}'" in problem
        assert "it is an address of IPv6" in problem
    assert main(["ps", "--connect", f"{wanted}:80"]) == 2
    assert "it is an address of IPv6" in capsys.readouterr().err
    with pytest.raises(LaunchError, match="it is an address of IPv6"):
        reached(f"{wanted}:80")


def test_only_addresses_that_are_surely_loopback_count_as_loopback() -> None:
    assert all(map(is_loopback, ("127.0.0.1", "127.9.0.0/16", "lo", "localhost", "::1")))
    assert not any(map(is_loopback, ("auto", "10.0.0.1", "0.0.0.0/0", "eth0", "node1")))


@pytest.mark.skipif(sys.platform != "linux", reason="the system lists interfaces in its own way")
def test_this_machine_has_its_loopback_and_listens_there() -> None:
    assert Interface("lo", "127.0.0.1") in interfaces()
    assert own("lo") == own("localhost") == own("127.0.0.1") == "127.0.0.1"
    assert own("auto", "127.0.0.1") == "127.0.0.1"


def test_without_a_route_to_up_the_only_address_of_the_machine_is_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(addresses, "towards", lambda other: "")
    monkeypatch.setattr(addresses, "interfaces", lambda: HERE[:2])
    assert own("auto", "10.9.9.9") == "172.17.0.1"
