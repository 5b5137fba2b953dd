"""`train.recipe`, and today's recipe on a ResNet: the same bits in every preset that equals one
process, and over a resume."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from roles import Options
from roles.recipes import RECIPES, with_recipe
from runtime.cli.main import main
from runtime.config.file import load_with_program
from runtime.config.recorded import dump
from tests.helpers.recipe_runs import cluster_of, of_today
from tests.helpers.support import Simulated, train

pytestmark = pytest.mark.usefixtures("one_thread")

ITERATIONS = 6


def checked(cluster: Path, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, str]:
    code = main(["check", str(cluster), *(word for each in more for word in ("--set", each))])
    said = capsys.readouterr()
    return code, said.out + said.err


def flat(table: Any, above: str = "") -> dict[str, Any]:
    return {
        name: value
        for key, below in table.items()
        for name, value in (
            flat(below, f"{above}{key}.") if isinstance(below, dict) else {above + key: below}
        ).items()
    }


@pytest.mark.parametrize("name", RECIPES)
def test_check_shows_each_key_that_a_recipe_sets(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    cluster = cluster_of(tmp_path / "c", "single", more=f'recipe = "{name}"', data="")
    # smaller batches, so that the average changes before the end
    code, said = checked(cluster, capsys, "train.batch=2")
    assert code == 0, said
    # later lines name the recipe too, each with one key
    line, *_ = [line for line in said.splitlines() if f"train.recipe: '{name}' sets " in line]
    for key, value in flat(RECIPES[name]).items():
        shown = f"{value:g}" if isinstance(value, float) else json.dumps(value)
        assert f" {key} = {shown}" in line
    assert ("goes on from trained weights" in said) == (name == "finetune")


@pytest.mark.parametrize("command", ["check", "plan"])
def test_settings_of_a_recipe_are_facts_and_only_missing_weights_are_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    cluster = cluster_of(tmp_path / "c", "single", more='recipe = "finetune"', data="")
    assert main([command, str(cluster)]) == 0
    said = capsys.readouterr()
    lines = [line for line in said.out.splitlines() if "train.recipe: " in line]
    assert len(lines) == len(set(lines)) > 1
    (warned,) = [line for line in said.err.splitlines() if "train.recipe: " in line]
    assert warned.startswith("warning: ")
    assert "goes on from trained weights" in warned


def test_keys_of_the_user_count_before_those_of_a_recipe(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = cluster_of(tmp_path / "c", "single", more='recipe = "cifar"', data="")
    code, said = checked(
        cluster,
        capsys,
        "train.max_iter=7",
        "train.schedule.warmup=2",
        "train.ema.decay=0.5",
        "train.data.augment.pad=2",
        "train.optimizer.type='AdamW'",
    )
    assert code == 0, said
    line, *_ = [line for line in said.splitlines() if "'cifar' sets" in line]
    left_out = ("epochs = 30", "warmup_epochs", "ema.decay", "pad", "optimizer.", "base_lr")
    assert [key for key in left_out if key in line.replace("test_epochs", "")] == []
    assert "momentum = 0.9" in line and "augment.flip" in line


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {"ip2": 10.0}),
        ({"lr_scale": {"ip1": 0.5}}, {"ip1": 0.5, "ip2": 10.0}),
        ({"lr_scale": {"ip2": 2.0}}, {"ip2": 2.0}),
        ({"recipe": "cifar"}, {}),
        ({"fresh": "ip2"}, {}),  # a mistake of its own
    ],
)
def test_layers_that_begin_afresh_take_ten_times_the_rate_of_finetune(given, expected) -> None:
    section = {"recipe": "finetune", "fresh": ["ip2"]} | given
    assert with_recipe(section["recipe"], section)[0].get("lr_scale", {}) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("train.recipe='cfar'", "did you mean 'cifar'?"),
        ("train.recipe=3", "train.recipe: found 3 (integer), expected"),
        ("train.data=3", "train.data: found 3 (integer), expected a table"),
        ("train.ema=0.9", "train.ema: found 0.9 (float), expected a table"),
    ],
)
def test_mistakes_beside_a_recipe_are_answered_at_their_key(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], value: str, expected: str
) -> None:
    cluster = cluster_of(tmp_path / "c", "single", more='recipe = "cifar"', data="")
    code, said = checked(cluster, capsys, value)
    assert code == 2 and expected in said


def test_a_recipe_keeps_the_digits_as_the_default_of_tests(tmp_path: Path) -> None:
    (tmp_path / "cluster.toml").write_text('[train]\nrecipe = "finetune"\n')
    options = load_with_program(tmp_path / "cluster.toml").options
    assert isinstance(options, Options)
    assert options.train.data.test == {"format": "digits", "split": "test"}


def test_the_resolved_configuration_of_a_recipe_reads_back_equal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = cluster_of(tmp_path / "c", "single", more='recipe = "cifar"\nmax_iter = 9', data="")
    loaded = load_with_program(cluster)
    assert loaded.options is not None
    again = tmp_path / "c" / "again.toml"
    again.write_text(dump(loaded.config, loaded.options))
    found = load_with_program(again).options
    assert isinstance(found, Options)
    assert found.model_dump() == loaded.options.model_dump()
    assert found.train.by_recipe == {}
    assert main(["check", str(again)]) == 0
    assert "has no effect" not in capsys.readouterr().err


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory) -> Simulated:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CONVOY_THREADS", "1")
        folder = tmp_path_factory.mktemp("today") / "single"
        return train(of_today(folder, "single", iterations=ITERATIONS))


def assert_same_bits(found: Simulated, expected: Simulated) -> None:
    assert found.arrays.keys() == expected.arrays.keys()
    for name, array in expected.arrays.items():
        assert found.arrays[name].tobytes() == array.tobytes(), name


def test_todays_recipe_begins_with_the_bits_of_one_process_in_the_zoos_resnet20(
    tmp_path: Path,
) -> None:
    zoos = {"iterations": 4, "narrower": 1}
    expected = train(of_today(tmp_path / "single", "single", **zoos))
    found = train(of_today(tmp_path / "shared", "omnivore", 2, "groups = 1\n", **zoos))
    assert_same_bits(found, expected)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("preset", "workers", "strategy"),
    [
        *[(preset, workers, "") for preset in ("sync", "replicas") for workers in (1, 2, 4)],
        *[(p, workers, "") for p in ("firecaffe", "parameter-server") for workers in (1, 2, 4)],
        *[("omnivore", workers, "groups = 1\n") for workers in (1, 2, 4)],
    ],
)
def test_todays_recipe_has_the_bits_of_one_process(
    tmp_path: Path, single: Simulated, preset: str, workers: int, strategy: str
) -> None:
    found = train(of_today(tmp_path / "c", preset, workers, strategy, iterations=ITERATIONS))
    assert_same_bits(found, single)


@pytest.mark.slow
@pytest.mark.parametrize(("preset", "workers"), [("single", 1), ("sync", 2), ("replicas", 4)])
def test_todays_recipe_has_the_same_bits_over_a_resume(
    tmp_path: Path, single: Simulated, preset: str, workers: int
) -> None:
    saved = "seconds = 0.0\nepochs = 2.0"
    first = of_today(tmp_path / "first", preset, workers, iterations=ITERATIONS, checkpoint=saved)
    made = train(first).journal.of("checkpoint")
    at = next(fields for fields in made if 0 < fields["iteration"] < ITERATIONS)
    rest = of_today(tmp_path / "rest", preset, workers, iterations=ITERATIONS)
    resume = f"resume = '{tmp_path / 'first' / at['file']}'\n"
    rest.write_text(rest.read_text().replace("batch = 8\n", f"batch = 8\n{resume}"))
    assert_same_bits(train(rest), single)
