"""The layout of a run for the hosts of its workers, and the devices on which the workers
compute."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.cli.main import main
from runtime.errors import ConfigError
from runtime.plan.host_map import hosts_of
from runtime.runs.checking import Checked, check
from tests.helpers.support import configure
from tests.roles.test_buckets import net_of
from tests.roles.test_machines import ELSEWHERE, launcher

__all__ = ["launcher"]  # the fixture


def planned(
    folder: Path, preset: str, *overrides: str, workers: int = 6, more: str = ELSEWHERE
) -> Checked:
    return check(configure(folder, preset, workers=workers, more=more), overrides)


def homes(made: Checked) -> dict[str, str]:
    """Actor -> host."""
    return {
        name: host.name
        for host in hosts_of(made.placement, made.loaded.config)
        for name in host.actors
    }


@pytest.mark.parametrize(
    "preset", ["sync", "singa", "replicas", "firecaffe", "host-accumulate", "dl4j", "sparknet"]
)
@pytest.mark.parametrize("workers", [6, 9])
def test_only_one_link_of_sums_leads_from_each_host_to_another(
    preset: str, workers: int, tmp_path: Path
) -> None:
    made = planned(tmp_path, preset, workers=workers)
    at = homes(made)
    lead = made.placement.topology.lead
    # every worker talks to these servers itself
    servers = {"conv_model", "fc_server", "model-0", lead}
    far = [
        link
        for link in made.placement.topology.links
        if at[link[0]] != at[link[1]] and not servers & {*link}
    ]
    ends = {name for link in far for name in link}
    assert len(far) <= 3
    assert len(ends) == len({at[name] for name in ends}) or preset in ("sync", "singa")
    upward = {name: actor.options.parent for actor in made.placement.topology.actors
              if (name := actor.name).startswith("reducer")}  # fmt: skip
    out = [name for name, parent in upward.items() if at[name] != at[parent]]
    assert len(out) == len({at[name] for name in out}) == (2 if upward else 0)


def test_the_way_between_hosts_is_printed_and_follows_from_the_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    first = "sums are made on each of {} hosts first; between them they go {}"
    for hosts, overrides, told in (
        (7, [], "round a ring from 350 kB on, smaller ones up a tree and down again"),
        (7, ["links.latency=0"], "round a ring"),
        (
            7,
            ["links.bytes_per_second='125MB'"],
            ("round a ring from 35 kB on, smaller ones up a tree and down again"),
        ),
        (7, ["train.strategy.between='tree'"], "up a tree and down again"),
        (8, [], "by halves and back"),
        (8, ["train.strategy.reproducible=true"], "by halves and back"),
        (8, ["train.strategy.between='ring'"], "round a ring"),
        (2, [], "by halves and back"),
    ):
        more = ELSEWHERE.replace("[1-3]", f"[1-{hosts}]")
        assert planned(tmp_path, "replicas", *overrides, workers=hosts, more=more).notes == (
            first.format(hosts, told),
        )
    assert planned(tmp_path, "replicas", more="").notes == ()
    planned(tmp_path, "replicas", workers=7, more=ELSEWHERE.replace("[1-3]", "[1-7]"))
    for command in ("check", "plan"):
        assert main([command]) == 0
        assert first.format(7, "round a ring") in capsys.readouterr().out.replace("\n", " ")


def test_a_reproducible_run_adds_up_pairs_whichever_host_they_are_on(tmp_path: Path) -> None:
    repeat = "train.strategy.reproducible=true"
    assert (
        "by halves"
        in planned(tmp_path, "replicas", repeat, workers=8, more=ELSEWHERE.replace("3", "4")).notes[
            0
        ]
    )
    odd = planned(tmp_path, "replicas", repeat, workers=8)  # three, three and two
    assert odd.notes == ()
    assert any(
        ("its hosts have 2, 3, 3 workers; expected 1, 2, 4 or 8 on each") in line
        for line in odd.warnings
    )
    with pytest.raises(ConfigError, match="a ring adds up in an order of its own"):
        planned(
            tmp_path,
            "replicas",
            repeat,
            "train.strategy.between='ring'",
            workers=8,
            more=ELSEWHERE.replace("3", "4"),
        )


def test_by_halves_sum_powers_of_two_only_and_others_are_refused(tmp_path: Path) -> None:
    halves = "train.strategy.between='halving'"
    four = planned(tmp_path, "replicas", halves, workers=8, more=ELSEWHERE.replace("3", "4"))
    assert four.notes[0].endswith("between them they go by halves and back")
    assert "by halves" not in planned(tmp_path, "replicas").notes[0]
    with pytest.raises(
        ConfigError,
        match=(r"found 'halving' between 3 hosts, but sums are " r"halved among 1, 2, 4"),
    ):
        planned(tmp_path, "replicas", halves)
    named = "train.strategy.exchange='halving'"
    planned(tmp_path, "firecaffe", named, workers=4, more="")
    with pytest.raises(
        ConfigError, match=("exchange: found 'halving' for 6 workers, but sums are halved among")
    ):
        planned(tmp_path, "firecaffe", named, more="")


def test_where_memory_is_shared_gradients_travel_in_larger_buckets_than_between_hosts(
    tmp_path: Path,
) -> None:
    for more, buckets in (("", 1), (ELSEWHERE, 2)):
        made = planned(tmp_path, "replicas", more=more).placement.topology.actors
        (options,) = (actor.options for actor in made if actor.name == "replica-0")
        assert len(options.buckets(net_of("lenet"))) == buckets


def test_a_way_between_hosts_has_no_effect_on_one_host_and_is_refused_for_other_exchanges(
    tmp_path: Path,
) -> None:
    ring = "train.strategy.between='ring'"
    told = planned(tmp_path, "replicas", ring, more="").warnings
    assert [line.partition("between: ")[2] for line in told if "between" in line] == [
        "has no effect: the workers are on one host"
    ]
    with pytest.raises(ConfigError, match="exchange 'tree' has no choice of ways between hosts"):
        planned(tmp_path, "firecaffe", ring)
    with pytest.raises(ConfigError, match="preset 'sync' hold no replicas"):
        planned(tmp_path, "sync", ring)


def devices(made: Checked) -> dict[str, str]:
    """Worker -> its device."""
    return {
        actor.name: actor.options.job.device
        for actor in made.placement.topology.actors
        if actor.name.startswith(("replica", "conv-", "fc_"))
    }


def test_workers_take_the_devices_of_their_machine_in_turn_and_train_devices_counts_first(
    tmp_path: Path,
) -> None:
    listed = f'{ELSEWHERE}devices = ["cuda:0", "cuda:1"]\n'
    assert [*devices(planned(tmp_path, "replicas", more=listed)).values()] == [
        "cuda:0",
        "cuda:1",
    ] * 3
    made = planned(
        tmp_path, "replicas", 'train.devices={"replica-2"="cpu"}', workers=9, more=listed
    )
    zero = "cuda:0"
    one = "cuda:1"
    assert [*devices(made).values()] == [zero, one, "cpu", zero, one, zero, zero, one, zero]
    assert (
        sum(
            ("has 3 workers for 2 devices: the workers share them in turn") in line
            for line in made.warnings
        )
        == 2
    )
    assert devices(planned(tmp_path, "sync", workers=3, more=listed)) == {
        "fc_server": "cpu", "conv-0-0": zero, "conv-0-1": zero, "conv-0-2": zero,
    }  # fmt: skip
    with pytest.raises(ConfigError, match="found 'gpu', expected 'cpu', 'cuda:N'"):
        planned(tmp_path, "replicas", more=listed.replace("cuda:1", "gpu"))
    idle = planned(tmp_path, "replicas", "placement.spread='n1'", more=listed).warnings
    assert sum("has no worker without a device of train.devices" in line for line in idle) == 2
