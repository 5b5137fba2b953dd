"""Memory for a plan: a plan that this machine can never hold is refused before anything starts. A
plan too large for the free memory gives a warning."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

import runtime
from roles.forecasting.plan_forecast import forecast, memory
from runtime.errors import ConfigError
from runtime.machine.memory import MachineMemory
from runtime.plan.room import warned
from runtime.runs.checking import check
from tests.helpers.support import configure

HELD = {"a": 5_000_000, "b": 3_000_000, "c": 2_000_000, "d": 1_000_000}


@pytest.mark.parametrize(
    ("total", "available"), [(None, None), (11_000_000, 11_000_000), (None, 20_000_000)]
)
def test_a_plan_that_fits_or_has_unknown_memory_is_not_mentioned(
    total: int | None, available: int | None
) -> None:
    assert warned(HELD, total, available) == []


def test_a_plan_larger_than_the_free_memory_is_reported_with_the_largest_actors() -> None:
    told = (
        "memory: the actors will hold at least 11 MB (a 5 MB, b 3 MB, c 2 MB, ...), but only "
        "10 MB of this machine are"
    )
    assert warned(HELD, 12_000_000, 10_000_000) == [f"{told} free now: the kernel may kill roles"]


def test_a_plan_that_can_never_fit_is_refused() -> None:
    with pytest.raises(
        ConfigError,
        match=(r"hold at least 3 MB \(b 3 MB\), but this machine .* has 1 MB: " r"use a smaller"),
    ):
        warned({"b": 3_000_000}, 1_000_000, 500_000)


@pytest.mark.parametrize("preset", ["sync", "firecaffe", "single"])
def test_a_training_that_does_not_fit_is_refused_by_check_and_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, preset: str
) -> None:
    cluster = configure(tmp_path, preset)
    assert check(cluster).warnings == ()
    monkeypatch.setattr(MachineMemory, "available", 1000)
    (warning,) = check(cluster).warnings
    assert "but only 1 kB of this machine are free now" in warning
    monkeypatch.setattr(MachineMemory, "total", 2000)
    with pytest.raises(ConfigError, match="has 2 kB"):
        check(cluster)


def test_a_script_gets_the_same_warning_about_its_launch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    topology = check(configure(tmp_path, "sync")).placement.topology
    monkeypatch.setattr(MachineMemory, "available", 1000)
    runtime.launch(topology, directory=tmp_path)
    assert "but only 1 kB of this machine are free now" in caplog.text
    monkeypatch.setattr(MachineMemory, "total", 2000)
    with pytest.raises(ConfigError, match="has 2 kB"):
        runtime.launch(topology, directory=tmp_path)


@pytest.mark.parametrize(("batch", "largest"), [("64", "64"), ('"auto"', "256")])
def test_with_groups_auto_the_largest_memory_of_workers_and_the_kept_model_count(
    tmp_path: Path, batch: str, largest: str
) -> None:
    cluster = configure(tmp_path, "omnivore", workers=4, iterations=1000)
    held = {}
    for groups, images in (("1", largest), ("4", largest), ('"auto"', batch)):
        settings = [f"train.strategy.groups={groups}", f"train.batch={images}"]
        held[groups] = memory(check(cluster, settings).placement.topology)
    auto = held['"auto"']
    one, four = (
        sum(size for name, size in held[groups].items() if name.startswith("conv-"))
        for groups in ("1", "4")
    )
    assert sum(size for name, size in auto.items() if name.startswith("conv-")) == four > 2 * one
    assert auto["tuner"] == 2 * 4 * (
        25 * 20 + 20 + 25 * 20 * 50 + 50 + 800 * 500 + 500 + 500 * 10 + 10
    )


def test_the_lower_bound_is_at_most_the_forecast_and_most_of_it(tmp_path: Path) -> None:
    topology = check(configure(tmp_path, "sync", workers=2)).placement.topology
    least = memory(topology)
    whole = forecast(topology).memory
    assert least.keys() == whole.keys()
    for actor, held in least.items():
        assert 0.3 * sum(whole[actor].values()) <= held <= sum(whole[actor].values())


def test_actors_on_other_machines_take_no_memory_here(tmp_path: Path) -> None:
    topology = check(configure(tmp_path, "sync")).placement.topology
    moved = [
        dataclasses.replace(actor, emulated={"profile": "", "seed": 1}) for actor in topology.actors
    ]
    assert memory(dataclasses.replace(topology, actors=tuple(moved))) == {}
