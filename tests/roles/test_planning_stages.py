"""The four stages of a plan: read, check, lay out, brief. Each returns a value that the next stage
uses and does not change. All mistakes of a stage are reported at once."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from roles.options import Options
from roles.planning.briefing import brief
from roles.planning.diagnostics import Diagnostics
from roles.planning.host_layout import lay_out
from roles.planning.job_checks import CheckedJob, check
from roles.planning.job_reading import ReadJob, read
from roles.planning.plan_inputs import PlanInputs, inputs_of
from roles.planning.planner import plan
from runtime.config.file import load_with_program
from runtime.errors import ConfigError

TRAIN = "[train]\nkernels = 'numpy'\n"


def inputs(folder: Path, more: str = "") -> tuple[PlanInputs, Diagnostics]:
    (folder / "cluster.toml").write_text(f"{TRAIN}{more}")
    loaded = load_with_program(folder / "cluster.toml")
    assert isinstance(loaded.options, Options)
    diagnostics = Diagnostics(loaded.config.raw, loaded.options.train)
    return inputs_of(loaded.config, loaded.options, None, diagnostics), diagnostics


def stages(folder: Path) -> tuple[PlanInputs, ReadJob, CheckedJob, Diagnostics]:
    said, diagnostics = inputs(folder)
    found = read(said, diagnostics)
    return said, found, check(said, found, diagnostics), diagnostics


@pytest.mark.parametrize("kind", [PlanInputs, ReadJob, CheckedJob])
def test_the_value_that_a_stage_hands_to_the_next_is_frozen(kind: type) -> None:
    assert dataclasses.is_dataclass(kind)
    assert kind.__dataclass_params__.frozen


def test_the_stages_one_after_the_other_are_the_plan(tmp_path: Path) -> None:
    said, _, checked, diagnostics = stages(tmp_path)
    topology = brief(lay_out(said, checked, diagnostics), said, checked, diagnostics)
    loaded = load_with_program(tmp_path / "cluster.toml")
    assert isinstance(loaded.options, Options)
    assert topology == plan(loaded.config, loaded.options)


def test_a_stage_can_be_repeated_since_it_does_not_change_its_input(tmp_path: Path) -> None:
    said, found, checked, diagnostics = stages(tmp_path)
    laid_out = lay_out(said, checked, diagnostics)
    first = brief(laid_out, said, checked, diagnostics)
    assert check(said, found, diagnostics).timetable == checked.timetable
    assert lay_out(said, checked, diagnostics) == laid_out
    assert brief(laid_out, said, checked, diagnostics) == first


@pytest.mark.parametrize(
    ("key", "file"),
    [("resume", "no.safetensors"), ("weights", "no.h5")],
)
def test_reading_notes_every_file_that_it_cannot_open_and_raises_nothing(
    tmp_path: Path, key: str, file: str
) -> None:
    said, diagnostics = inputs(tmp_path, f"net = 'no.prototxt'\n{key} = '{file}'\n")
    assert read(said, diagnostics).timetable is not None
    keys = [problem.partition(": ")[2].partition(": ")[0] for problem in diagnostics.problems]
    assert keys == ["train.net", f"train.{key}"]


def test_a_solver_that_cannot_be_read_leaves_no_timetable(tmp_path: Path) -> None:
    said, diagnostics = inputs(tmp_path, "solver = 'no.prototxt'\n")
    assert read(said, diagnostics).timetable is None
    assert diagnostics.problems


def test_mistakes_of_files_and_of_the_strategy_come_at_once(tmp_path: Path) -> None:
    said, diagnostics = inputs(
        tmp_path,
        "weights = 'no.h5'\n[train.strategy]\nworkers = 2\ngroups = 3\ntau = 5\n",
    )
    found = read(said, diagnostics)
    with pytest.raises(ConfigError) as caught:
        check(said, found, diagnostics)
    keys = [problem.partition(": ")[2].partition(": ")[0] for problem in caught.value.problems]
    assert keys == ["train.weights", "train.strategy.groups", "train.strategy.tau"]


def test_a_test_covers_all_images_if_no_solver_is_named(tmp_path: Path) -> None:
    of = "shape = [1, 28, 28], classes = 10"
    more = f"""[train.data]
train = {{ format = "synthetic", {of}, size = 100 }}
test = {{ format = "synthetic", {of}, size = 501 }}
"""
    said, diagnostics = inputs(tmp_path, more)
    checked = check(said, read(said, diagnostics), diagnostics)
    assert [test.rows for test in checked.timetable.tests] == [501]
