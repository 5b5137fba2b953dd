"""`plan --presets`: a row for every preset that could run the same cluster.toml, and the reasons
why the others cannot."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from roles import registry
from roles.forecasting.plan_forecast import forecast
from runtime.plan.prospects import Prospects, Wanted
from runtime.runs.checking import check
from tests.helpers.learnt_runs import found, told
from tests.helpers.support import configure


def rows(found_names: list[str]) -> set[str]:
    return {name.partition(",")[0] for name in found_names}


@pytest.fixture(scope="module")
def every(tmp_path_factory: pytest.TempPathFactory) -> Prospects:
    cluster = configure(tmp_path_factory.mktemp("presets"), "omnivore", workers=2, groups=2)
    return found(cluster, Wanted(machine="c4.4xlarge", presets=True))


def test_every_preset_has_a_row_for_each_number_of_groups_that_may_be_chosen(
    every: Prospects,
) -> None:
    assert every.refused == ()
    names = [choice.name for choice in every.choices]
    assert rows(names) == set(registry.PRESETS.names())
    assert {name for name in names if name.startswith("singa")} == {
        "singa, 1 group of 2",
        "singa, 2 groups of 1",
    }
    assert [choice.seconds for choice in every.choices] == sorted(
        choice.seconds for choice in every.choices
    )


def test_a_row_has_the_figures_of_a_plan_of_that_preset(every: Prospects, tmp_path: Path) -> None:
    assert every.of_chosen.name == "omnivore, 2 groups of 1"
    row = next(choice for choice in every.choices if choice.name.startswith("mxnet-async"))
    other = configure(tmp_path / "other", "mxnet-async", workers=2)
    alone = found(other, Wanted(machine="c4.4xlarge")).of_chosen
    assert (row.seconds, row.bottleneck) == (pytest.approx(alone.seconds), alone.bottleneck)
    # the model server is on the machine of the first worker
    held = forecast(check(other).placement.topology).memory
    assert row.memory == sum(held["model-0"].values()) + sum(held["conv-0-0"].values())


@pytest.mark.slow
def test_presets_that_cannot_run_it_are_listed_in_a_line_for_each_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = '[[process]]\nname = "first"\nactors = ["conv-0-*"]\n'
    cluster = configure(tmp_path, "omnivore", workers=2, more=more)
    shown, refused = told(capsys, cluster, "--machine", "c4.4xlarge", "--presets").split(
        "not predicted:\n"
    )
    lines = [line.strip() for line in refused.partition("\n\n")[0].splitlines()]
    assert re.match(r"single, 1 group of 1: .*cluster\.toml:\d+: .*conv-0-\*", lines[0])
    names = [name for line in lines for name in line.partition(": ")[0].split("; ")]
    assert rows(names) == {
        name for name in registry.PRESETS.names() if f"   {name}, " not in shown
    } - {"omnivore"}


@pytest.mark.slow
def test_a_profile_gives_times_for_the_presets_whose_work_it_has(tmp_path: Path) -> None:
    cluster = configure(tmp_path, "omnivore", workers=2)
    table = {
        "conv_compute/*": {"mean": 0.01, "rows": 32},
        "fc_server/*": {"mean": 0.01, "rows": 64},
    }
    (tmp_path / "t.json").write_text(json.dumps(table))
    every = found(cluster, Wanted(profile=tmp_path / "t.json", presets=True))
    assert {"omnivore", "sync", "async", "mxnet-async"} <= rows(
        [choice.name for choice in every.choices]
    )
    refused = dict.fromkeys(line.partition(",")[0] for line in every.refused)
    assert {"single", "replicas", "sparknet"} <= refused.keys()
    assert all("no entry fits" in line for line in every.refused)


def test_presets_without_times_and_a_chart_of_presets_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    cluster = configure(tmp_path, "omnivore", workers=2)
    line = "--presets: there are no predictions: give --profile FILE or --machine NAME\n"
    assert told(capsys, cluster, "--presets", code=2) == line
    words = ("--machine", "c4.4xlarge", "--presets", "--chart", "c.svg")
    line = (
        "--chart c.svg: has no effect with --presets: it is drawn over the groups of one preset\n"
    )
    assert told(capsys, cluster, *words, code=2) == line


def test_if_the_run_chooses_its_groups_all_numbers_are_shown_with_the_first_settings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = configure(tmp_path, "omnivore", workers=4, iterations=1000)
    # this key has an effect on a tuner only
    cluster.write_text(cluster.read_text() + "[train.tuning]\nmomenta = [0.3, 0.6]\n")
    words = (
        "--set",
        "train.strategy.groups=auto",
        "--set",
        "train.momentum=auto",
        "--machine",
        "c4.4xlarge",
    )
    words = (*words, "--set", "train.batch=auto")
    out = told(capsys, cluster, *words)
    assert [
        line.partition(" of ")[0]
        for line in out.splitlines()
        if " of " in line and line[3:4].isdigit()
    ] == [
        "*  1 group",
        "   2 groups",
        "   4 groups",
    ]
    assert (
        "the run starts with the settings of this plan, and train.strategy.groups and train.batch are 'auto'"
    ) in out
