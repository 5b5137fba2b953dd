"""The facts about machines that the plan of a training run uses, and its messages about unknown
facts."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from roles.base.reads import ReadsJob
from roles.exchange.collective import adders_of
from roles.exchange.per_host import PerHostOptions
from roles.learning.job import Job
from roles.workers.replica_options import ReplicaOptions
from runtime.cli.main import main
from runtime.config.sections import ClusterConfig
from runtime.machine.usable_cores import usable
from runtime.plan.machine_files import Files
from runtime.plan.placement import unknown
from runtime.plan.topology import Placement
from runtime.runs.checking import Checked, check
from tests.helpers.support import configure
from tests.stranger.installed import write_metadata

ELSEWHERE = '[launcher]\nkind = "plain"\n[[machine]]\nhosts = "n[1-3]"\n'


@pytest.fixture(autouse=True)
def launcher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed launcher for processes on other machines. These tests start none."""
    write_metadata(
        tmp_path / "site", {"convoy.launchers": {"plain": "tests.stranger.launcher:PlainLauncher"}}
    )
    monkeypatch.syspath_prepend(str(tmp_path / "site"))


def planned(folder: Path, more: str, *overrides: str) -> Checked:
    return check(configure(folder, "replicas", workers=6, more=more), overrides)


def options_of_a_worker(made: Checked) -> ReplicaOptions:
    actors = made.placement.topology.actors
    return next(actor.options for actor in actors if isinstance(actor.options, ReplicaOptions))


def adders(made: Checked) -> tuple[int | None, ...]:
    """The numbers of adding members, one for each host."""
    options = options_of_a_worker(made).exchange.options
    return options.adders if isinstance(options, PerHostOptions) else (options.adders,)


def test_as_many_members_of_a_host_add_up_as_it_has_cores_and_all_if_the_number_is_unknown(
    tmp_path: Path,
) -> None:
    assert adders(planned(tmp_path, "")) == (min(6, len(usable())),)
    assert adders(planned(tmp_path, "[[machine]]\ncores = 3\n")) == (3,)
    assert adders(planned(tmp_path, f"{ELSEWHERE}cores = 1\n", "machine.0.threads=1")) == (1, 1, 1)
    assert adders(planned(tmp_path, ELSEWHERE)) == (2, 2, 2)
    mixed = ELSEWHERE.replace("[1-3]", "1") + (
        'cores = 4\n[[machine]]\nhost = "m"\nname = "m"\ncores = 2\n'
    )
    # four and two workers, as many as there are cores
    assert adders(planned(tmp_path, mixed)) == (4, 2)
    one = f"{ELSEWHERE}cores = 2\n[placement]\nspread = 'n3'\n"
    # all workers are on one machine: its cores count, not the cores of all machines
    assert adders(planned(tmp_path, one)) == (2,)
    assert adders_of(("a", "b"), 64) == 2


@pytest.mark.parametrize("live", [False, True])
def test_reducers_live_next_to_the_workers_whose_gradients_they_add_up(
    live: bool, tmp_path: Path
) -> None:
    """On one machine together they would get all gradients through one link."""
    machines = '[launcher]\nkind = "plain"\n[[machine]]\nhosts = "n[1-8]"\ncores = 1\n'
    text = configure(tmp_path, "omnivore", workers=8, more=machines)
    made = check(text, [f"train.strategy.live={str(live).lower()}"])
    home = {actor: spec.machine for spec in made.placement.processes for actor in spec.actors}
    reducers = {name: home[name] for name in home if name.startswith("reducer")}
    assert len(set(reducers.values())) == 4
    below = {"reducer-0": "conv-0-0", "reducer-1": "conv-0-2", "reducer-2": "conv-0-4"}
    assert {name: reducers[name] for name in below} == {
        name: home[worker] for name, worker in below.items()
    }


def test_check_and_plan_name_the_unknown_facts_about_other_machines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = planned(tmp_path, ELSEWHERE)
    text = "not known here of machines n1, n2, n3: cores, memory, addresses, versions and data; "
    text += "each machine is asked at its start, before the run begins"
    assert unknown(made.placement, made.loaded.config) == text
    assert unknown(*_parts(planned(tmp_path, f"{ELSEWHERE}cores = 2\n"))) == text.replace(
        "cores, ", ""
    )
    assert unknown(*_parts(planned(tmp_path, ""))) == ""
    monkeypatch.chdir(tmp_path)
    planned(tmp_path, ELSEWHERE)
    for command in ("check", "plan"):
        assert main([command]) == 0
        said = capsys.readouterr().out
        assert text in said
        assert ("BLAS threads as its cores allow" in said) == (command == "check")


def _parts(made: Checked) -> tuple[Placement, ClusterConfig]:
    return made.placement, made.loaded.config


def test_machines_of_one_entry_and_price_are_counted_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    planned(tmp_path, f"{ELSEWHERE}price_per_hour = 0.5\ncores = 4\n")
    (tmp_path / "times.json").write_text(json.dumps({"*/*": 0.001}))
    assert main(["plan", "--profile", "times.json"]) == 0
    assert "(3 x n1 to n3 at 0.5 an hour)" in capsys.readouterr().out


def test_files_next_to_cluster_toml_are_in_the_directory_of_a_machine_and_others_stay_in_place(
    tmp_path: Path,
) -> None:
    there = Files("/home/a/run", "/scratch/b", "/data")
    assert there.here("/home/a/run/nets/x.prototxt") == "/scratch/b/nets/x.prototxt"
    assert [there.here(path) for path in ("lenet", "", "/etc/x", "/home/a/running")] == [
        "lenet", "", "/etc/x", "/home/a/running",
    ]  # fmt: skip
    assert (there.data_root, Files("/a", "/b").data_root, Files("/a").data_root) == (
        "/data",
        "/b",
        "/a",
    )
    assert Files("/a", "~/b").here("/a/c") == f"{Path.home()}/b/c"


def test_a_job_is_moved_with_all_its_files(tmp_path: Path) -> None:
    made = planned(tmp_path, "")
    options = options_of_a_worker(made)
    moved = options.at(Files(str(tmp_path), "/there", "")).job
    assert moved.solver == "/there/solver.prototxt"
    assert moved.base_directory == "/there"
    assert moved.net == options.job.net


class Reader(ReadsJob):
    """The part of an actor that declares the files it reads."""

    def __init__(self, job: Job) -> None:
        self._job = job


def test_the_identity_of_an_actors_input_depends_on_nets_solvers_and_files_but_not_on_places(
    tmp_path: Path,
) -> None:
    job = options_of_a_worker(planned(tmp_path, "")).job
    for place, last in (("a", b"1"), ("b", b"2")):
        (tmp_path / place).mkdir()
        (tmp_path / place / "first.safetensors").write_bytes(b"0" * 200_000 + last)
        (tmp_path / place / "solver.prototxt").write_text(
            (tmp_path / "solver.prototxt").read_text()
        )

    def read(**changed: object) -> dict[str, str]:
        return Reader(dataclasses.replace(job, **changed)).reads()  # type: ignore[arg-type]

    before = read(weights=(str(tmp_path / "a" / "first.safetensors"),))
    assert before.keys() == {"the net in TRAIN", "the solver", "train.weights 1 first.safetensors"}
    other = read(
        weights=(str(tmp_path / "b" / "first.safetensors"),),
        solver=str(tmp_path / "b" / "solver.prototxt"),
    )
    assert {name for name in before if before[name] != other[name]} == {
        "train.weights 1 first.safetensors"
    }
    assert read(solver_values={"base_lr": 0.5})["the solver"] != before["the solver"]
    assert read(net="cifar10_quick")["the net in TRAIN"] != before["the net in TRAIN"]
    assert read(device="emulated") == {}
