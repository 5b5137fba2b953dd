"""The placement of actors on several machines, and the settings that each machine decides for
itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest

from runtime.config.file import load
from runtime.config.unused import unused
from runtime.errors import ConfigError, LaunchError
from runtime.machine.usable_cores import usable
from runtime.plan import cores, placement
from runtime.plan.grouping import blocks
from runtime.plan.placement import idle, place
from runtime.plan.topology import ActorSpec, Placement, Topology

ELSEWHERE = "[launcher]\nkind = 'ssh'\n[[machine]]\n"


@dataclass(frozen=True)
class Spread:
    """Options of an actor whose role is spread over machines."""

    spread: ClassVar[bool] = True


def topology(workers: int = 4, servers: int = 2) -> Topology:
    actors = [ActorSpec(f"server-{number}", "server") for number in range(servers)]
    actors += [ActorSpec(f"worker-{number}", "worker", Spread()) for number in range(workers)]
    return Topology("program", tuple(actors), (), actors[0].name)


def placed(folder: Path, text: str, made: Topology | None = None) -> Placement:
    path = folder / "cluster.toml"
    path.write_text(text)
    return place(made or topology(), load(path))


def homes(placement: Placement) -> dict[str, str]:
    """The processes of each machine, by the machine's name."""
    found: dict[str, list[str]] = {}
    for spec in placement.processes:
        found.setdefault(spec.machine, []).append(spec.name)
    return {machine: " ".join(names) for machine, names in found.items()}


def test_workers_are_spread_in_blocks_and_all_others_live_on_the_first_machine(
    tmp_path: Path,
) -> None:
    assert homes(placed(tmp_path, f"{ELSEWHERE}hosts = 'n[1-2]'")) == {
        "n1": "server-0 server-1 worker-0 worker-1",
        "n2": "worker-2 worker-3",
    }


def test_machines_with_a_known_number_of_cores_get_workers_in_proportion(
    tmp_path: Path,
) -> None:
    (tmp_path / "file").write_text("large slots=6\nsmall slots=2\n")
    assert homes(placed(tmp_path, f"{ELSEWHERE}hostfile = 'file'", topology(8, 1))) == {
        "large": "server-0 worker-0 worker-1 worker-2 worker-3 worker-4 worker-5",
        "small": "worker-6 worker-7",
    }


def test_placement_spread_keeps_machines_for_the_servers(tmp_path: Path) -> None:
    text = f"{ELSEWHERE}hosts = 'n[1-3]'\n[placement]\nspread = 'n[2-3]'"
    assert homes(placed(tmp_path, text)) == {
        "n1": "server-0 server-1",
        "n2": "worker-0 worker-1",
        "n3": "worker-2 worker-3",
    }


def test_actors_of_a_rule_with_several_machines_have_a_process_on_each(tmp_path: Path) -> None:
    text = (
        f"{ELSEWHERE}hosts = 'n[1-3]'\n[[process]]\nname = 'w'\nmachine = "
        "'n[2-3]'\nactors = ['worker-*']"
    )
    made = placed(tmp_path, text)
    assert [(spec.name, spec.machine, spec.actors) for spec in made.processes[:2]] == [
        ("w-n2", "n2", ("worker-0", "worker-1")),
        ("w-n3", "n3", ("worker-2", "worker-3")),
    ]
    assert homes(made)["n1"] == "server-0 server-1"


@pytest.mark.parametrize(
    ("count", "weights"), [(0, [1]), (7, [1, 1, 1]), (8, [6, 2]), (5, [3, 0, 4]), (2, [1] * 9)]
)
def test_blocks_take_everything_once_and_differ_from_the_exact_share_by_less_than_one(
    count: int, weights: list[int]
) -> None:
    cuts = blocks(count, weights)
    assert cuts[0] == 0
    assert cuts[-1] == count
    assert cuts == sorted(cuts)
    exact = [count * sum(weights[:number]) / sum(weights) for number in range(len(weights) + 1)]
    assert all(0 <= whole - cut < 1 for cut, whole in zip(cuts, exact, strict=True))


def test_a_machine_without_a_process_is_reported_once_for_its_entry(tmp_path: Path) -> None:
    text = f"{ELSEWHERE}hosts = 'n[1-9]'\nport = 7000\n[[machine]]\nname = 'spare'\nhost = 'x'"
    made = placed(tmp_path, text)
    config = load(tmp_path / "cluster.toml")
    assert [line.replace(f"{tmp_path}/", "") for line in idle(made, config)] == [
        "cluster.toml:3: machine[0]: nothing is placed on 5 of its 9 machines: n5, n6, n7, n8, n9",
        "cluster.toml:6: machine[1]: nothing is placed on machine 'spare'",
    ]
    assert not list(unused(config))


# -- settings that a machine decides


def test_threads_are_shares_of_each_machines_cores_and_left_open_if_these_are_unknown(
    tmp_path: Path,
) -> None:
    text = (
        f"{ELSEWHERE}name = 'a'\nhost = 'a'\ncores = 8\n[[machine]]\nhosts = "
        "'b'\n[[machine]]\nname = 'me'"
    )
    made = placed(tmp_path, text, topology(6, 0))
    assert [(spec.machine, spec.threads) for spec in made.processes] == [
        ("a", 4), ("a", 4), ("b", 0), ("b", 0), *[("me", max(1, len(usable()) // 2))] * 2,
    ]  # fmt: skip
    there = cores.settled(made.processes[2], made, range(10, 22))
    assert (there.threads, there.cores) == (6, ())


def test_a_limit_of_cores_is_described_for_this_machine_unless_its_cores_are_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placement, "usable", lambda: [0, 1])
    monkeypatch.setattr(placement, "limits", lambda: "a control group allows 2.5 of 8 CPUs")

    def told(text: str) -> str:
        path = tmp_path / "cluster.toml"
        path.write_text(text)
        found = load(path)
        return placement.limited(place(topology(2, 1), found), found)

    here = "cores of this machine: 2, since a control group allows 2.5 of 8 CPUs"
    assert told("[[machine]]") == here
    assert told("[[machine]]\ncores = 4") == ""
    assert told(f"{ELSEWHERE}host = 'a'") == ""
    monkeypatch.setattr(placement, "limits", lambda: "")
    assert told("[[machine]]") == ""


def test_workers_do_not_leave_cores_to_processes_with_little_work(
    tmp_path: Path,
) -> None:
    hosts = f"{ELSEWHERE}hosts = 'n[1-2]'\n"
    made = placed(tmp_path, f"{hosts}cores = 8\n", topology(4, 3))
    assert {spec.name: spec.threads for spec in made.processes} == {
        **dict.fromkeys(("server-0", "server-1", "server-2"), 1),
        **{f"worker-{n}": 4 for n in range(4)},
    }
    unknown = placed(tmp_path, hosts, topology(4, 3))
    there = {spec.name: cores.settled(spec, unknown, range(10)) for spec in unknown.processes}
    assert {name: spec.threads for name, spec in there.items()} == {
        **dict.fromkeys(("server-0", "server-1", "server-2"), 2),
        **{f"worker-{n}": 5 for n in range(4)},
    }
    pinned = placed(tmp_path, f"{hosts}cores = 10\npin = ['worker-*']", topology(4, 3))
    assert [spec.threads for spec in pinned.processes] == [2, 2, 2, 2, 2, 5, 5]
    alone = placed(tmp_path, "[[machine]]\ncores = 10\n", topology(2, 3))
    assert [(spec.threads, spec.crowd) for spec in alone.processes] == [(2, 0)] * 3 + [(5, 2)] * 2
    idle = placed(tmp_path, "[[machine]]\ncores = 10\n", topology(0, 5))
    assert [(spec.threads, spec.crowd) for spec in idle.processes] == [(2, 0)] * 5


def test_a_process_has_the_cores_of_its_share_free_that_its_threads_leave(tmp_path: Path) -> None:
    def free(text: str, workers: int, count: int) -> dict[str, int]:
        made = placed(tmp_path, text, topology(workers, 0))
        there = range(count)
        return {
            spec.name: cores.free(cores.settled(spec, made, there), made, there)
            for spec in made.processes
        }

    hosts = f"{ELSEWHERE}hosts = ['a']\n"
    assert free(f"{hosts}threads = 1\n", 2, 8) == {"worker-0": 3, "worker-1": 3}
    assert free(f"{hosts}threads = 8\n", 2, 8) == {"worker-0": 0, "worker-1": 0}
    assert free(hosts, 2, 9) == {"worker-0": 0, "worker-1": 0}
    pinned = free(f"{hosts}threads = 1\npin = ['worker-1']\n", 2, 8)
    assert pinned == {"worker-0": 3, "worker-1": 0}


def test_pinned_processes_elsewhere_stay_on_the_cores_that_their_machine_lets_them_use(
    tmp_path: Path,
) -> None:
    text = f"{ELSEWHERE}hosts = 'a'\nthreads = 2\npin = ['worker-[12]']"
    made = placed(tmp_path, text, topology(3, 0))
    there = [cores.settled(spec, made, [4, 5, 6, 9, 11]) for spec in made.processes]
    assert [spec.cores for spec in there] == [(), (4, 5), (6, 9)]
    few = cores.settled(made.processes[2], made, [4, 5, 6])
    with pytest.raises(LaunchError) as caught:
        cores.check(few, [4, 5, 6])
    assert str(caught.value) == (
        "machine 'a': process 'worker-2' is pinned to 2 of its cores from number 2 on, "
        "counted from 0, but the machine has 3"
    )


def test_pins_elsewhere_need_a_number_of_threads_within_the_configured_cores(
    tmp_path: Path,
) -> None:
    with pytest.raises(ConfigError, match="set threads, or cores, of machine 'a'"):
        placed(tmp_path, f"{ELSEWHERE}hosts = 'a'\npin = ['*']")
    with pytest.raises(
        ConfigError,
        match=(r"pin: expected at most 4 threads \(cores\), found 6: " r"worker-0 \(3\), worker-1"),
    ):
        placed(
            tmp_path,
            (f"{ELSEWHERE}hosts = 'a'\ncores = 4\nthreads = 3\npin = ['*']"),
            topology(2, 0),
        )


@dataclass(frozen=True)
class OnGpu:
    """Options of an actor that computes on a GPU."""

    gpu: str
    spread: ClassVar[bool] = True


@dataclass(frozen=True)
class Follows:
    """Options of an actor that adds up for others."""

    follows: ClassVar[bool] = True


def on_gpus(*gpus: str) -> Topology:
    """A lead, a worker on each of these GPUs, one on the CPU, and an actor that adds up for the
    first two workers."""
    actors = [ActorSpec("lead", "lead", OnGpu("cuda:0")), ActorSpec("cpu", "worker", Spread())]
    actors += [ActorSpec(f"w{n}", "worker", OnGpu(gpu)) for n, gpu in enumerate(gpus)]
    actors += [ActorSpec("sum", "sum", Follows())]
    links = (("sum", "w0"), ("sum", "w1"), ("sum", "lead"))
    return Topology("program", tuple(actors), links, "lead")


PER_DEVICE = "[placement]\nprocesses = 'per-device'\n"


def test_actors_on_one_gpu_share_a_process_with_those_that_add_up_for_them(tmp_path: Path) -> None:
    made = on_gpus("cuda:0", "cuda:0", "cuda:1")
    found = {spec.name: spec.actors for spec in placed(tmp_path, PER_DEVICE, made).processes}
    assert found == {
        "cuda-0": ("w0", "w1", "sum"),
        "cuda-1": ("w2",),
        "lead": ("lead",),
        "cpu": ("cpu",),
    }


def test_an_actor_that_adds_up_for_several_gpus_has_its_own_process(tmp_path: Path) -> None:
    made = on_gpus("cuda:0", "cuda:1")
    found = {spec.name: spec.actors for spec in placed(tmp_path, PER_DEVICE, made).processes}
    assert found["cuda-0"] == ("w0",) and found["cuda-1"] == ("w1",) and found["sum"] == ("sum",)


def test_the_same_gpu_of_two_machines_is_two_processes(tmp_path: Path) -> None:
    text = f"{PER_DEVICE}{ELSEWHERE}name = 'a'\naddress = '10.0.0.1'\n"
    text += "[[machine]]\nname = 'b'\naddress = '10.0.0.2'\n"
    made = on_gpus(*["cuda:0"] * 4)
    found = {
        spec.name: (spec.machine, spec.actors) for spec in placed(tmp_path, text, made).processes
    }
    at = {name: machine for name, (machine, _) in found.items() if name.startswith("cuda")}
    assert at == {"cuda-0-a": "a", "cuda-0-b": "b"}
    workers = sorted(name for name in found for name in found[name][1] if name.startswith("w"))
    assert workers == ["w0", "w1", "w2", "w3"]


def test_a_process_table_comes_before_the_processes_of_devices(tmp_path: Path) -> None:
    text = f"{PER_DEVICE}[[process]]\nname = 'mine'\nactors = ['w1']\n"
    made = on_gpus("cuda:0", "cuda:0")
    found = {spec.name: spec.actors for spec in placed(tmp_path, text, made).processes}
    assert found["mine"] == ("w1",) and "w0" in found["cuda-0"]


def test_without_the_setting_each_actor_on_a_gpu_has_its_process(tmp_path: Path) -> None:
    found = placed(tmp_path, "", on_gpus("cuda:0", "cuda:0")).processes
    assert all(len(spec.actors) == 1 for spec in found)
