"""Machines of a home that do not pay: what leaving each of them out does to a run of islands on the
virtual clock, and the line that `plan` shows.

CONVOY_HOMES sets the number of homes that are drawn (3 by default; the release figure is 10).
"""

from __future__ import annotations

import json
import os
import random
import re
from pathlib import Path

import pytest

from benchmarks.islands.homes import ITERATIONS, NUMBERS, emulated
from roles.forecasting.island_periods import IslandMachine, IslandRun
from roles.forecasting.island_worth import pace
from runtime.cli.main import main
from runtime.runs.checking import check
from tests.helpers.support import configure

BYTES = {"int4": NUMBERS * (1 / 2 + 1 / 32), "int8": NUMBERS * (1 + 1 / 64), "float32": 4 * NUMBERS}
HOMES = int(os.environ.get("CONVOY_HOMES", "3"))
FEW = 20  # periods, of which exchanges at the beginning are a large part


def drawn(seed: int) -> tuple[list[IslandMachine], str]:
    """A home of two to five machines, and the format of gains."""
    dice = random.Random(seed)
    form = dice.choice([*BYTES])
    home = [
        IslandMachine(
            f"m{number}",
            (0.05 * dice.choice([1, 1, 1.5, 2, 4, 8, 20]),),
            BYTES[form],
            BYTES[form],
            dice.choice([0.0005, 0.002, 0.02, 0.05]),
            dice.choice([1e9, 1e8, 2e7, 1e7, 5e6]) / 8,
        )
        for number in range(dice.randint(2, 5))
    ]
    return home, form


@pytest.mark.few("[2]")
@pytest.mark.parametrize("seed", range(HOMES))
def test_the_worth_of_each_machine_is_what_leaving_it_out_does(seed: int) -> None:
    home, form = drawn(seed)
    run = IslandRun(ITERATIONS, server=home[0].name)
    whole = emulated(home, form)
    for left in home:
        rest = [one for one in home if one is not left]
        without = emulated(rest, form)
        on, off = pace(home, run), pace(rest, run)
        found, right = on.value / off.value - 1, whole.value / without.value - 1
        if ITERATIONS / on.rate < FEW * on.period:
            assert found < 0
            assert right < 0
        else:
            assert found == pytest.approx(right, abs=0.1, rel=0.1), left


KINDS = """[machine.desktop]
flops = 100e9
share = 0.5
latency = 0.02
bytes_per_second = "2.5MB"
[machine.nuc]
flops = 50e9
share = 0.5
latency = 0.02
bytes_per_second = "{link}"
"""
SLOW, FAST = "50kB", "2.5MB"  # links in a second
MACHINES = """[placement]
kinds = "kinds.toml"
[launcher]
kind = "manual"
[[machine]]
name = "desktop"
kind = "desktop"
[[machine]]
name = "laptop"
kind = "desktop"
[[machine]]
name = "nuc"
kind = "nuc"
"""


def of_kinds(
    folder: Path, link: str, more: str = "", keys: str = "", iterations: int = 50_000
) -> Path:
    """A cluster.toml with two machines and a third one behind this link."""
    cluster = configure(folder, "islands", workers=3, iterations=iterations, more=MACHINES + more)
    (folder / "kinds.toml").write_text(KINDS.format(link=link))
    text = f'{cluster.read_text()}[train.gradients]\nformat = "int4"\n'
    cluster.write_text(f"{text}[train.strategy.options]\n{keys}")
    return cluster


def homes(cluster: Path) -> dict[str, str]:
    """Island -> its machine, as `up` would start it."""
    placement = check(cluster, starts=False).placement
    return {spec.name: spec.machine for spec in placement.processes if "island" in spec.name}


def test_a_machine_that_does_not_pay_is_left_out_and_plan_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = of_kinds(tmp_path, SLOW)
    assert homes(cluster) == {"island-0": "desktop", "island-1": "laptop"}
    assert main(["plan", str(cluster)]) == 0
    out, err = capsys.readouterr()
    assert re.search(
        r"desktop \+\d+ %, laptop \+\d+ %; nuc -\d+ %: left out \(.*its link makes", out
    )
    assert "nothing is placed on machine" not in out + err


def test_an_exception_of_simulation_links_keeps_the_machine_that_it_names(tmp_path: Path) -> None:
    hosts = "".join(f'[[machine]]\nname = "{name}"\n' for name in ("desktop", "nuc"))
    (tmp_path / "p.json").write_text(
        json.dumps({"island-1/train": 9.0, "island/train": 0.03, "*/*": 0})
    )
    clock = '[simulation]\nclock = "virtual"\nservice_times = "p.json"\n'
    link = '[simulation.links]\n"island-1 -> *" = { latency = 0.1 }\n'
    cluster = configure(tmp_path, "islands", workers=2, iterations=300, more=hosts + clock)
    assert set(homes(cluster).values()) == {"desktop"}
    cluster.write_text(f"{cluster.read_text()}{link}")
    assert homes(cluster)["island-1"] == "nuc"
    (line,) = [note for note in check(cluster, starts=False).notes if "worth" in note]
    assert "kept, because other keys of cluster.toml name its processes" in line


def test_a_machine_that_pays_is_used(tmp_path: Path) -> None:
    assert homes(of_kinds(tmp_path, FAST)) == {
        "island-0": "desktop",
        "island-1": "laptop",
        "island-2": "nuc",
    }


@pytest.mark.parametrize(
    ("more", "keys", "why"),
    [
        ("", "leave_out = false\n", "cluster.toml keeps all machines"),
        (
            '[[process]]\nname = "mine"\nmachine = "nuc"\nactors = ["island-2"]\n',
            "",
            "other keys of cluster.toml name its processes",
        ),
    ],
)
def test_cluster_toml_keeps_a_machine_that_does_not_pay(
    tmp_path: Path, more: str, keys: str, why: str
) -> None:
    checked = check(of_kinds(tmp_path, SLOW, more, keys), starts=False)
    assert {spec.machine for spec in checked.placement.processes} == {"desktop", "laptop", "nuc"}
    (line,) = [note for note in checked.notes if "worth" in note]
    assert why in line
    assert "left out" not in line


def test_given_speeds_are_enough_to_leave_a_machine_out_and_the_line_says_what_is_not_counted(
    tmp_path: Path,
) -> None:
    cluster = of_kinds(tmp_path, SLOW, keys="speeds = [20, 10, 1]\n", iterations=2000)
    text = re.sub(r'kinds? = "(desktop|nuc|kinds.toml)"\n', "", cluster.read_text())
    cluster.write_text(text.replace("[[machine]]", '[[machine]]\naddress = "192.168.1.3"', 3))
    assert homes(cluster) == {"island-0": "desktop", "island-1": "laptop"}
    (line,) = [note for note in check(cluster, starts=False).notes if "worth" in note]
    assert "by the key speeds, as if links took no time" in line


@pytest.mark.parametrize(("link", "pays"), [("125MB", True), ("5kB", False)])
def test_a_profile_shows_the_worth_on_the_network_of_links_and_changes_no_machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], link: str, pays: bool
) -> None:
    hosts = "".join(f'[[machine]]\nname = "m{n}"\naddress = "192.168.1.{n}"\n' for n in (1, 2, 3))
    links = f'[links]\nbytes_per_second = "{link}"\n'
    more = f'[launcher]\nkind = "manual"\n{hosts}{links}'
    cluster = configure(tmp_path, "islands", workers=3, iterations=50_000, more=more)
    (tmp_path / "p.json").write_text(
        json.dumps({"island/train": {"mean": 0.05, "rows": 16}, "*/*": 0})
    )
    assert main(["plan", str(cluster), "--profile", str(tmp_path / "p.json")]) == 0
    out = capsys.readouterr().out
    assert "p.json, the network of [links]" in out
    (line,) = [line for line in out.splitlines() if "the worth of each machine" in line]
    shares = [int(share) for share in re.findall(r"([+-]\d+) %", line)]
    # an island whose link carries nothing in time brings nothing, and the others do not wait for it
    assert len(shares) == 3 and all((share > 10) == pays for share in shares)
    assert set(homes(cluster).values()) == {"m1", "m2", "m3"}
