"""Memory for a plan: a plan that this machine can never hold is refused before anything starts. A
plan too large for the free memory gives a warning."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

import runtime
from roles.forecasting.plan_forecast import FOR_PROCESSES, forecast, memory
from runtime.drawing.svg import outline
from runtime.errors import ConfigError
from runtime.machine.memory import MachineMemory
from runtime.memory.device_arena import LEAST
from runtime.plan.forecast import shown
from runtime.plan.room import warned
from runtime.plan.topology import Placement, Topology
from runtime.runs.checking import check
from tests.helpers.support import configure

BY_HOST = "[links]\ndevice_memory = false\n"
TOGETHER = '[placement]\nprocesses = "per-device"\n'
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


ALL = 4 * (25 * 20 + 20 + 25 * 20 * 50 + 50 + 800 * 500 + 500 + 500 * 10 + 10)  # bytes of LeNet
LARGEST = 4 * (800 * 500 + 500)  # of its largest layer, ip1


@pytest.mark.parametrize(
    ("preset", "worker", "on_device"),
    [
        ("single", "single", ALL),
        ("host-accumulate", "replica-0", LARGEST),
        ("firecaffe", "replica-0", LARGEST),
        ("mxnet-sync", "conv-0-0", LARGEST),
        ("dl4j", "replica-0", ALL),
    ],
)
def test_a_gpu_holds_one_piece_of_the_gradients_at_a_time_if_they_leave_it(
    tmp_path: Path, preset: str, worker: str, on_device: int
) -> None:
    topology = on_gpu(tmp_path, preset, more=BY_HOST)
    held = forecast(topology).memory[worker]
    leave = preset not in ("single", "dl4j")
    assert held["gradients"] == pytest.approx(on_device, rel=0.02)
    assert held.get("gradients in host memory", 0) == (ALL if leave else 0)
    assert held["parameters"] == ALL
    assert memory(topology).get(worker, 0) == sum(
        size for what, size in held.items() if what.endswith(" in host memory")
    )


def test_a_gpu_holds_all_gradients_if_they_are_clipped_or_added_up_over_passes(
    tmp_path: Path,
) -> None:
    more = {"clipped": "clip_gradients: 1", "passes": "iter_size: 2"}
    for name, line in more.items():
        (tmp_path / name).mkdir()
        topology = on_gpu(tmp_path / name, "host-accumulate", line, BY_HOST)
        held = forecast(topology).memory["replica-0"]
        assert held["gradients"] >= ALL


def test_a_gpu_holds_the_images_of_three_batches_that_are_read_ahead(tmp_path: Path) -> None:
    (tmp_path / "host").mkdir()
    topology = on_gpu(tmp_path, "single")
    (job,) = (actor.options.job for actor in topology.actors if actor.name == "single")
    rows = max(map(job.rows, job.phases))
    assert forecast(topology).memory["single"]["images read ahead"] == 3 * 4 * rows * 28 * 28
    on_host = check(configure(tmp_path / "host", "single")).placement.topology
    assert "images read ahead" not in forecast(on_host).memory["single"]


def placed_on_gpu(folder: Path, preset: str, line: str = "", more: str = "") -> Placement:
    """The plan of two workers on one GPU. `line`: of the solver. `more`: sections of cluster.toml."""
    cluster = configure(folder, preset, workers=1 if preset == "single" else 2, more=more)
    solver = folder / "solver.prototxt"
    solver.write_text(solver.read_text() + line + "\n")
    return check(cluster, ['train.devices={"*" = "cuda:0"}'], starts=False).placement


def on_gpu(folder: Path, preset: str, line: str = "", more: str = "") -> Topology:
    return placed_on_gpu(folder, preset, line, more).topology


@pytest.mark.parametrize("preset", ["sync", "mxnet-sync", "replicas", "host-accumulate"])
def test_arrays_that_actors_read_on_one_gpu_take_its_memory_and_none_of_the_host(
    tmp_path: Path, preset: str
) -> None:
    apart = on_gpu(tmp_path / "apart", preset)
    together = on_gpu(tmp_path / "together", preset, more=TOGETHER)
    for topology, shared in ((apart, LEAST), (together, 0)):
        assert memory(topology) == {}
        held = forecast(topology).memory
        assert not any(what.endswith(" in host memory") for of in held.values() for what in of)
        gpus = {actor.name for actor in topology.actors if actor.name != topology.lead}
        assert {held[name].get(FOR_PROCESSES, 0) for name in gpus} == {shared}
        assert topology.lead not in held


def test_in_one_process_all_pieces_of_the_gradients_stay_until_they_are_added_up(
    tmp_path: Path,
) -> None:
    for more, gradients, sums in (("", LARGEST, 0), (TOGETHER, ALL, 0)):
        held = forecast(on_gpu(tmp_path / more[1:2], "host-accumulate", more=more)).memory
        assert held["replica-0"]["gradients"] == pytest.approx(gradients, rel=0.02)
        assert held["replica-0"].get("sums", 0) == sums
        assert held["accumulator"]["sums"] == ALL
    # with the collective exchange each worker adds up for itself
    assert forecast(on_gpu(tmp_path / "c", "replicas")).memory["replica-1"]["sums"] == ALL


def test_plan_adds_up_each_gpu_and_tells_which_arrays_stay_there(tmp_path: Path) -> None:
    texts = {}
    for more in ("", TOGETHER, BY_HOST):
        placement = placed_on_gpu(tmp_path / more[1:2], "replicas", more=more)
        found = forecast(placement.topology)
        text = outline(placement, found)
        size = sum(
            size
            for name in ("replica-0", "replica-1")
            for what, size in found.memory[name].items()
            if not what.endswith(" in host memory")
        )
        processes = "1 process; it has" if more == TOGETHER else "2 processes; each has"
        assert f"cuda:0 of local: {shown(size)} of {processes} a context of CUDA" in text
        texts[more] = text.count("stays on cuda:0")
    assert texts == {"": 2, TOGETHER: 2, BY_HOST: 0}


def test_a_link_that_carries_a_coarse_format_goes_through_the_host(tmp_path: Path) -> None:
    cluster = configure(tmp_path, "sync", workers=2)
    settings = ['train.devices={"*" = "cuda:0"}', 'train.gradients.format="float16"']
    links = check(cluster, settings, starts=False).placement.topology.device_links
    assert ("conv_model", "conv-0-0") in links
    assert ("conv-0-0", "conv_model") not in links


def test_actors_on_other_gpus_or_in_host_memory_share_none(tmp_path: Path) -> None:
    cluster = configure(tmp_path, "sync", workers=2)
    settings = ['train.devices={"*-0" = "cuda:0", "*-1" = "cuda:1", "fc_server" = "cuda:1"}']
    links = check(cluster, settings, starts=False).placement.topology.device_links
    assert {link for link in links if link[0] < link[1]} == {("conv-0-1", "fc_server")}


@pytest.mark.parametrize("preset", ["firecaffe", "mxnet-sync", "sparknet", "dl4j"])
def test_a_cpu_holds_all_gradients_of_a_worker_in_its_own_memory(
    tmp_path: Path, preset: str
) -> None:
    topology = check(configure(tmp_path, preset, workers=2)).placement.topology
    for name, held in forecast(topology).memory.items():
        assert held.get("gradients", ALL) == ALL, name
        assert not any(what.endswith(" in host memory") for what in held)
