"""Runs with a tuner: the keys that may be "auto", the refused settings, the course of the run and
its end."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from roles import training
from roles.planning.strategies import PRESETS
from roles.tuning.choices import counts_up_to
from roles.tuning.momentum import compensated
from runtime import ConfigError, Topology
from runtime.cli.main import main
from runtime.config.file import load_with_program
from runtime.plan.placement import place
from tests.helpers.support import (
    ROOT,
    Simulated,
    configure,
    environment,
    events,
    run_directory,
    run_up,
    runtime_command,
    train,
)

EXAMPLE = ROOT / "examples" / "tuned.toml"


def service_time(actor: str, label: str) -> float:
    """Conv workers take longer than the FC phase, so that asynchronous groups are faster."""
    return 0.02 if actor.startswith("conv-") else 0.002 if actor.startswith("fc") else 0.0


def tuned(
    directory: Path, preset: str, *auto: str, workers: int = 4, iterations: int = 120, **tuning: Any
) -> Path:
    """A cluster.toml in which these keys are "auto"."""
    cluster = configure(directory, preset, workers=workers, iterations=iterations)
    text = cluster.read_text()
    if "groups" in auto:
        text = text.replace("groups = 1", 'groups = "auto"')
    text = text.replace(
        "[train]\n", "[train]\n" + "".join(f'{key} = "auto"\n' for key in auto if key != "groups")
    )
    text += "[train.tuning]\n" + "".join(
        f"{key} = {json.dumps(value)}\n" for key, value in tuning.items()
    )
    cluster.write_text(text)
    return cluster


def choice_of(run: Simulated) -> dict[str, Any]:
    """The first choice of the tuner."""
    return next(fields for fields in run.journal.of("tuning") if "groups" in fields)


# -- refused settings

AUTO = "[train.strategy]\nworkers = 4\ngroups = 'auto'\n"
BROKEN = {
    "groups of a preset that makes them": (
        "[train.strategy]\npreset = 'sync'\ngroups = 'auto'\n",
        (
            "cluster.toml:3: train.strategy.groups: found 'auto', but preset 'sync' makes its "
            "groups itself"
        ),
    ),
    "groups of one worker": (
        "[train.strategy]\nworkers = 1\ngroups = 'auto'\n",
        "cluster.toml:3: train.strategy.groups: found 'auto', but 1 worker is 1 group",
    ),
    "another word": (
        "[train.strategy]\ngroups = 'automatic'\n",
        "cluster.toml:2: train.strategy.groups: found 'automatic' (string), expected an "
        "integer >= 1, or 'auto' "
        "(did you mean 'auto'?)",
    ),
    "groups that may not change": (
        f"{AUTO}live = false\n",
        (
            "cluster.toml:4: train.strategy.live: found false, but groups = 'auto' changes "
            "groups while the run goes on"
        ),
    ),
    "a pipeline": (
        f"{AUTO}pipeline = 2\n",
        "cluster.toml:4: train.strategy.pipeline: found 2, but with groups = 'auto' the "
        "tuner chooses the number of groups",
    ),
    "a run that shall repeat itself": (
        "[train]\nmomentum = 'auto'\n[train.strategy]\nreproducible = true\n",
        "cluster.toml:2: train.momentum: found 'auto', but a choice by measured times "
        "cannot be repeated: set reproducible = false",
    ),
    "devices without losses": (
        "[train]\nbase_lr = 'auto'\ndevices = {'*' = 'emulated'}\n",
        (
            "cluster.toml:2: train.base_lr: found 'auto', but emulated devices have no losses to "
            "compare"
        ),
    ),
    "a solver without momentum": (
        "[train]\nmomentum = 'auto'\nsolver = 's.prototxt'\nnet = 'lenet'\n",
        (
            "cluster.toml:2: train.momentum: found 'auto', but this solver has no momentum: "
            "s.prototxt:1: "
        ),
    ),
    "a budget that pays for no probe": (
        f"[train]\nmax_iter = 99\n{AUTO}",
        "cluster.toml:1: train.tuning.budget: found 0.1: a probe has 10 iterations, but 0.1 "
        "of the run's 99 iterations are 9: "
        "raise train.tuning.budget or train.max_iter",
    ),
    "a probe as long as the run": (
        f"{AUTO}[train.tuning]\nprobe_iterations = 300\n",
        "cluster.toml:5: train.tuning.probe_iterations: found 300: a probe has 300 "
        "iterations, but 0.1 of the run's 300 "
        "iterations are 30: raise train.tuning.budget or train.max_iter",
    ),
    "a budget that is not a share": (
        f"{AUTO}[train.tuning]\nbudget = 2.0\n",
        "cluster.toml:5: train.tuning.budget: found 2.0 (float), expected a number > 0 and <= 0.5",
    ),
    "a grid of a given setting": (
        f"{AUTO}[train.tuning]\nmomenta = [0.5]\n",
        "cluster.toml:5: train.tuning.momenta: found [0.5], but momentum is not 'auto'",
    ),
    "a budget for nothing": (
        "[train.tuning]\nbudget = 0.2\n",
        (
            "cluster.toml:2: train.tuning.budget: found 0.2, but nothing is 'auto', so nothing "
            "is tuned"
        ),
    ),
    "more groups than workers at a start": (
        f"{AUTO}[train.tuning]\nstart = 'eight.json'\n",
        (
            "cluster.toml:5: train.tuning.start: eight.json has 8 groups, expected at most 4, "
            "the number of workers"
        ),
    ),
    "more workers than rows": (
        "[train]\nbatch = 3\n" + AUTO,
        "cluster.toml:4: train.strategy.workers: found 4: ",
    ),
    "a network without a rate": (
        f"[simulation]\nclock = 'virtual'\nbytes_per_second = 0\n{AUTO}",
        (
            "cluster.toml:3: simulation.bytes_per_second: found 0 (integer), expected a size in "
            "bytes >= 1"
        ),
    ),
    "a learning rate of nothing": (
        f"[train]\nbase_lr = 0.0\n{AUTO}",
        "cluster.toml:2: train.base_lr: found 0.0 (float), expected a finite number > 0, or 'auto'",
    ),
    "a closed loop of nothing": (
        f"{AUTO}[train.tuning]\nmomentum_by = 'closed-loop'\n",
        "cluster.toml:5: train.tuning.momentum_by: found 'closed-loop', but momentum is not 'auto'",
    ),
    "a closed loop without a measurement": (
        (
            "[train]\nmomentum = 'auto'\ntuning = {momentum_by = 'closed-loop'}\nstrategy = "
            "{preset = 'replicas'}\n"
        ),
        "cluster.toml:3: train.tuning.momentum_by: found 'closed-loop', but no actor of "
        "preset 'replicas' measures the "
        "momentum that asynchrony adds",
    ),
    "a closed loop of another solver": (
        (
            "[train]\nmomentum = 'auto'\ntuning = {momentum_by = 'closed-loop'}\nsolver = "
            "'adam.prototxt'\nnet = 'lenet'\n"
        ),
        "cluster.toml:3: train.tuning.momentum_by: found 'closed-loop', but only the "
        "momentum of SGD, Nesterov, SGDW, NesterovW adds up with that of asynchrony: this solver "
        "is Adam",
    ),
    "a closed loop with a grid": (
        "[train]\nmomentum = 'auto'\ntuning = {momentum_by = 'closed-loop', momenta = [0.5]}\n",
        "cluster.toml:3: train.tuning.momenta: found [0.5], but there are no probes: only "
        "momentum is 'auto', and it follows measurements",
    ),
    "a closed loop and a batch": (
        "[train]\nmomentum = 'auto'\nbatch = 'auto'\ntuning = {momentum_by = 'closed-loop'}\n"
        "strategy = {workers = 2}\n",
        "cluster.toml:4: train.tuning.momentum_by: found 'closed-loop', but its only search "
        "comes before the noise of gradients is known, and train.batch is 'auto'",
    ),
    "a closed loop with epochs": (
        (
            f"[train]\nmomentum = 'auto'\ntuning = {{momentum_by = 'closed-loop', "
            f"epoch_iterations = 50}}\n{AUTO}"
        ),
        "cluster.toml:3: train.tuning.epoch_iterations: found 50, but with momentum_by = "
        "'closed-loop' there is only one search",
    ),
    "a start that is not there": (
        f"{AUTO}[train.tuning]\nstart = 'none.json'\n",
        (
            "cluster.toml:5: train.tuning.start: {folder}/none.json: found no such file; "
            "expected the record of a run "
        ),
    ),
}
FILES = {
    "adam.prototxt": (
        'type: "Adam" net: "lenet" base_lr: 0.01 momentum: 0.9 max_iter: 1000 lr_policy: "fixed"'
    ),
    "s.prototxt": 'type: "AdaGrad" net: "lenet" base_lr: 0.01 max_iter: 1000 lr_policy: "fixed"',
    "eight.json": (
        '{"choice": {"groups": 8, "momentum": 0, "base_lr": 1}, '
        '"saturated_groups": 8, "next_groups": 8}'
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_key_that_cannot_be_chosen_is_refused_with_the_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    text, expected = BROKEN[name]
    (tmp_path / "cluster.toml").write_text(text)
    for file, content in FILES.items():
        (tmp_path / file).write_text(content)
    assert main(["check", str(tmp_path / "cluster.toml")]) == 2
    said = capsys.readouterr().err.splitlines()
    assert (
        said[0]
        .replace(f"{tmp_path}/cluster", "cluster")
        .startswith(expected.replace("{folder}", str(tmp_path)))
    )
    assert len(said) == 1


def test_a_budget_too_small_for_a_search_gives_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "cluster.toml").write_text(f"[train]\nmomentum = 'auto'\nbase_lr = 'auto'\n{AUTO}")
    assert main(["check", str(tmp_path / "cluster.toml")]) == 0
    warned = capsys.readouterr().err
    assert (
        "train.tuning.budget: it pays for 30 iterations of probes, and a whole search has "
        "about 20 probes"
    ) in warned
    assert "it will end early, with the best setting so far" in warned


def planned(preset: str, strategy: dict[str, Any], **train: Any) -> Topology:
    data = {"train": {"format": "digits", "split": "train"}}
    return training(
        {"kernels": "numpy", "data": data, "strategy": {"preset": preset, **strategy}, **train}
    )


@pytest.mark.parametrize("preset", PRESETS)
def test_groups_can_be_chosen_with_presets_that_have_them_and_rates_with_all(preset: str) -> None:
    workers = {} if preset == "single" else {"workers": 4}
    made = planned(preset, workers, momentum="auto", base_lr="auto", max_iter=5000)
    tuner = next(actor for actor in made.actors if actor.role == "tuner")
    assert tuner.options.choices.groups == ()
    if "groups" in PRESETS[preset].uses:
        made = planned(preset, {**workers, "groups": "auto"}, max_iter=5000)
        tuner = next(actor for actor in made.actors if actor.role == "tuner")
        assert (tuner.options.choices.groups, tuner.options.choices.momenta) == ((1, 2, 4), ())
    else:
        with pytest.raises(
            ConfigError, match=(f"found 'auto', but preset '{preset}' makes its groups itself")
        ):
            planned(preset, {**workers, "groups": "auto"}, max_iter=5000)


def test_without_auto_there_is_no_tuner() -> None:
    assert "tuner" not in {actor.role for actor in planned("omnivore", {"workers": 4}).actors}


def test_the_numbers_of_groups_are_doubled_up_to_all_workers_apart() -> None:
    assert [counts_up_to(workers) for workers in (1, 2, 3, 8, 12)] == [
        (1,), (1, 2), (1, 2, 3), (1, 2, 4, 8), (1, 2, 4, 8, 12),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("rule", "where"), [("", "coordinator"), ("[[process]]\nname='t'\nactors=['tuner']\n", "t")]
)
def test_the_tuner_lives_with_the_coordinator_unless_it_is_placed(
    tmp_path: Path, rule: str, where: str
) -> None:
    cluster = tuned(tmp_path, "omnivore", "groups")
    cluster.write_text(rule + cluster.read_text())
    loaded = load_with_program(cluster)
    home = place(loaded.program.plan(loaded.config, loaded.options), loaded.config).process_of()
    assert (home["tuner"], home["coordinator"]) == (where, "coordinator")


# -- runs on virtual time, with real gradients


def test_a_run_chooses_its_groups_and_trains_with_them(tmp_path: Path) -> None:
    run = train(
        tuned(tmp_path, "omnivore", "groups", iterations=100, budget=0.5), service_time=service_time
    )
    probes = run.journal.of("probe")
    # the most groups come first: the run may be short, and their probe is the cheapest
    assert [fields["groups"] for fields in probes][:2] == [4, 1]
    chosen = choice_of(run)
    assert chosen["iteration"] == sum(
        fields["iterations"] for fields in probes if fields.get("kept")
    )
    record = json.loads((tmp_path / "tuning.json").read_text())
    assert record["choice"]["groups"] == chosen["groups"]
    assert record["why"] == chosen["why"] != ""
    staleness = [fields["staleness"] for fields in run.journal.of("progress")][10:]
    assert sum(staleness) / len(staleness) == pytest.approx(chosen["groups"] - 1, abs=0.3)
    assert run.journal.of("finished")[0]["iterations"] == 100


def test_settings_that_are_not_auto_stay_and_probes_leave_no_trace(tmp_path: Path) -> None:
    """After so few iterations, all momenta except the solver's are far worse. Therefore the run
    equals a run without a tuner."""
    cluster = tuned(
        tmp_path / "a", "sync", "momentum", workers=2, iterations=40, momenta=[0.0, 0.9], budget=0.5
    )
    run = train(cluster, service_time=service_time)
    assert {fields["groups"] for fields in run.journal.of("probe")} == {1}
    assert {fields["base_lr"] for fields in run.journal.of("probe")} == {0.01}
    assert choice_of(run)["momentum"] == 0.9
    cluster = configure(tmp_path / "b", "sync", workers=2, iterations=40)
    plain = train(cluster, service_time=service_time)
    assert run.losses() == plain.losses()
    for name, expected in plain.arrays.items():
        assert run.arrays[name].tobytes() == expected.tobytes(), name


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["local-fc-shards", "singa", "replicas", "sparknet"])
def test_presets_of_every_kind_are_tuned_to_their_end(tmp_path: Path, preset: str) -> None:
    auto = ("groups",) * ("groups" in PRESETS[preset].uses) + ("momentum", "base_lr")
    cluster = tuned(
        tmp_path,
        preset,
        *auto,
        workers=2,
        iterations=60,
        budget=0.5,
        momenta=[0.3, 0.9],
        rates=[1.0],
    )
    run = train(cluster, service_time=lambda actor, label: 0.01)
    assert run.journal.of("finished")[0]["iterations"] == 60
    assert choice_of(run)["why"]
    assert run.journal.of("probe")


@pytest.mark.slow
def test_a_learning_rate_that_is_far_too_high_is_mended(tmp_path: Path) -> None:
    cluster = tuned(tmp_path, "single", "base_lr", iterations=150, budget=0.5, probe_iterations=10)
    solver = tmp_path / "solver.prototxt"
    solver.write_text(solver.read_text().replace("base_lr: 0.01", "base_lr: 10"))
    run = train(cluster, service_time=lambda actor, label: 0.01)
    assert any(fields["loss"] == "diverged" for fields in run.journal.of("probe"))
    assert choice_of(run)["base_lr"] < 1
    assert run.losses()[-1] < 0.5


# -- in real processes


def test_the_example_plans_and_lists_the_choices(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["check", str(EXAMPLE)]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.slow
def test_the_example_tunes_itself_and_learns(tmp_path: Path) -> None:
    (tmp_path / "cluster.toml").write_text(EXAMPLE.read_text("utf-8"))
    done = run_up(
        tmp_path / "cluster.toml", "--set", "train.max_iter=300", "--set", "train.tuning.budget=0.5"
    )
    assert (done.returncode, done.stderr) == (0, "")
    directory = run_directory(tmp_path / "cluster.toml")
    assert events(directory, "finished")[0]["accuracy"] > 0.95
    tried = {fields["groups"] for fields in events(directory, "probe")}
    # how many other numbers of groups the budget pays for depends on the load of the machine
    assert 1 in tried
    assert tried <= {1, 2, 4}


@pytest.mark.slow
def test_groups_auto_and_nothing_else_changed_trains_the_digits(tmp_path: Path) -> None:
    data = (
        '[train.data]\ntrain = {format = "digits", split = "train"}\ntest = {format = '
        '"digits", split = "test"}\n'
    )
    (tmp_path / "cluster.toml").write_text(data + AUTO)
    done = run_up(tmp_path / "cluster.toml")
    assert (done.returncode, done.stderr) == (0, "")
    directory = run_directory(tmp_path / "cluster.toml")
    (end,) = events(directory, "finished")
    (chosen,) = (
        line
        for line in done.stdout.splitlines()
        if re.match(r"tuning +iteration \d+  groups ", line)
    )
    assert "  why " in chosen
    choice = json.loads((directory / "tuning.json").read_text())["choice"]
    # several groups have less momentum, so the model is a few iterations behind at the end, also if
    # only probes that were kept had them
    kept = (probe for probe in events(directory, "probe") if probe.get("kept"))
    trained = {choice["groups"], *(probe["groups"] for probe in kept)}
    assert end["accuracy"] >= (0.975 if trained == {1} else 0.97)
    # the solver's momentum is 0.9, and it follows the groups
    assert choice["momentum"] == pytest.approx(compensated(0.9, choice["groups"] - 1))


@pytest.mark.slow
def test_an_interrupt_during_a_probe_ends_the_run_well(tmp_path: Path) -> None:
    cluster = tuned(
        tmp_path, "omnivore", "groups", "momentum", iterations=10_000, probe_iterations=100
    )
    command = runtime_command("up", cluster.name)
    with subprocess.Popen(
        command,
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        while not process.stdout.readline().startswith("probe"):
            pass
        process.send_signal(signal.SIGINT)
        assert "Traceback" not in process.stdout.read()
        assert (process.wait(60), process.stderr.read()) == (130, "")
    directory = run_directory(cluster)
    assert len(events(directory, "probe")) <= 3
    assert [path.name for path in directory.glob("tuning*")] == []
