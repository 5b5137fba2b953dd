"""The machines of workers, of servers and of all other actors, which no [[process]] places."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import pytest

from runtime.cli.main import main
from runtime.config.file import load
from runtime.errors import ConfigError
from runtime.plan.placement import idle, machines_wanted
from runtime.plan.topology import ActorSpec, Topology
from tests.runtime.plan.test_placement import ELSEWHERE, Spread, homes, placed


@dataclass(frozen=True)
class Computing:
    """Options of a server that computes."""

    apart: ClassVar[bool] = True


@dataclass(frozen=True)
class Holding:
    """Options of a server with much traffic and little work."""

    serves: ClassVar[bool] = True


@dataclass(frozen=True)
class Near:
    """Options of an actor that lives with another one."""

    beside: str


@dataclass(frozen=True)
class ServingNear(Near):
    """Options of a server that lives with another actor by default."""

    serves: ClassVar[bool] = True


def topology(workers: int, computing: int = 1, holding: int = 1, near: str = "") -> Topology:
    """A script's own roles: a lead, servers of both kinds, and workers."""
    actors = [ActorSpec("lead", "lead")]
    actors += [ActorSpec(f"model-{n}", "model", Holding()) for n in range(holding)]
    actors += [ActorSpec(f"fc-{n}", "fc", Computing()) for n in range(computing)]
    actors += [ActorSpec(f"w-{n}", "w", Spread()) for n in range(workers)]
    actors += [ActorSpec("near", "near", Near(near))] if near else []
    return Topology("program", tuple(actors), (), "lead")


@pytest.mark.parametrize(
    ("machines", "made", "expected"),
    [
        (1, topology(2), {"n1": "lead model-0 fc-0 w-0 w-1"}),
        # a spare machine takes the server that computes
        (3, topology(2), {"n1": "lead model-0 w-0", "n2": "w-1", "n3": "fc-0"}),
        # a server that computes little stays with a worker, also if a machine is left
        (4, topology(2), {"n1": "lead model-0 w-0", "n2": "w-1", "n3": "fc-0"}),
        (4, topology(2, 2), {"n1": "lead model-0 w-0", "n2": "w-1", "n3": "fc-0", "n4": "fc-1"}),
        # as many machines as workers: the servers are on different ones
        (2, topology(2), {"n1": "lead model-0 w-0", "n2": "fc-0 w-1"}),
        (3, topology(3, 2), {"n1": "lead model-0 w-0", "n2": "fc-1 w-1", "n3": "fc-0 w-2"}),
        (3, topology(3, 0, 4),
         {"n1": "lead model-0 model-3 w-0", "n2": "model-1 w-1", "n3": "model-2 w-2"}),
        # more workers than machines: the machine with the fewest
        (3, topology(4), {"n1": "lead model-0 w-0", "n2": "fc-0 w-1", "n3": "w-2 w-3"}),
        (3, topology(2, near="fc-0"), {"n1": "lead model-0 w-0", "n2": "w-1", "n3": "fc-0 near"}),
    ],
)  # fmt: skip
def test_servers_that_compute_take_machines_without_workers_and_others_stay_with_a_worker(
    machines: int, made: Topology, expected: dict[str, str], tmp_path: Path
) -> None:
    assert homes(placed(tmp_path, f"{ELSEWHERE}hosts = 'n[1-{machines}]'", made)) == expected


def test_a_server_that_computes_prefers_the_machine_with_most_cores_for_each_process(
    tmp_path: Path,
) -> None:
    text = f"{ELSEWHERE}hosts = 'n[1-2]'\ncores = 4\n[[machine]]\nhosts = 'big'\ncores = 16"
    rule = "\n[[process]]\nname = '{0}'\nmachine = '{1}'\nactors = ['{0}']"
    text += "".join(rule.format(f"w-{n}", at) for n, at in enumerate(("n1", "big", "n2")))
    assert homes(placed(tmp_path, text, topology(3)))["big"] == "w-1 fc-0"


def test_placement_servers_and_rules_count_before_the_default(tmp_path: Path) -> None:
    four = f"{ELSEWHERE}hosts = 'n[1-4]'\n[placement]\n"
    made = topology(3, 2)
    assert homes(placed(tmp_path, f"{four}servers = 'n1'", made)) == {
        "n1": "lead model-0 fc-0 fc-1 w-0",
        "n2": "w-1",
        "n3": "w-2",
    }
    assert homes(placed(tmp_path, f"{four}spread = 'n[2-4]'", made)) == {
        "n1": "lead fc-0",
        "n2": "model-0 w-0",
        "n3": "w-1",
        "n4": "fc-1 w-2",
    }
    rule = "\n[[process]]\nname = 'f'\nmachine = 'n2'\nactors = ['fc-1']"
    found = homes(placed(tmp_path, f"{ELSEWHERE}hosts = 'n[1-4]'{rule}", made))
    assert found == {"n1": "lead model-0 w-0", "n2": "f w-1", "n3": "w-2", "n4": "fc-0"}


def test_a_server_lives_with_the_actor_that_it_names_unless_placement_servers_is_set(
    tmp_path: Path,
) -> None:
    made = topology(2, 0, 0)
    outer = ActorSpec("outer", "outer", ServingNear("w-1"))
    made = replace(made, actors=(*made.actors, outer))
    three = f"{ELSEWHERE}hosts = 'n[1-3]'\n"
    assert homes(placed(tmp_path, three, made)) == {"n1": "lead w-0", "n2": "w-1 outer"}
    chosen = f"{three}[placement]\nservers = 'n3'\n"
    assert homes(placed(tmp_path, chosen, made))["n3"] == "outer"


def test_machines_that_the_program_does_not_use_get_no_process_and_no_warning(
    tmp_path: Path,
) -> None:
    four = f"{ELSEWHERE}hosts = 'n[1-4]'\n"
    made = replace(topology(3), unused=("n1", "n3"))
    found = placed(tmp_path, four, made)
    assert homes(found) == {"n2": "lead model-0 w-0", "n4": "fc-0 w-1 w-2"}
    assert idle(found, load(tmp_path / "cluster.toml")) == []
    only = f"{four}[placement]\nspread = 'n3'\n"
    assert homes(placed(tmp_path, only, made))["n3"] == "w-0 w-1 w-2"


def test_servers_in_the_process_of_the_lead_stay_with_it_on_the_first_machine(
    tmp_path: Path,
) -> None:
    text = f"{ELSEWHERE}hosts = 'n[1-3]'\n[placement]\nprocesses = 'one'\n"
    text += "[[process]]\nname = 'w'\nmachine = 'n[1-3]'\nactors = ['w-*']"
    found = homes(placed(tmp_path, text, topology(3, 2)))
    assert found == {"n1": "w-n1 convoy", "n2": "w-n2", "n3": "w-n3"}


def test_a_machine_of_placement_servers_that_does_not_exist_is_reported_with_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "cluster.toml"
    path.write_text("[placement]\nservers = 'n9'\n[[machine]]\nname = 'n1'\n")
    assert main(["check", str(path)]) == 2
    assert "cluster.toml:2: placement.servers: no machine is named 'n9' (allowed: n1)" in (
        capsys.readouterr().err
    )


def test_the_machines_wanted_are_one_for_each_process_with_a_worker_or_a_computing_server(
    tmp_path: Path,
) -> None:
    path = tmp_path / "cluster.toml"
    path.write_text("")
    assert machines_wanted(topology(4, 2, 3), load(path)) == 6
    assert machines_wanted(topology(0, 0), load(path)) == 1
    path.write_text("[[process]]\nname = 'ws'\nactors = ['w-*']\n")
    assert machines_wanted(topology(4, 2), load(path)) == 3
    path.write_text("[[process]]\nname = 'ws'\nactors = ['v-*']\n")
    with pytest.raises(ConfigError, match="no actor left matches"):
        machines_wanted(topology(1), load(path))
