"""preset = "auto" together with groups = "auto": the presets are compared with the groups that each
may have, and the run has the tuner of the chosen preset."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

import roles
from nets import load_solver
from roles.choosing import speeds
from roles.choosing.counted import counted
from roles.choosing.iteration_worth import Theory
from roles.choosing.preset import PresetChoice, choice
from roles.choosing.speeds import Speed
from roles.commands.rescaling import scaled
from roles.commands.resuming import as_scaled, as_tuned
from roles.forecasting.costs import Timed
from roles.learning.job import Job
from roles.options import AUTO, Train, Tuning
from roles.planning.planner import job_of, plan
from roles.tuning.tuner import TunerOptions
from runtime import ConfigError
from runtime.config.file import Loaded, load_with_program
from runtime.plan.run_plan import SAID
from tests.roles.test_auto_preset import in_proportion

BATCH = 64
SLOW = "bytes_per_second = 12500000\nlatency = 0.0001\n"
FAST = ""
CONVOLUTIONS = {"conv": 0.2, "fc": 0.01}  # seconds of each phase of a batch
PRODUCTS = {"conv": 0.02, "fc": 0.1, "update": 0.02}  # an update of a model server


def profile(*, conv: float, fc: float, update: float = 0.0) -> dict[str, Any]:
    """Times of array work in proportion to rows. Each phase of LeNet has four pieces of work."""

    def of_batch(seconds: float) -> dict[str, float]:
        return {"mean": seconds, "rows": BATCH}

    whole = {"single/train": of_batch(conv + fc), "replica/forward": of_batch(conv + fc)}
    whole |= {"replica/backward": 0.0, "replica/*": 0.001, "conv_model/*": update}
    conv_phase = {f"{role}/*": of_batch(conv / 4) for role in ("conv_compute", "conv_replica")}
    return (
        whole | conv_phase | {"fc_server/*": of_batch(fc), "fc_shard/*": of_batch(fc), "*/*": 0.0}
    )


def cluster(
    folder: Path,
    *,
    times: dict[str, float] = CONVOLUTIONS,
    network: str = SLOW,
    train: str = 'momentum = "auto"\nbase_lr = "auto"\n',
    strategy: str = "workers = 4\n",
    more: str = "",
) -> Path:
    """A cluster.toml on the virtual clock, with preset and groups "auto"."""
    (folder / "times.json").write_text(json.dumps(profile(**times)))
    text = f'[simulation]\nclock = "virtual"\nservice_times = "times.json"\n{network}'
    text += f"[train]\nmax_iter = 3000\nkernels = 'numpy'\n{train}"
    text += 'data = { train = { format = "digits", split = "train" } }\n'
    text += f'[train.strategy]\npreset = "auto"\ngroups = "auto"\n{strategy}{more}'
    path = folder / "cluster.toml"
    path.write_text(text)
    return path


def made(of: Loaded) -> PresetChoice:
    assert isinstance(of.options, roles.Options)
    return choice(of.config, of.options)


def chosen(path: Path, *settings: str) -> PresetChoice:
    return made(load_with_program(path, settings))


def of_event(found: PresetChoice) -> dict[str, Any]:
    """The fields of the event that reports the choice."""
    event, fields = found.expected.why
    assert event == "choice"
    return fields


def compared(found: PresetChoice) -> dict[str, dict[str, Any]]:
    """The fields of each candidate."""
    return {fields["preset"]: fields for name, fields in found.told if name == "candidate"}


def train_of(found: PresetChoice) -> Train:
    assert isinstance(found.expected.options, roles.Options)
    return found.expected.options.train


# -- which preset wins


def test_on_a_slow_network_groups_with_a_merged_fc_phase_win(tmp_path: Path) -> None:
    found = chosen(cluster(tmp_path))
    said = of_event(found)
    assert (said["preset"], said["workers"], said["groups"]) == ("omnivore", 4, "auto")
    assert "the run begins with 1 group, and the tuner chooses" in said["why"]
    omnivore = compared(found)["omnivore"]
    assert omnivore["groups"] == 4
    assert omnivore["predicted_seconds"] < compared(found)["single"]["predicted_seconds"]
    shown = f"omnivore with 4 groups {1000 * omnivore['predicted_seconds']:.3g} ms, "
    assert said["predicted"].startswith(shown)
    assert said["assumed"] == (
        "an iteration of g groups is worth one of 1 group while momentum 0.9 can be lowered by the "
        "1 - 1/g that g groups add: up to 4"
    )


def test_where_the_fc_phase_takes_most_time_workers_that_sum_gradients_win(tmp_path: Path) -> None:
    found = chosen(cluster(tmp_path, times=PRODUCTS, network=FAST))
    said = of_event(found)
    assert (said["preset"], said["workers"], said["groups"]) == ("replicas", 4, 1)
    assert said["why"].endswith("; 'replicas' cannot regroup, so groups = 'auto' is 1")
    train = train_of(found)
    assert (train.strategy.groups, train.momentum, train.base_lr) == (1, AUTO, AUTO)
    assert any(isinstance(actor.options, TunerOptions) for actor in found.expected.topology.actors)


def test_one_worker_is_one_group_of_any_preset(tmp_path: Path) -> None:
    found = chosen(cluster(tmp_path, strategy="workers = 1\n"))
    said = of_event(found)
    assert (said["preset"], said["workers"], said["groups"]) == ("single", 1, 1)
    assert "cannot regroup" not in said["why"]
    assert said["why"].endswith("; 1 worker is 1 group")
    assert not any("groups" in fields for fields in compared(found).values())


def test_groups_whose_momentum_nothing_lowers_do_not_count(tmp_path: Path) -> None:
    setting: dict[str, Any] = {"times": {"conv": 0.2, "fc": 0.04}}
    setting["network"] = "bytes_per_second = 500000000\n"
    found = chosen(cluster(tmp_path, **setting, train=""))
    assert of_event(found)["preset"] == "firecaffe"
    assert of_event(found)["assumed"] == (
        "an iteration of g groups is worth one of 1 group while the solver's momentum 0.9 and that "
        "of g groups stay below 0.95 together: up to 1"
    )
    lowered = chosen(cluster(tmp_path, **setting, train="momentum = 'auto'\n"))
    assert of_event(lowered)["preset"] == "omnivore"


# -- the number of groups that counts


@pytest.mark.parametrize(
    ("seconds", "fewest"),
    [
        ({1: 0.1, 2: 0.0525, 4: 0.05}, 2),  # 5 % more than the fastest
        ({1: 0.1, 2: 0.0526, 4: 0.05}, 4),
        ({1: 0.1, 2: 0.1, 4: 0.1}, 1),
        ({1: 0.1, 2: 0.05, 4: 0.2}, 2),
    ],
)
def test_a_preset_counts_with_the_fewest_groups_that_are_as_fast_as_any(
    tmp_path: Path, seconds: dict[int, float], fewest: int
) -> None:
    path = cluster(tmp_path)
    of = load_with_program(path)
    assert isinstance(of.options, roles.Options)
    candidate = made(of).trials[0].candidate
    theory = Theory(of.options.train, candidate.job.solver_spec)
    known = {groups: Speed(each, "", 1.0) for groups, each in seconds.items()}
    found = counted(candidate, known, theory)
    assert (found.groups, found.seconds) == (fewest, seconds[fewest])


def test_a_candidate_shows_its_seconds_with_each_number_of_groups(tmp_path: Path) -> None:
    omnivore = compared(chosen(cluster(tmp_path, strategy="workers = 3\n")))["omnivore"]
    shown = dict(part.split(": ") for part in omnivore["by_groups"].split(", "))
    assert [*shown] == ["1", "2", "3"]
    assert shown[str(omnivore["groups"])] == f"{1000 * omnivore['predicted_seconds']:.3g} ms"


def test_layers_are_timed_with_the_rows_of_each_number_of_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    timed: set[int] = set()

    def noted(job: Job, rows: Iterable[int]) -> Timed:
        timed.update(rows)
        return in_proportion(job, rows)

    monkeypatch.setattr(speeds, "timed_quickly", noted)
    path = cluster(tmp_path)
    real = path.read_text().partition("[train]\n")
    path.write_text(f"[[machine]]\nthreads = 1\n{real[1]}{real[2]}")
    omnivore = compared(chosen(path))["omnivore"]
    assert timed >= {BATCH // 4, BATCH // 2, BATCH}  # one, two and four groups of four workers
    assert omnivore["by_groups"].startswith("1: ")


def test_presets_that_are_another_one_with_one_group_are_left_out(tmp_path: Path) -> None:
    left = {fields["preset"]: fields["why"] for name, fields in chosen(cluster(tmp_path)).told
            if name == "left out"}  # fmt: skip
    assert left["sync"] == "it is 'omnivore' with one group"
    assert "omnivore" not in left


def test_on_several_hosts_presets_with_one_group_remain_since_they_add_up_on_each_host(
    tmp_path: Path,
) -> None:
    hosts = '[[machine]]\nhost = "a"\nname = "a"\n[[machine]]\nhost = "b"\nname = "b"\n'
    path = cluster(tmp_path)
    path.write_text(f"{hosts}{path.read_text()}")
    assert {"sync", "omnivore"} <= compared(chosen(path)).keys()


@pytest.mark.parametrize(
    ("momentum", "solver", "holds"),
    [
        (AUTO, 0.9, [1, 2, 4, 8, 10]),
        (AUTO, 0.5, [1, 2]),
        (AUTO, 0.0, [1]),
        (None, 0.9, [1]),
        (None, 0.8, [1, 2, 3]),
        (None, 0.0, list(range(1, 20))),
    ],
)
def test_groups_are_worth_as_much_as_one_while_momentum_makes_up_for_them(
    momentum: str | None, solver: float, holds: list[int]
) -> None:
    train = Train(momentum=momentum, strategy={"workers": 32})  # type: ignore[arg-type]
    theory = Theory(train, load_solver("lenet_solver").override({"momentum": solver}))
    assert [groups for groups in holds if theory.holds(groups)] == holds
    assert not theory.holds(max(holds) + 1)


def test_theory_is_silent_about_other_solvers_than_sgd(tmp_path: Path) -> None:
    (tmp_path / "s.prototxt").write_text(
        'net: "lenet"\nbase_lr: 0.001\nmomentum: 0.9\nmomentum2: 0.999\ntype: "Adam"\n'
        'lr_policy: "fixed"\nmax_iter: 100\n'
    )
    train = Train(momentum=AUTO, strategy={"workers": 8})  # type: ignore[arg-type]
    theory = Theory(train, load_solver(str(tmp_path / "s.prototxt")))
    assert [groups for groups in (1, 2, 4, 8) if theory.holds(groups)] == [1]
    assert theory.assumed == "1 group, since nothing is known of groups with solver Adam"


# -- the trials and the run


def test_the_run_is_the_one_of_the_chosen_preset_named_by_hand(tmp_path: Path) -> None:
    path = cluster(tmp_path)
    found = chosen(path)
    named = load_with_program(path, ["train.strategy.preset=omnivore"])
    assert isinstance(named.options, roles.Options)
    assert found.expected.options == named.options
    assert found.expected.topology == plan(named.config, named.options)


def test_keys_of_the_tuner_that_has_nothing_to_do_are_reported(tmp_path: Path) -> None:
    more = "[train.tuning]\nbudget = 0.2\n"
    found = chosen(cluster(tmp_path, times=PRODUCTS, network=FAST, train="", more=more))
    assert of_event(found)["preset"] == "replicas"
    assert of_event(found)["why"].endswith(
        "so groups = 'auto' is 1, and [train.tuning] has no effect"
    )
    assert not any(
        isinstance(actor.options, TunerOptions) for actor in found.expected.topology.actors
    )


def test_presets_whose_probes_the_run_does_not_pay_for_are_left_out(tmp_path: Path) -> None:
    found = chosen(cluster(tmp_path, train=""), "train.max_iter=40")
    left = {fields["preset"]: fields["why"] for name, fields in found.told if name == "left out"}
    assert "a probe has 10 iterations, but 0.1 of the run's 40 iterations are 4" in left["omnivore"]
    assert of_event(found)["groups"] == 1


# -- what is refused


@pytest.mark.parametrize(
    ("strategy", "train", "said"),
    [
        (
            "reproducible = true\n",
            "",
            "groups: found 'auto', but a choice by measured times cannot be repeated",
        ),
        ("", "devices = { '*' = 'emulated' }\n", "groups: found 'auto', but emulated devices have"),
        ("live = false\n", "", "live: found false, but groups = 'auto' changes groups while"),
        ("pipeline = 2\n", "", "pipeline: found 2, but preset = 'auto' chooses among presets"),
        ("exchange = 'tree'\n", "", "exchange: found 'tree', but preset = 'auto' chooses among"),
    ],
)
def test_settings_that_no_preset_could_choose_are_refused_with_their_line(
    tmp_path: Path, strategy: str, train: str, said: str
) -> None:
    path = cluster(tmp_path, train=train, strategy=f"workers = 4\n{strategy}")
    with pytest.raises(ConfigError) as refused:
        chosen(path)
    [line] = refused.value.problems
    number = line.removeprefix(f"{path}:").partition(":")[0]
    assert number.isdecimal()
    assert f": train.strategy.{said}" in line


def test_commands_that_need_no_preset_read_such_a_configuration(tmp_path: Path) -> None:
    of = load_with_program(cluster(tmp_path, train="batch = 'auto'\n"))
    assert isinstance(of.options, roles.Options)
    assert job_of(of.config, of.options).batch == BATCH


# -- a run that resumes another


def left(folder: Path, said: str, became: str) -> Path:
    """The directory of a run with this [train.strategy] at its start, and this one in the end."""
    run = folder / "runs" / "20261128-120000-roles"
    run.mkdir(parents=True)
    (run / "events.jsonl").touch()
    (run / SAID).write_text(f"[train.strategy]\n{said}")
    (run / "config.toml").write_text(f"[train.strategy]\n{became}")
    return run


def test_a_resumed_run_has_the_groups_to_which_the_run_was_scaled_and_its_preset(
    tmp_path: Path,
) -> None:
    chosen = "preset = 'omnivore'\nworkers = 4\n"
    run = left(tmp_path, f"{chosen}groups = 'auto'\n", f"{chosen}groups = 2\n")
    more = learning(trained(tmp_path, 1, at=10)) + "budget = 0.2\n"
    of = load_with_program(cluster(tmp_path, train="", more=more))
    assert isinstance(of.options, roles.Options)
    train, [line] = as_scaled(of.options.train, run)
    strategy = train.strategy
    assert (strategy.preset, strategy.workers, strategy.groups) == ("omnivore", 4, 2)
    assert line == f"scaled     as {run.name} was: 2 groups, where cluster.toml says auto"
    plan(of.config, of.options.model_copy(update={"train": train}))


def test_a_run_whose_groups_were_chosen_can_be_scaled_to_given_groups(tmp_path: Path) -> None:
    path = cluster(tmp_path, train="", more="[train.tuning]\nbudget = 0.2\n")
    of = load_with_program(path, ["train.strategy.preset=omnivore"])
    assert isinstance(of.options, roles.Options)
    after = scaled(of.config, of.options, 3, 2)
    assert (after.train.strategy.workers, after.train.strategy.groups) == (3, 2)
    assert after.train.tuning == Tuning()
    plan(of.config, after)


def test_a_resumed_run_begins_with_what_the_tuner_had_chosen(tmp_path: Path) -> None:
    run = left(tmp_path, "", "preset = 'omnivore'\n")
    record = {"choice": {"groups": 4, "momentum": 0.6, "base_lr": 0.04}}
    record |= {"saturated_groups": 4, "next_groups": 4}  # type: ignore[dict-item]
    (run / "tuning.json").write_text(json.dumps(record))
    of = load_with_program(cluster(tmp_path))
    assert isinstance(of.options, roles.Options)
    assert as_tuned(of.options.train, of.config, run).tuning.start == str(run / "tuning.json")


# -- what earlier runs have shown


def trained(folder: Path, groups: int, *, at: int | None, preset: str = "omnivore") -> str:
    """The directory of a run with so many groups, whose loss fell to 0.3 at iteration `at`."""
    run = folder / f"{preset}-{groups}"
    run.mkdir()
    text = "[train]\nmax_iter = 3000\n"
    text += 'data = { train = { format = "digits", split = "train" } }\n'
    text += f"[train.strategy]\npreset = '{preset}'\nworkers = 4\ngroups = {groups}\n"
    (run / "config.toml").write_text(text)
    loss = {number: 0.2 if at is not None and number >= at else 0.9 for number in (10, 40, 50, 80)}
    told = [
        {"t": number, "actor": "coordinator", "event": "progress", "iteration": number, "loss": of}
        for number, of in loss.items()
    ]
    (run / "events.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in told))
    return run.name


def learning(*runs: str, target: str = "loss=0.3") -> str:
    return f"[train.tuning]\nlearnt = {json.dumps(runs)}\ntarget = '{target}'\n"


def test_groups_that_needed_more_iterations_count_for_less(tmp_path: Path) -> None:
    runs = [trained(tmp_path, 1, at=10), trained(tmp_path, 4, at=40)]
    found = chosen(cluster(tmp_path, more=learning(*runs)))
    said = of_event(found)
    # four groups need four times as many iterations; two, between them, twice as many
    alone = compared(found)["omnivore"]["by_groups"].split(", ")[0].removeprefix("1: ")
    assert f"omnivore with 1 group {alone}" in said["predicted"]
    assert (
        "singa with 4 groups" in said["predicted"]
    )  # all of its layers are stale: no run shows it
    assert said["assumed"].startswith(
        "iterations to loss 0.3 as in runs with as many groups; else "
    )
    assert train_of(found).tuning.learnt == []


def test_the_shown_seconds_have_the_iterations_that_they_count_for(tmp_path: Path) -> None:
    runs = [trained(tmp_path, 1, at=40), trained(tmp_path, 4, at=50)]
    found = chosen(cluster(tmp_path, more=learning(*runs)))
    omnivore = next(trial.counted for trial in found.trials if trial.name == "omnivore")
    assert (omnivore.groups, omnivore.iterations) == (4, 1.25)
    assert str(omnivore).endswith(" ms x 1.25")


def test_one_group_counts_also_if_a_run_with_it_did_not_reach_the_target(tmp_path: Path) -> None:
    runs = [trained(tmp_path, 1, at=None), trained(tmp_path, 4, at=40)]
    found = compared(chosen(cluster(tmp_path, more=learning(*runs))))
    assert found["omnivore"]["groups"] == 4
    assert "single" in found


def test_groups_that_did_not_reach_the_target_do_not_count(tmp_path: Path) -> None:
    runs = [trained(tmp_path, 1, at=10), trained(tmp_path, 4, at=None)]
    assert compared(chosen(cluster(tmp_path, more=learning(*runs))))["omnivore"]["groups"] < 4


@pytest.mark.parametrize(
    ("more", "setting", "said"),
    [
        (learning("none"), "", "learnt: {folder}/none: not a run directory"),
        (learning("omnivore-1", target="loss"), "", "target: loss: expected NAME=NUMBER"),
        (learning("omnivore-1", target="loss=0.3"), "train.batch=32", "learnt: "),
        ("[train.tuning]\ntarget = 'loss=1'\n", "", "target: found 'loss=1', but no learnt"),
        (
            learning("omnivore-1"),
            "train.strategy.groups=1",
            "target: found 'loss=0.3', but numbers",
        ),
    ],
)
def test_runs_that_show_nothing_of_this_one_are_refused_with_their_key(
    tmp_path: Path, more: str, setting: str, said: str
) -> None:
    trained(tmp_path, 1, at=10)
    with pytest.raises(ConfigError) as refused:
        chosen(cluster(tmp_path, more=more), *[setting] * bool(setting))
    expected = f"train.tuning.{said.format(folder=tmp_path)}"
    assert any(expected in problem for problem in refused.value.problems)


def test_runs_to_learn_from_are_refused_where_the_preset_is_named(tmp_path: Path) -> None:
    trained(tmp_path, 1, at=10)
    path = cluster(tmp_path, more=learning("omnivore-1"))
    of = load_with_program(path, ["train.strategy.preset=omnivore"])
    assert isinstance(of.options, roles.Options)
    with pytest.raises(ConfigError, match=r"train\.tuning\.learnt: found .* only with preset = 'a"):
        plan(of.config, of.options)
