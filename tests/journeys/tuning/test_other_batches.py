"""A run whose batch changes while it runs: every sample once, gradients of whole batches,
checkpoints with the right position, and the tuner that chooses the batch."""

from __future__ import annotations

import dataclasses
import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nets import NetError
from nets.data.batches.batches import Batches
from nets.files.checkpoint import load as load_checkpoint
from nets.files.checkpoint import save as save_checkpoint
from roles import Options, forecast, plan
from roles.forecasting.plan_forecast import memory
from roles.learning.resume import place_of
from runtime import ConfigError, Topology
from runtime.cli.main import main
from runtime.config.file import load_with_program
from runtime.machine.memory import MachineMemory
from runtime.runs.checking import check
from tests.helpers.scientist import asks, same, tried
from tests.helpers.support import ROOT, Simulated, configure, events, run_directory, run_up, train

ITERATIONS = 20
BATCH = 8  # the net's own batch
AUTO = ('train.batch="auto"', "train.tuning.batches=[1, 2]", "train.tuning.budget=0.5")
Span = tuple[int, int]


def cluster_of(
    directory: Path, preset: str, workers: int = 2, *, iterations: int = ITERATIONS, **options: Any
) -> Path:
    """A cluster.toml of LeNet with small batches."""
    cluster = configure(
        directory, preset, workers=workers, iterations=iterations, **{"batch": BATCH, **options}
    )
    net = (
        (ROOT / "nets" / "zoo" / "lenet.prototxt")
        .read_text()
        .replace("batch_size: 64", f"batch_size: {BATCH}")
    )
    (directory / "small.prototxt").write_text(net)
    solver = directory / "solver.prototxt"
    solver.write_text(solver.read_text().replace("lenet.prototxt", "small.prototxt"))
    return cluster


def held(
    cluster: Path, *probes: dict[str, Any], release: dict[str, Any] | None = None
) -> Simulated:
    """A run that may have twice the batch. The test's actor holds it once, without a tuner."""
    return tried(cluster, asks(*probes, release=release), *AUTO, change=without_tuner)


def without_tuner(topology: Topology) -> Topology:
    actors = tuple(actor for actor in topology.actors if actor.role != "tuner")
    links = tuple(link for link in topology.links if "tuner" not in link)
    return dataclasses.replace(topology, actors=actors, links=links)


def resumed(
    directory: Path, preset: str, checkpoint: Path, batch: int, iterations: int = ITERATIONS
) -> Simulated:
    cluster = cluster_of(directory, preset, iterations=iterations, batch=batch)
    keys = f'[train]\nresume = "{checkpoint}"\n'
    cluster.write_text(cluster.read_text().replace("[train]\n", keys, 1))
    return train(cluster)


def images_in(directory: Path, run: Simulated) -> int:
    """The number of images in the run's last checkpoint."""
    _, facts = load_checkpoint(directory / run.journal.of("checkpoint")[-1]["file"])
    return int(facts["images"])


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[Span]:
    """A list of the samples that are read, in order."""
    found: list[Span] = []
    original = Batches.samples

    def spied(self: Batches, low: int, high: int, into: Any = None) -> Any:
        found.append((low, high))
        return original(self, low, high, into)

    monkeypatch.setattr(Batches, "samples", spied)
    return found


def once(spans: list[Span], first: int, last: int) -> bool:
    """Whether every sample from the first to the last is in exactly one of the spans."""
    ordered = sorted(spans)
    ends = all(high == low for (_, high), (low, _) in itertools.pairwise(ordered))
    return ends and (ordered[0][0], ordered[-1][1]) == (first, last)


# -- the order of the samples


@pytest.mark.few("[sync]")
@pytest.mark.parametrize(
    "preset", ["sync", "mxnet-sync", "parameter-server", "singa", "local-fc-shards"]
)
def test_from_the_change_on_it_is_a_run_that_was_resumed_with_the_larger_batch(
    tmp_path: Path, preset: str
) -> None:
    found = held(cluster_of(tmp_path / "live", preset), release={"batch": 2 * BATCH})
    (at,) = (fields["iteration"] for fields in found.journal.of("hold"))
    assert 0 < at < ITERATIONS
    assert [fields["batch"] for fields in found.journal.of("regrouped")] == [2 * BATCH]
    half = train(cluster_of(tmp_path / "half", preset, iterations=at))
    assert found.losses()[:at] == half.losses()
    checkpoint = tmp_path / "half" / half.journal.of("checkpoint")[-1]["file"]
    rest = resumed(tmp_path / "rest", preset, checkpoint, 2 * BATCH)
    assert found.losses()[at:] == rest.losses()
    for name, array in rest.arrays.items():
        np.testing.assert_array_equal(found.arrays[name], array, err_msg=name)
    assert (
        images_in(tmp_path / "live", found)
        == images_in(tmp_path / "rest", rest)
        == BATCH * (2 * ITERATIONS - at)
    )


def test_a_probe_with_a_larger_batch_has_the_next_samples_and_leaves_no_trace(
    tmp_path: Path,
) -> None:
    plain = train(cluster_of(tmp_path / "plain", "sync"))
    # the model does not change, so losses depend on the samples only
    still = {"base_lr": 1e-30, "momentum": 0.0}
    probes = (
        {"iterations": 4, **still},
        {"iterations": 2, "batch": 2 * BATCH, **still},
        {"iterations": 4, **still},
    )
    found = held(cluster_of(tmp_path / "tried", "sync"), *probes)
    same(found, plain)
    single, double, again = (fields["losses"] for fields in found.journal.of("probe"))
    assert single == again
    means = [sum(pair) / 2 for pair in zip(single[::2], single[1::2], strict=True)]
    assert double == pytest.approx(means, rel=1e-5)


@pytest.mark.few("[omnivore-2]")
@pytest.mark.parametrize(
    ("preset", "groups"), [("omnivore", 2), ("async", 1), ("distbelief", 1), ("sync", 1)]
)
def test_every_sample_is_read_once_whatever_the_batch(
    tmp_path: Path, reads: list[Span], preset: str, groups: int
) -> None:
    found = held(cluster_of(tmp_path, preset, 4, groups=groups), release={"batch": 2 * BATCH})
    (at,) = (fields["iteration"] for fields in found.journal.of("hold"))
    trained = BATCH * (2 * ITERATIONS - at)
    assert once(reads, 0, trained)
    (end,) = found.journal.of("finished")
    assert end["images_per_second"] * end["seconds"] == pytest.approx(trained)


def test_a_checkpoint_of_a_run_with_several_batches_is_resumed_where_it_ended(
    tmp_path: Path, reads: list[Span]
) -> None:
    found = held(cluster_of(tmp_path / "whole", "sync"), release={"batch": 2 * BATCH})
    trained = images_in(tmp_path / "whole", found)
    reads.clear()
    checkpoint = tmp_path / "whole" / found.journal.of("checkpoint")[-1]["file"]
    rest = resumed(tmp_path / "rest", "sync", checkpoint, BATCH, ITERATIONS + 3)
    assert once(reads, trained, trained + 3 * BATCH)
    assert images_in(tmp_path / "rest", rest) == trained + 3 * BATCH


@pytest.mark.parametrize(("facts", "place"), [({"images": "77"}, (5, 77)), ({}, (5, -1))])
def test_an_older_checkpoint_has_no_number_of_images(
    tmp_path: Path, facts: dict[str, str], place: tuple[int, int]
) -> None:
    save_checkpoint(
        tmp_path / "c.safetensors", {"a.0": np.zeros(1, np.float32)}, {"iteration": "5", **facts}
    )
    assert place_of(str(tmp_path / "c.safetensors")) == place


@pytest.mark.parametrize("images", ["-1", "many", "9" * 19])
def test_a_checkpoint_whose_images_are_not_a_number_is_refused(tmp_path: Path, images: str) -> None:
    save_checkpoint(
        tmp_path / "c.safetensors",
        {"a.0": np.zeros(1, np.float32)},
        {"iteration": "5", "images": images},
    )
    with pytest.raises(NetError, match="found no valid images in it"):
        place_of(str(tmp_path / "c.safetensors"))


def test_a_batch_that_was_not_planned_is_refused_in_words(tmp_path: Path) -> None:
    wrong = ({"iterations": 1, "batch": 3 * BATCH}, {"iterations": 1, "batch": BATCH - 1})
    found = held(cluster_of(tmp_path / "auto", "sync"), *wrong)
    assert ["expected 8 to 16" in fields["reason"] for fields in found.journal.of("refused")] == [
        True,
        True,
    ]
    plain = tried(
        cluster_of(tmp_path / "plain", "sync"), asks({"iterations": 1, "batch": 2 * BATCH})
    )
    (refused,) = plain.journal.of("refused")
    assert ("found a batch of 16 images, expected 8, since train.batch is not 'auto'") in refused[
        "reason"
    ]


# -- plans


def planned(directory: Path, preset: str, *settings: str) -> Topology:
    loaded = load_with_program(cluster_of(directory, preset), settings)
    assert isinstance(loaded.options, Options)
    return plan(loaded.config, loaded.options)


@pytest.mark.parametrize("preset", ["sync", "mxnet-sync"])
def test_memory_and_traffic_are_planned_for_the_largest_batch(tmp_path: Path, preset: str) -> None:
    largest = forecast(planned(tmp_path, preset, "train.batch=16"))
    auto = forecast(planned(tmp_path, preset, *AUTO))
    kept = {"tuner": auto.memory["tuner"]}  # the copy of the model from before the probes
    assert auto.memory == largest.memory | kept
    assert auto.traffic == largest.traffic
    assert (largest.step, auto.step) == ("iteration", "iteration of the largest batch, 16 images")
    assert forecast(planned(tmp_path, preset)).memory != auto.memory


def test_a_largest_batch_for_which_this_machine_has_no_memory_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = cluster_of(tmp_path, "sync")
    small, large = (
        sum(memory(check(cluster, settings).placement.topology).values()) for settings in ((), AUTO)
    )
    assert small < large
    monkeypatch.setattr(MachineMemory, "available", large)
    monkeypatch.setattr(MachineMemory, "total", (small + large) // 2)
    assert check(cluster, ()).warnings == ()
    with pytest.raises(ConfigError, match="use a smaller"):
        check(cluster, AUTO)


NOBODY = "no actor holds two gradients of a batch to compare, so their noise is not known"
REFUSED = {
    "single": f"found 'auto', but {NOBODY}: there is 1 worker",
    "replicas": (
        f"preset 'replicas' has no model server that could measure the noise of gradients: {NOBODY}"
    ),
    "adam": f"preset 'adam' has no model server that could measure the noise of gradients: {NOBODY}",
    "sparknet": "preset 'sparknet' has no model server that could measure the noise of gradients",
    "one-weird-trick": (
        "preset 'one-weird-trick' has no model server that could measure the noise of gradients"
    ),
}


@pytest.mark.parametrize("preset", REFUSED)
def test_if_the_batch_cannot_be_chosen_the_run_is_refused_with_the_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], preset: str
) -> None:
    cluster = cluster_of(tmp_path, preset)
    settings = [word for setting in AUTO for word in ("--set", setting)]
    assert main(["check", str(cluster), *settings]) == 2
    (said,) = capsys.readouterr().err.splitlines()
    assert "train.batch: found 'auto', but " in said
    assert REFUSED[preset] in said


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (["train.batch=0"], "train.batch: found 0 (integer), expected an integer >= 1, or 'auto'"),
        (["train.tuning.batches=[2]"], "train.tuning.batches: found [2], but batch is not 'auto'"),
        (["train.batch='auto'", "train.tuning.batches=[]"], "train.tuning.batches"),
        (
            ["train.batch='auto'", "train.strategy.reproducible=true"],
            "a choice by measured times cannot be repeated",
        ),
        (["train.batch='auto'", "train.tuning.budget=0.1"], "a probe has 10 iterations"),
        (
            ["train.batch='auto'", "train.tuning.start='big.json'"],
            ("has a batch of 1024, expected at most 32"),
        ),
        (
            [AUTO[0], "train.tuning.batches=[256]", "links.max_message_bytes=2000000"],
            "blob 'pool2' of 'conv-0-1' has 3276800 bytes",
        ),
    ],
)
def test_settings_that_conflict_with_a_chosen_batch_are_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], settings: list[str], reason: str
) -> None:
    cluster = cluster_of(tmp_path, "sync")
    choice = {"groups": 1, "momentum": 0, "base_lr": 1, "batch": 1024}
    (tmp_path / "big.json").write_text(
        json.dumps({"choice": choice, "saturated_groups": 1, "next_groups": 1})
    )
    budget = [] if any("budget" in setting for setting in settings) else ["train.max_iter=1000"]
    words = [word for setting in (*settings, *budget) for word in ("--set", setting)]
    assert main(["check", str(cluster), *words]) == 2
    assert reason in capsys.readouterr().err


# -- the tuner chooses the batch

NET = """
name: "small"
layer { name: "images" type: "Data" top: "data" top: "label" data_param { batch_size: 32 }
        transform_param { scale: 0.00390625 } }
layer { name: "ip1" type: "InnerProduct" bottom: "data" top: "ip1"
        inner_product_param { num_output: 16 weight_filler { type: "xavier" } } }
layer { name: "relu" type: "ReLU" bottom: "ip1" top: "ip1" }
layer { name: "ip2" type: "InnerProduct" bottom: "ip1" top: "ip2"
        inner_product_param { num_output: 10 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip2" bottom: "label" top: "loss" }
"""


def noisy(directory: Path, preset: str) -> Path:
    """A net whose noise scale is about 70 images after 100 iterations, twice its own batch. By then
    it has been measured."""
    cluster = configure(directory, preset, workers=2, iterations=500)
    (directory / "lenet.prototxt").write_text(NET)
    text = cluster.read_text().replace("batch = 16\n", 'batch = "auto"\n')
    text = text.replace("[train.data]\n", "[train.data]\nshuffle = true\n")
    cluster.write_text(
        f"{text}[train.tuning]\nbudget = 0.5\nprobe_iterations = 10\nepoch_iterations = 150\n"
    )
    return cluster


def choices_of(told: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [fields for fields in told if "batch" in fields]


@pytest.mark.slow
# with mxnet-sync the server receives the parts of gradients, with singa the reducers do
@pytest.mark.parametrize("preset", ["mxnet-sync", "singa"])
def test_the_tuner_takes_a_larger_batch_where_that_costs_no_time(
    tmp_path: Path, preset: str
) -> None:
    """On this clock an iteration takes equally long for every batch."""
    run = train(noisy(tmp_path, preset), service_time=lambda actor, label: 0.01)
    told = run.journal.of("tuning")
    first, *_, last = choices_of(told)
    assert (first["iteration"], first["batch"], first["base_lr"]) == (0, 32, pytest.approx(0.01))
    assert any(
        ("the noise of gradients is not known well enough, so the batch stays 32") in fields["why"]
        for fields in told
    )
    assert last["batch"] == 128
    assert "the noise scale is " in last["why"]
    assert 1.2 < last["base_lr"] / 0.01 < 4
    assert run.journal.of("regrouped")[-1]["batch"] == 128
    assert run.journal.of("finished")[0]["iterations"] == 500
    assert images_in(tmp_path, run) > 500 * 32


@pytest.mark.slow
def test_real_processes_choose_their_batch_and_learn(tmp_path: Path) -> None:
    cluster = noisy(tmp_path, "mxnet-sync")
    done = run_up(cluster)
    assert (done.returncode, done.stderr) == (0, "")
    directory = run_directory(cluster)
    assert any(
        "the noise scale is " in fields["why"] for fields in choices_of(events(directory, "tuning"))
    )
    (end,) = events(directory, "finished")
    assert end["iterations"] == 500
    losses = [fields["loss"] for fields in events(directory, "progress")]
    assert losses[-1] < losses[0] / 2
