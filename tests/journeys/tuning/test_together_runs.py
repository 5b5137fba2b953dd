"""Runs with preset = "auto" and groups = "auto": from the trials to the tuner, and resumed."""

from __future__ import annotations

from pathlib import Path

import pytest

from roles.options import AUTO
from runtime.cli.main import main
from runtime.recovery import up_runs
from runtime.report.console import RunConsole
from runtime.runs.checking import Checked, Resume, check
from tests.helpers.support import events, run_directory
from tests.journeys.tuning.test_auto_runs import said
from tests.roles.test_auto_together import FAST, PRODUCTS, cluster

SMALL = (
    'net = "lenet"\nsolver = "solver.prototxt"\nmomentum = "auto"\nbase_lr = "auto"\nbatch = 16\n'
)
ITERATIONS = 300
SOLVER = """base_lr: 0.003
momentum: 0.9
lr_policy: "fixed"
max_iter: 300
display: 50
"""


def run(checked: Checked) -> Path:
    """Run `up` in this process, on virtual time. Returns the run directory."""
    assert up_runs.run(checked, RunConsole(live=False)).code == 0
    return max((Path.cwd() / "runs").iterdir())


def strategy_of(checked: Checked) -> tuple[str, object]:
    """The preset and the groups of the run that would start."""
    strategy = checked.loaded.options.train.strategy  # type: ignore[union-attr]
    return strategy.preset, strategy.groups


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a run that has chosen its preset, and then its groups."""
    folder = tmp_path_factory.mktemp("together")
    (folder / "solver.prototxt").write_text(SOLVER)
    path = cluster(folder, train=SMALL)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        return run(check(path, [f"train.max_iter={ITERATIONS}"])).resolve()


@pytest.mark.slow  # two trials and a run with a tuner
def test_the_run_begins_with_the_tuner_of_the_preset_that_was_fastest_in_its_trial(
    tuned: Path,
) -> None:
    trials, [choice] = said(tuned, "trial"), said(tuned, "choice")
    assert (trials[0]["preset"], trials[0]["groups"]) == ("omnivore", 4)
    fastest = min(trials, key=lambda trial: float(trial["measured_seconds"]))
    assert choice["preset"] == fastest["preset"]
    assert (choice["preset"], choice["groups"]) == ("omnivore", AUTO)
    chosen = next(told for told in said(tuned, "tuning") if "groups" in told)
    assert chosen["groups"] == 4
    text = (tuned / "config.toml").read_text()
    assert 'preset = "omnivore"' in text
    assert 'groups = "auto"' in text
    assert events(tuned, "finished")[0]["iterations"] == ITERATIONS


@pytest.mark.slow  # after the same run
def test_a_resumed_run_has_the_preset_and_begins_with_the_groups_that_the_run_chose(
    tuned: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tuned.parents[1] / "cluster.toml"
    monkeypatch.chdir(path.parent)
    longer = [f"train.max_iter={2 * ITERATIONS}"]
    checked = check(path, longer, Resume())
    assert checked.choice is not None
    why = checked.choice.expected.why[1]["why"]
    assert why.startswith(
        f"the preset of {tuned.name}, whose checkpoint is resumed; the run begins"
    )
    assert strategy_of(checked) == ("omnivore", AUTO)
    after = run(checked)
    assert said(after, "trial") == []
    first = next(told for told in said(after, "tuning") if "groups" in told)
    assert first["why"].startswith("the choice of tuning.json")


def test_check_and_plan_show_the_groups_of_each_candidate(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = cluster(tmp_path)
    for command in ("check", "plan"):
        assert main([command, str(path)]) == 0
        lines = capsys.readouterr().out.splitlines()
        [choice] = [line for line in lines if line.startswith("choice ")]
        assert choice.startswith(
            "choice     preset omnivore  workers 4  groups auto  why predicted"
        )
        [omnivore] = [line for line in lines if line.startswith("candidate  preset omnivore")]
        assert "  groups 4  predicted s " in omnivore
        assert "  by_groups 1: " in omnivore


def test_a_run_with_such_a_configuration_resumes_with_the_preset_it_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = cluster(tmp_path, times=PRODUCTS, network=FAST, train="batch = 16\n")
    before = run(check(path, ["train.strategy.preset=mxnet-sync", "train.strategy.groups=1",
                              "train.max_iter=2"]))  # fmt: skip
    checked = check(path, [], Resume())
    assert checked.choice is not None
    assert checked.resumed[-1].endswith("iteration 2, of a run with preset 'mxnet-sync'")
    why = checked.choice.expected.why[1]["why"]
    assert why == (
        f"the preset of {before.name}, whose checkpoint is resumed; 'mxnet-sync' cannot regroup, "
        "so groups = 'auto' is 1"
    )
    assert strategy_of(checked) == ("mxnet-sync", 1)
    assert run_directory(path).resolve() == before.resolve()  # nothing was started
