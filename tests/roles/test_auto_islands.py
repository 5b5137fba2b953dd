"""`preset = "auto"` with slow links: islands, if they are predicted to learn clearly sooner."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import roles
from roles.choosing.preset import PresetChoice, choice
from roles.forecasting.layer_times import UNTIMED
from runtime.config.file import load_with_program
from tests.helpers.support import configure, train

PROFILE = {f"*/{label}": 0.0 for label in UNTIMED}
PROFILE |= {"single/*": 0.02, "island/train": 0.02, "island/*": 0.0}
PROFILE |= {"replica/forward": 0.006, "replica/*": 0.0}
PROFILE |= {"*/*": 0.003}
VIRTUAL = '[simulation]\nclock = "virtual"\nservice_times = "times.json"\n'
SLOW = 'latency = 0.02\nbytes_per_second = "2.5MB"\n'
FAST = 'bytes_per_second = "10GB"\n'
TRAIN = """[train]
max_iter = {iterations}
[train.data]
train = {{ format = "digits", split = "train" }}
[train.strategy]
preset = "auto"
workers = 4
"""


def chosen(
    folder: Path, network: str, iterations: int = 200_000, more: str = "", resume: str = ""
) -> tuple[PresetChoice, dict[str, str]]:
    """The choice on the virtual clock, and each preset that is left out, with its reason."""
    (folder / "times.json").write_text(json.dumps(PROFILE))
    file = folder / "cluster.toml"
    file.write_text(VIRTUAL + network + TRAIN.format(iterations=iterations) + more)
    loaded = load_with_program(file, [f"train.resume={resume}"] if resume else [])
    assert isinstance(loaded.options, roles.Options)
    made = choice(loaded.config, loaded.options)
    left = {fields["preset"]: fields["why"] for event, fields in made.told if event == "left out"}
    return made, left


def preset_of(made: PresetChoice) -> str:
    name: str = made.expected.why[1]["preset"]
    return name


def test_islands_are_chosen_for_slow_links_and_the_choice_has_its_reason(tmp_path: Path) -> None:
    made, _ = chosen(tmp_path, SLOW)
    assert preset_of(made) == "islands"
    assert not made.trials
    why = made.expected.why[1]["why"]
    assert "of one of 'single'" in why
    assert "single 20 ms" in why


@pytest.mark.parametrize(
    ("network", "iterations"),
    [(FAST, 200_000), (SLOW, 200)],
    ids=["a fast network", "a short run, in which islands learn too little"],
)
def test_presets_that_equal_one_process_are_chosen_otherwise(
    tmp_path: Path, network: str, iterations: int
) -> None:
    made, _ = chosen(tmp_path, network, iterations)
    assert preset_of(made) != "islands"
    assert "islands" in {fields["preset"] for event, fields in made.told if event == "candidate"}


def test_islands_that_cannot_train_this_are_left_out_with_the_reason(tmp_path: Path) -> None:
    made, left = chosen(tmp_path, SLOW, more="reproducible = true\n")
    assert preset_of(made) != "islands"
    assert "averages models that learn separately" in left["islands"]


def test_a_resumed_run_of_islands_stays_one_also_on_a_fast_network(tmp_path: Path) -> None:
    before = tmp_path / "before"
    train(configure(before, "islands", workers=4, iterations=4))
    (before / "events.jsonl").touch()
    (before / "config.toml").write_text('[train.strategy]\npreset = "islands"\nworkers = 4\n')
    checkpoint = max(before.glob("*.safetensors"))
    made, _ = chosen(tmp_path, FAST, resume=str(checkpoint))
    assert preset_of(made) == "islands"
    assert made.expected.why[1]["why"] == "the preset of before, whose checkpoint is resumed"
