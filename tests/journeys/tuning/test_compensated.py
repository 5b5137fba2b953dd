"""The solver's momentum is lowered in presets with asynchronous groups, and it follows their number.

No test knows the rule: all compare with `compensated`.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import roles
from nets.files import checkpoint
from roles import Options
from roles.commands.rescaling import scaled
from roles.commands.resuming import resumed
from roles.coordination.run_settings import BECAME
from roles.options import AUTO
from roles.planning.planner import plan
from roles.planning.strategies import PRESETS
from roles.tuning.compensation import Compensation
from roles.tuning.momentum import can_compensate, compensated
from runtime.cli.main import main
from runtime.config.file import load_with_program
from runtime.page.run_history import read
from runtime.plan.placement import place
from runtime.plan.program import made_of
from runtime.plan.topology import Topology
from runtime.simulation.clock import run_virtual
from runtime.simulation.cluster import Simulation
from tests.helpers.support import configure, events, run_directory, run_up
from tests.journeys.tuning.test_regroup import LIVE, meddled

SUITED = 0.9  # the momentum of the tests' solver
HIGH = 0.97  # too high with two groups and more, by any rule
OURS = ("omnivore", "singa", "adam", "local-fc-shards")
OTHERS = ("async", "mxnet-async", "distbelief")


def right(groups: int) -> Any:
    return pytest.approx(compensated(SUITED, groups - 1), abs=1e-5)


def planned(cluster: Path, *settings: str, tell: bool = False) -> Topology:
    loaded = load_with_program(cluster, [f"train.{setting}" for setting in settings])
    assert isinstance(loaded.options, Options)
    return plan(loaded.config, loaded.options, tell=tell)


def momenta(topology: Topology) -> set[float]:
    """The momentum of every actor's solver."""
    jobs = [getattr(actor.options, "job", None) for actor in topology.actors]
    return {job.solver_spec.momentum for job in jobs if job is not None}


def momentum_of(topology: Topology) -> float:
    (momentum,) = momenta(topology)
    return momentum


def with_high_momentum(cluster: Path) -> Path:
    """The same cluster.toml, with HIGH as the momentum of its solver."""
    solver = cluster.parent / "solver.prototxt"
    solver.write_text(solver.read_text().replace("momentum: 0.9", f"momentum: {HIGH}"))
    return cluster


def test_the_presets_that_compensate_are_those_that_the_page_lists() -> None:
    assert tuple(name for name, preset in PRESETS.items() if preset.compensates) == OURS


@pytest.mark.parametrize("preset", OURS)
def test_every_actor_has_the_lowered_momentum_and_one_line_says_so(
    tmp_path: Path, preset: str, caplog: pytest.LogCaptureFixture
) -> None:
    topology = planned(configure(tmp_path, preset, workers=4, groups=4), tell=True)
    assert momentum_of(topology) == right(4)
    (line,) = roles.decided(topology)
    assert line == (
        f"{preset} with 4 groups: momentum {compensated(SUITED, 3):.3g} in place of the solver's "
        "0.9, since gradients that are 3 updates late act like momentum; train.momentum = 'solver' "
        "keeps 0.9"
    )
    assert caplog.text == ""  # the total is right, so there is nothing to warn of


@pytest.mark.parametrize("preset", OTHERS)
def test_presets_that_stand_for_other_systems_keep_the_momentum_and_warn(
    tmp_path: Path, preset: str, caplog: pytest.LogCaptureFixture
) -> None:
    topology = planned(with_high_momentum(configure(tmp_path, preset, workers=4)), tell=True)
    assert momentum_of(topology) == pytest.approx(HIGH)
    assert roles.decided(topology) == ()
    assert f"preset '{preset}' with momentum {HIGH} and 4 groups" in caplog.text
    assert f"momentum {compensated(HIGH, 3):.3g} keeps the total at {HIGH}" in caplog.text


@pytest.mark.parametrize(
    ("setting", "momentum"),
    [("momentum=0.1", 0.1), (f"momentum={HIGH}", HIGH), ("momentum='solver'", HIGH)],
)
def test_a_momentum_that_the_user_sets_stays(
    tmp_path: Path, setting: str, momentum: float, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = with_high_momentum(configure(tmp_path, "omnivore", workers=4, groups=4))
    topology = planned(cluster, setting, tell=True)
    assert momentum_of(topology) == pytest.approx(momentum)
    assert roles.decided(topology) == ()
    key = "solver" if "solver" in setting else "momentum"
    warning = f"train.{key}: preset 'omnivore' with momentum {HIGH}"
    assert (warning in caplog.text) == (momentum == HIGH)


def test_a_lowered_momentum_is_not_warned_of_however_high_the_solvers_is(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = with_high_momentum(configure(tmp_path, "omnivore", workers=2, groups=2))
    assert len(roles.decided(planned(cluster, tell=True))) == 1
    assert caplog.text == ""


@pytest.mark.parametrize("preset", ["single", "replicas", "omnivore", "mxnet-async"])
def test_the_word_solver_means_the_solvers_momentum_in_every_preset(
    tmp_path: Path, preset: str
) -> None:
    cluster = configure(tmp_path, preset, workers=2)
    assert momentum_of(planned(cluster, "momentum='solver'")) == pytest.approx(SUITED)


def test_the_options_of_a_script_count_as_said_by_the_user() -> None:
    strategy = {"preset": "omnivore", "workers": 4, "groups": 4}
    assert momentum_of(roles.training({"strategy": strategy})) == right(4)
    assert momentum_of(roles.training({"strategy": strategy, "momentum": 0.9})) == pytest.approx(
        0.9
    )


@pytest.mark.parametrize(
    ("preset", "more", "lowered"),
    [
        ("omnivore", (), True),
        # the loop begins from the solver's, and lowers it by the same rule before it measures
        ("omnivore", ("tuning.momentum_by='closed-loop'",), False),
        ("async", (), False),
    ],
)
def test_a_tuner_that_probes_momenta_starts_from_the_one_that_its_groups_would_have_without_it(
    tmp_path: Path, preset: str, more: tuple[str, ...], lowered: bool
) -> None:
    groups = {} if preset == "async" else {"groups": 4}
    cluster = configure(tmp_path, preset, workers=4, iterations=5000, **groups)
    topology = planned(cluster, f"momentum='{AUTO}'", *more)
    assert momentum_of(topology) == (right(4) if lowered else pytest.approx(SUITED))
    assert roles.decided(topology) == ()


def test_only_a_momentum_that_adds_up_with_that_of_asynchrony_is_lowered(tmp_path: Path) -> None:
    cluster = configure(tmp_path, "omnivore", workers=4, groups=4)
    solver = tmp_path / "solver.prototxt"
    plain = solver.read_text()
    for line, momentum in (
        ('type: "Nesterov"', right(4)),
        ('type: "Adam" momentum2: 0.99', pytest.approx(SUITED)),
        ('type: "AdaDelta" delta: 1e-6', pytest.approx(SUITED)),
    ):
        solver.write_text(plain + line)
        assert momentum_of(planned(cluster)) == momentum, line
    solver.write_text(plain.replace("momentum: 0.9", ""))
    topology = planned(cluster)
    assert momenta(topology) == {0.0}
    assert roles.decided(topology) == ()


@pytest.mark.parametrize("preset", OURS)
def test_one_group_is_planned_as_if_there_were_no_such_rule(tmp_path: Path, preset: str) -> None:
    cluster = configure(tmp_path, preset, workers=2)
    topology = planned(cluster)
    assert topology == planned(cluster, "momentum='solver'")
    assert roles.decided(topology) == ()


def test_a_pipeline_makes_more_groups(tmp_path: Path) -> None:
    cluster = configure(tmp_path, "omnivore", workers=2, groups=2)
    topology = planned(cluster, "strategy.pipeline=2")
    assert momentum_of(topology) == right(4)
    assert "omnivore with 4 groups" in roles.decided(topology)[0]


def test_where_even_momentum_0_is_too_much_the_line_names_the_most_groups() -> None:
    compensation = Compensation(0.5, "omnivore")
    most = max(groups for groups in range(1, 64) if can_compensate(0.5, groups - 1))
    assert "too much" not in compensation.told(most)
    line = compensation.told(most + 1)
    assert "omnivore with " in line
    assert f"even 0 is too much, and the most groups for 0.5 are {most}; " in line
    assert compensation.momentum(most + 1) == 0.0
    assert compensation.told(1) == ""


@pytest.mark.parametrize("command", ["check", "plan"])
def test_commands_show_the_line(
    tmp_path: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = configure(tmp_path, "omnivore", workers=2, groups=2)
    assert main([command, str(cluster)]) == 0
    assert "omnivore with 2 groups: momentum" in capsys.readouterr().out


def test_a_value_that_is_neither_a_number_nor_a_word_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = configure(tmp_path, "omnivore", workers=2, groups=2)
    assert main(["check", str(cluster), "--set", "train.momentum='solvers'"]) != 0
    assert "expected a number >= 0 and < 1, 'auto' or 'solver'" in capsys.readouterr().err


# -- while a run goes on


def changes(directory: Path, wishes: list[dict[str, Any]], *settings: str) -> list[Any]:
    """(groups, momentum) after each of the wishes of a live run that begins with 4 groups."""
    cluster = configure(directory, "omnivore", workers=4, groups=4, iterations=40)
    journal = meddled(cluster, wishes, [*LIVE, *settings])
    assert len(journal.of("granted")) == len(wishes)
    return [(fields["groups"], fields["momentum"]) for fields in journal.of("regrouped")]


def test_the_momentum_follows_the_number_of_groups_back_to_the_solvers(tmp_path: Path) -> None:
    made = changes(tmp_path, [{"groups": 2}, {"workers": 3, "groups": 3}, {"groups": 1}])
    assert made == [(2, right(2)), (3, right(3)), (1, pytest.approx(SUITED))]


def test_a_request_that_names_a_momentum_ends_that(tmp_path: Path) -> None:
    by_rule = compensated(SUITED, 3)
    wishes = [{"groups": 2, "momentum": by_rule}, {"base_lr": 0.02}, {"groups": 1}]
    named = pytest.approx(by_rule, abs=1e-5)
    assert changes(tmp_path, wishes) == [(2, named), (2, named), (1, named)]


def test_a_momentum_of_cluster_toml_stays_when_the_groups_change(tmp_path: Path) -> None:
    made = changes(tmp_path, [{"groups": 2}, {"groups": 1}], "train.momentum=0.7")
    assert made == [(2, pytest.approx(0.7)), (1, pytest.approx(0.7))]


def test_a_live_run_of_one_group_lowers_its_momentum_when_it_gets_more(tmp_path: Path) -> None:
    cluster = configure(tmp_path, "omnivore", workers=4, iterations=20)
    journal = meddled(cluster, [{"groups": 4}], LIVE)
    assert journal.of("compensated") == []
    assert journal.of("regrouped")[0]["momentum"] == right(4)


def test_the_journal_says_how_the_run_began(tmp_path: Path) -> None:
    cluster = configure(tmp_path, "omnivore", workers=4, groups=4, iterations=4)
    (began,) = meddled(cluster, [], []).of("compensated")
    assert began == {
        "iteration": 0,
        "groups": 4,
        "momentum": right(4),
        "solver_momentum": pytest.approx(SUITED),
    }


def test_the_coordinators_page_of_metrics_has_the_momentum_in_use(tmp_path: Path) -> None:
    cluster = configure(tmp_path, "omnivore", workers=4, groups=4, iterations=6)
    topology = planned(cluster)
    placement = place(topology, load_with_program(cluster).config)
    pages: list[str] = []

    async def run() -> None:
        def watch(actor: str, event: str, fields: dict[str, Any]) -> None:
            if event == "finished":
                pages.extend(node.metrics.text() for node, _ in simulation.nodes.values())

        simulation = Simulation(placement, directory=tmp_path, watch=watch)
        await simulation.run(lambda spec: made_of(roles.ROLES, spec))

    run_virtual(run())
    (line,) = {
        line
        for page in pages
        for line in page.splitlines()
        if line.startswith("convoy_momentum_ratio")
    }
    assert float(line.split()[-1]) == right(4)


def test_the_report_lists_how_the_momentum_was_chosen(run: Path) -> None:
    story = read(run_directory(run), lives=False)
    (decision,) = story.decisions
    assert (decision["event"], decision["momentum"]) == ("compensated", right(2))


# -- runs that follow one another


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The cluster.toml of a run of 2 groups that has ended."""
    cluster = configure(
        tmp_path_factory.mktemp("run"), "omnivore", workers=2, groups=2, iterations=4
    )
    done = run_up(cluster)
    assert done.returncode == 0, done.stderr
    assert "omnivore with 2 groups: momentum" in done.stdout
    return cluster


def going_on(cluster: Path, *settings: str) -> tuple[float, list[str]]:
    """The momentum of a run that resumes the newest run, and the lines about it."""
    where = f"run.directory={cluster.parent / 'runs'}"
    loaded = load_with_program(cluster, ["train.max_iter=9", where, *settings])
    assert isinstance(loaded.options, Options)
    options, told = resumed(loaded.config, loaded.options, None)
    momentum = momentum_of(plan(loaded.config, options, tell=False))
    return momentum, [line for line in told if line.startswith("momentum")]


def of_an_older_version(cluster: Path, to: Path) -> Path:
    """The same run as an older version left it: its checkpoint says nothing about momentum."""
    moved = configure(to, "omnivore", workers=2, groups=2, iterations=4)
    shutil.copytree(cluster.parent / "runs", to / "runs")
    (file,) = (to / "runs").glob("*/checkpoint-*.safetensors")
    arrays, facts = checkpoint.load(file)
    checkpoint.save(file, arrays, {key: facts[key] for key in facts if key != BECAME})
    return moved


def test_a_resumed_run_has_the_momentum_that_it_had(run: Path) -> None:
    assert going_on(run) == (right(2), [])


def test_a_run_of_an_older_version_is_resumed_with_the_momentum_that_it_had(
    run: Path, tmp_path: Path
) -> None:
    cluster = of_an_older_version(run, tmp_path)
    momentum, (line,) = going_on(cluster)
    assert momentum == pytest.approx(SUITED)
    lower = f"{compensated(SUITED, 1):.3g}"
    assert line.startswith("momentum   stays the solver's 0.9, as in ")
    assert line.endswith(f"; train.momentum = {lower} lowers it")
    assert going_on(cluster, f"train.momentum={lower}") == (pytest.approx(float(lower)), [])


def test_the_run_after_that_has_it_too(run: Path, tmp_path: Path) -> None:
    cluster = of_an_older_version(run, tmp_path)
    done = run_up(cluster, "--resume", "--set", "train.max_iter=6")
    assert done.returncode == 0, done.stderr
    assert "momentum   stays the solver's 0.9" in done.stdout
    assert events(run_directory(cluster), "compensated") == []
    momentum, lines = going_on(cluster)
    assert (momentum, len(lines)) == (pytest.approx(SUITED), 1)


def test_another_number_of_groups_is_planned_by_the_rule(run: Path, tmp_path: Path) -> None:
    cluster = of_an_older_version(run, tmp_path)
    more = ["train.strategy.workers=4", "train.strategy.groups=4"]
    assert going_on(cluster, *more) == (right(4), [])


def test_a_scaled_run_has_the_momentum_for_its_groups_unless_the_user_set_one(
    tmp_path: Path,
) -> None:
    loaded = load_with_program(configure(tmp_path, "omnivore", workers=4, groups=4), [])
    assert isinstance(loaded.options, Options)
    for momentum, expected in ((None, right(2)), (0.7, pytest.approx(0.7))):
        train = loaded.options.train.model_copy(update={"momentum": momentum})
        options = loaded.options.model_copy(update={"train": train})
        after = scaled(loaded.config, options, 4, 2)
        assert momentum_of(plan(loaded.config, after, tell=False)) == expected
