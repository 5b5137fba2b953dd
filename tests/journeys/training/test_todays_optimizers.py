"""Runs with optimizers, schedules and averages of cluster.toml: the same bits in every preset that
equals one process, over a resume; plateaus; epochs; memory in the plan."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from roles import Options, plan
from roles.base.shapes import Shapes
from runtime.config.file import load_with_program
from tests.helpers.fc_shards import configured, lenet_with_dropout, resume_from
from tests.helpers.support import Simulated, train

pytestmark = pytest.mark.usefixtures("one_thread")

REPRODUCIBLE = "reproducible = true\n"
SECTIONS = """
[train.optimizer]
type = "AdamW"
weight_decay = 0.05
decays = "weights"
[train.schedule]
type = "cosine"
warmup = 3
[train.ema]
decay = 0.75
"""
PRESETS = [
    *[(preset, workers, "") for preset in ("sync", "replicas") for workers in (1, 2, 4)],
    *[(preset, workers, "") for preset in ("firecaffe", "parameter-server") for workers in (2, 4)],
    *[("omnivore", workers, "groups = 1\n") for workers in (1, 4)],
    ("host-accumulate", 2, ""),
    ("mxnet-sync", 2, "servers = 2\n"),
    ("local-fc-shards", 2, "servers = 2\n"),
    ("one-weird-trick", 2, 'scheme = "a"\n'),
]


def cluster_of(
    directory: Path, preset: str, workers: int, more: str = "", sections: str = SECTIONS, **o: Any
) -> Path:
    options = {"batch": 20, "net": lenet_with_dropout(), "test": True, **o}
    cluster = configured(
        directory, preset, workers=workers, strategy=more + REPRODUCIBLE + sections, **options
    )
    text = cluster.read_text().replace("groups = 1\ngroups = 1\n", "groups = 1\n")
    rates = 'base_lr = 0.002\nlr_scale = { "conv*" = 0.5 }\n'
    cluster.write_text(text.replace("[train]\n", f"[train]\n{rates}", 1))
    file = directory / "solver.prototxt"
    file.write_text(f"{file.read_text()}\ntest_interval: 5 test_iter: 1\n")
    return cluster


def assert_same_bits(found: Simulated, expected: Simulated) -> None:
    assert found.arrays.keys() == expected.arrays.keys()
    for name, array in expected.arrays.items():
        assert found.arrays[name].tobytes() == array.tobytes(), name
    assert scores(found) == pytest.approx(scores(expected), rel=1e-6)


def scores(run: Simulated) -> list[float]:
    return [fields["loss"] for fields in run.journal.of("test")]


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory) -> Simulated:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CONVOY_THREADS", "1")
        return train(cluster_of(tmp_path_factory.mktemp("single"), "single", 1))


def test_a_checkpoint_has_averages_and_histories_and_tests_score_the_averages(
    tmp_path: Path, single: Simulated
) -> None:
    names = {name for name in single.arrays if name.startswith("ip1.0")}
    assert names == {"ip1.0", "ip1.0.trained", "ip1.0.history", "ip1.0.history2"}
    assert not np.array_equal(single.arrays["ip1.0"], single.arrays["ip1.0.trained"])
    plain = train(cluster_of(tmp_path, "single", 1, sections=SECTIONS.partition("[train.ema]")[0]))
    for name, array in plain.arrays.items():
        same = name if "history" in name else f"{name}.trained"
        assert single.arrays[same].tobytes() == array.tobytes(), name
    assert scores(plain) != scores(single)


@pytest.mark.few("[sync-2", "[replicas-4", "[omnivore-4", "[parameter-server-2", "[local-fc")
@pytest.mark.parametrize(("preset", "workers", "more"), PRESETS)
def test_adamw_a_cosine_and_averages_have_the_bits_of_one_process(
    tmp_path: Path, single: Simulated, preset: str, workers: int, more: str
) -> None:
    assert_same_bits(train(cluster_of(tmp_path, preset, workers, more)), single)


@pytest.mark.parametrize(
    ("preset", "workers", "more"),
    [("single", 1, ""), ("sync", 2, ""), ("local-fc-shards", 2, "servers = 2\n")],
)
def test_a_resumed_run_ends_with_the_bits_of_the_unbroken_one(
    tmp_path: Path, single: Simulated, preset: str, workers: int, more: str
) -> None:
    runs = []
    for name in ("whole", "rest"):
        cluster = cluster_of(tmp_path / name, preset, workers, more)
        file = cluster.parent / "solver.prototxt"
        file.write_text(file.read_text().replace("snapshot: 0", "snapshot: 6"))
        if name == "rest":
            resume_from(cluster, "whole", 6)
        runs.append(train(cluster))
    assert_same_bits(runs[0], single)
    for name, array in single.arrays.items():
        assert runs[1].arrays[name].tobytes() == array.tobytes(), name


@pytest.mark.parametrize("sections", ["[train.optimizer]\ntype = 'Muon'\n"])
@pytest.mark.parametrize(("preset", "workers"), [("sync", 2), ("replicas", 2)])
def test_muon_in_several_workers_has_the_bits_of_one_process(
    tmp_path: Path, preset: str, workers: int, sections: str
) -> None:
    one = train(cluster_of(tmp_path / "one", "single", 1, sections=sections))
    assert_same_bits(train(cluster_of(tmp_path, preset, workers, sections=sections)), one)


@pytest.mark.parametrize("kind", ["LARS", "Muon", "AdamW"])
@pytest.mark.parametrize("preset", ["omnivore", "adam", "async", "sparknet"])
def test_asynchronous_presets_train_with_every_optimizer(
    tmp_path: Path, preset: str, kind: str
) -> None:
    sections = f"[train.optimizer]\ntype = '{kind}'\nweight_decay = 0.01\n"
    groups = 2 if preset in ("omnivore", "adam") else 1
    cluster = configured(tmp_path, preset, workers=2, groups=groups, strategy=sections)
    found = train(cluster)
    assert all(np.isfinite(array).all() for array in found.arrays.values())


PLATEAU = """
[train.schedule]
type = "plateau"
by = "loss"
patience = 1
min_delta = 100
factor = 0.5
least = 0.0001
"""


def rates(run: Simulated) -> list[tuple[int, float]]:
    return [(fields["iteration"], fields["base_lr"]) for fields in run.journal.of("regrouped")]


def test_the_rate_falls_after_each_test_without_improvement_also_in_a_resumed_run(
    tmp_path: Path,
) -> None:
    runs = []
    for name in ("whole", "rest"):
        cluster = cluster_of(tmp_path / name, "sync", 2, sections=PLATEAU, iterations=20, batch=16)
        file = cluster.parent / "solver.prototxt"
        file.write_text(file.read_text().replace("snapshot: 0", "snapshot: 10"))
        if name == "rest":
            resume_from(cluster, "whole", 10)
        runs.append(train(cluster))
    whole, rest = runs
    half, fourth, eighth = (pytest.approx(0.002 * 0.5**steps) for steps in (1, 2, 3))
    assert rates(whole) == [(5, half), (10, fourth), (15, eighth)]
    # the checkpoint was made before the step that its test led to
    assert rates(rest) == [(10, half), (10, fourth), (15, eighth)]
    for name, array in whole.arrays.items():
        assert rest.arrays[name].tobytes() == array.tobytes(), name


def test_epochs_are_passes_over_the_training_data(tmp_path: Path) -> None:
    data = 'data = { train = { format = "synthetic", shape = [1, 28, 28], size = 100 } }\n'
    more = f"{data}epochs = 2.5\ntest_epochs = 1\n"
    cluster = configured(tmp_path, "single", batch=16, train_more=more)
    cluster.write_text(
        cluster.read_text().replace(
            "[train.strategy]", "[checkpoint]\nepochs = 1\n[train.strategy]"
        )
    )
    found = train(cluster)
    assert found.journal.of("progress")[-1]["iteration"] == 16  # 250 images in batches of 16
    assert [fields["iteration"] for fields in found.journal.of("checkpoint")] == [7, 14, 16]


def memory(cluster: Path) -> dict[str, int]:
    loaded = load_with_program(cluster)
    assert isinstance(loaded.options, Options)
    topology = plan(loaded.config, loaded.options, tell=False)
    (options,) = [actor.options for actor in topology.actors if actor.name == "single"]
    return dict(options.holds("single", Shapes(topology)))


def test_the_plan_counts_the_histories_and_the_averages(tmp_path: Path) -> None:
    plain = memory(cluster_of(tmp_path / "sgd", "single", 1, sections=""))
    adamw = memory(cluster_of(tmp_path / "adamw", "single", 1))
    muon = memory(
        cluster_of(tmp_path / "muon", "single", 1, sections="[train.optimizer]\ntype = 'Muon'\n")
    )
    size = plain["parameters"]
    biases = 4 * (20 + 50 + 500 + 10)
    assert plain["history"] == size
    assert "averages" not in plain
    assert (adamw["history"], adamw["averages"]) == (2 * size, size)
    assert muon["history"] == size + biases


@pytest.mark.parametrize("preset", ["sync", "replicas", "mxnet-async"])
@pytest.mark.parametrize("kind", ["AdamW", "LARS", "Muon"])
def test_emulated_devices_take_every_optimizer_average_and_clip(
    tmp_path: Path, preset: str, kind: str
) -> None:
    sections = f"[train.optimizer]\ntype = '{kind}'\nclip_norm = 1.0\n[train.ema]\n"
    cluster = configured(
        tmp_path,
        preset,
        workers=2,
        train_more='devices = { "*" = "emulated" }\n',
        strategy=sections,
    )
    found = train(cluster, checkpoint=False)
    assert found.journal.of("finished")[-1]["iterations"] == 10
