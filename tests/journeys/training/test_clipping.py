"""Gradients are clipped by the norm of all parameters, wherever they live: the same bits in every
preset that equals one process; each group's gradient in asynchronous presets."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from roles import Options, plan
from roles.base.shapes import Shapes
from runtime.config.file import load_with_program
from tests.helpers.fc_shards import configured, difference, lenet_with_dropout, problems_of
from tests.helpers.support import Simulated, train

pytestmark = pytest.mark.usefixtures("one_thread")

CLIP = "[train.optimizer]\nclip_norm = 0.25\n"
REPRODUCIBLE = "reproducible = true\n"
PRESETS = [
    ("sync", 2, ""),
    ("omnivore", 4, ""),
    ("replicas", 2, ""),
    ("firecaffe", 4, ""),
    ("parameter-server", 2, ""),
    ("mxnet-sync", 2, "servers = 2\n"),
    ("singa", 4, "servers = 3\n"),
]


def run(directory: Path, preset: str, workers: int, more: str, clip: str = CLIP) -> Simulated:
    cluster = configured(
        directory,
        preset,
        workers=workers,
        batch=20,
        net=lenet_with_dropout(),
        test=True,
        strategy=more + REPRODUCIBLE + clip,
    )
    file = directory / "solver.prototxt"
    file.write_text(f"{file.read_text()}\ntest_interval: 4 test_iter: 1\n")
    return train(cluster)


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory) -> Simulated:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CONVOY_THREADS", "1")
        return run(tmp_path_factory.mktemp("single"), "single", 1, "")


@pytest.mark.few("[sync-2", "[replicas-2", "[singa-4", "[parameter-server")
@pytest.mark.parametrize(("preset", "workers", "more"), PRESETS)
def test_clipped_runs_have_the_bits_of_one_process(
    tmp_path: Path, single: Simulated, preset: str, workers: int, more: str
) -> None:
    found = run(tmp_path, preset, workers, more)
    for name, array in single.arrays.items():
        assert found.arrays[name].tobytes() == array.tobytes(), name
    scores = [[fields["loss"] for fields in each.journal.of("test")] for each in (found, single)]
    assert scores[0] == pytest.approx(scores[1], rel=1e-6)


def test_the_limit_was_reached_so_the_comparison_means_something(
    tmp_path: Path, single: Simulated
) -> None:
    free = run(tmp_path, "single", 1, "", clip="")
    assert not np.array_equal(free.arrays["conv1.0"], single.arrays["conv1.0"])


@pytest.mark.parametrize(
    ("preset", "more"),
    [
        ("async", ""),
        ("omnivore", "groups = 2\n"),
        ("adam", "groups = 2\n"),
        ("mxnet-async", "servers = 2\n"),
        ("distbelief", ""),
        ("local-fc-shards", "servers = 1\ngroups = 2\n"),
    ],
)
def test_asynchronous_presets_clip_the_gradient_of_each_group(
    tmp_path: Path, preset: str, more: str
) -> None:
    cluster = configured(
        tmp_path,
        preset,
        workers=2,
        iterations=2,
        train_more="momentum = 0.0\n",
        strategy=f"{CLIP}weight_decay = 0.0\n",
    )
    text = cluster.read_text().replace("groups = 1\n", "")
    cluster.write_text(text.replace("workers = 2\n", f"workers = 2\n{more}"))
    found = train(cluster)
    # without momentum the history is the rate times the last gradient of a group
    mults = {"0": 1.0, "1": 2.0}
    steps = [
        array.astype(float) / mults[name.split(".")[1]]
        for name, array in found.arrays.items()
        if name.endswith("history")
    ]
    norm = np.sqrt(sum(float((step**2).sum()) for step in steps)) / 0.01
    assert norm == pytest.approx(0.25, rel=1e-3)


@pytest.mark.parametrize(
    ("preset", "workers", "more"),
    [
        ("local-fc-shards", 2, "servers = 2\n"),
        ("local-fc-shards", 2, "servers = 1\n"),
        ("one-weird-trick", 2, 'scheme = "a"\n'),
        ("one-weird-trick", 3, 'scheme = "b"\n'),
        ("one-weird-trick", 2, 'scheme = "c"\n'),
    ],
)
def test_shards_of_the_fc_phase_share_the_norm_with_the_conv_phase(
    tmp_path: Path, preset: str, workers: int, more: str
) -> None:
    runs = []
    for name, laid_out in (("single", "single"), ("shards", preset)):
        cluster = configured(
            tmp_path / name,
            laid_out,
            workers=workers,
            batch=18,
            net=lenet_with_dropout(),
            train_more='precision = "double"\n',
            strategy=(more if name == "shards" else "") + CLIP,
        )
        runs.append(train(cluster))
    assert difference(runs[1], runs[0]) < 1e-9


@pytest.mark.parametrize("key", ["reproducible", "variable_batch"])
def test_shards_that_cannot_clip_refuse_it_in_words(tmp_path: Path, key: str) -> None:
    strategy = f'scheme = "b"\n{key} = true\n{CLIP}'
    cluster = configured(tmp_path, "one-weird-trick", workers=2, batch=16, strategy=strategy)
    assert f"train.strategy.{key}: found true, but gradients are clipped by" in problems_of(cluster)


@pytest.mark.parametrize(
    ("preset", "holders"),
    [("sync", ("conv_model", "fc_server")), ("singa", ("model-0", "model-1"))],
)
def test_the_plan_counts_the_messages_about_the_norm(
    tmp_path: Path, preset: str, holders: tuple[str, str]
) -> None:
    told = {}
    for name, clip in (("free", ""), ("clipped", CLIP)):
        more = "servers = 2\n" if preset == "singa" else ""
        cluster = configured(tmp_path / name, preset, workers=2, strategy=more + clip)
        loaded = load_with_program(cluster)
        assert isinstance(loaded.options, Options)
        topology = plan(loaded.config, loaded.options, tell=False)
        shapes = Shapes(topology)
        told[name] = {
            (actor.name, receiver)
            for actor in topology.actors
            if actor.name in holders
            for receiver, kind, _ in actor.options.sends(actor.name, shapes)
            if kind.__name__ == "NormShare"
        }
    one, other = holders
    assert told == {"free": set(), "clipped": {(one, other), (other, one)}}
