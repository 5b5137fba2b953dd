"""Runs with frozen layers: they keep their bits in every preset, over a resume and a change of
groups; no gradient is computed, kept or sent for them; `plan` counts what is left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nets import Net, NetBuilder
from nets.files.checkpoint import load
from nets.files.weights import from_checkpoint
from nets.tools.volumes import volumes
from ops import get_backend
from roles import Options, plan
from roles.base.shapes import Shapes
from roles.learning.job import Job
from roles.messages import TEST, TRAIN, LayerGradient, LayerModel
from runtime.cli.main import main
from runtime.config.file import load_with_program
from tests.helpers.fc_shards import configured, problems_of, resume_from
from tests.helpers.support import Simulated, run_up, train

pytestmark = pytest.mark.usefixtures("one_thread")

LOWEST = ("conv1", "bn1", "scale1")  # frozen, with nothing to learn below them
PRESETS = [
    ("sync", 2, ""),
    ("replicas", 4, ""),
    ("firecaffe", 2, ""),
    ("parameter-server", 2, ""),
    ("omnivore", 4, ""),
    ("host-accumulate", 2, ""),
    ("mxnet-sync", 2, "servers = 2\n"),
    ("local-fc-shards", 2, "servers = 2\n"),
    ("one-weird-trick", 2, ""),
]
OTHERS = ["async", "adam", "sparknet", "dl4j"]


def small_net() -> str:
    """Two convolutions, the first with BatchNorm, and two dense layers."""
    net = NetBuilder("small")
    top, label = net.Input(
        "data",
        tops=("data", "label"),
        shape=[{"dim": [20, 1, 28, 28]}, {"dim": [20]}],
    )
    for n in (1, 2):
        top = net.Convolution(
            f"conv{n}", top, num_output=8, kernel_size=4, stride=3, weight_filler={"type": "xavier"}
        )
        if n == 1:
            top = net.BatchNorm("bn1", top)
            top = net.Scale("scale1", top, bias_term=True)
        top = net.ReLU(f"relu{n}", top, in_place=True)
    top = net.InnerProduct("ip1", top, num_output=32, weight_filler={"type": "xavier"})
    top = net.ReLU("relu3", top, in_place=True)
    top = net.InnerProduct("ip2", top, num_output=10, weight_filler={"type": "xavier"})
    net.SoftmaxWithLoss("loss", top, label)
    text = str(net)
    return text[text.index("\n") + 1 :]


def cluster_of(
    directory: Path,
    preset: str = "single",
    workers: int = 1,
    strategy: str = "",
    *,
    freeze: tuple[str, ...] = (),
    train_more: str = "",
    **options: Any,
) -> Path:
    keys = f"freeze = {list(freeze)}\n" if freeze else ""
    return configured(
        directory,
        preset,
        workers=workers,
        batch=20,
        net=small_net(),
        train_more=train_more + keys,
        strategy=strategy,
        **options,
    )


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of the small net after 6 iterations."""
    directory = tmp_path_factory.mktemp("trained")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CONVOY_THREADS", "1")
        train(cluster_of(directory, iterations=6))
    return directory / "checkpoint-0000006.safetensors"


def tuned(
    directory: Path,
    trained: Path,
    preset: str = "single",
    workers: int = 1,
    strategy: str = "",
    *,
    freeze: tuple[str, ...] = LOWEST,
    **options: Any,
) -> Simulated:
    return train(frozen_cluster(directory, trained, preset, workers, strategy, freeze, **options))


def frozen_cluster(
    directory: Path,
    trained: Path,
    preset: str = "single",
    workers: int = 1,
    strategy: str = "",
    freeze: tuple[str, ...] = LOWEST,
    **options: Any,
) -> Path:
    weights = f'weights = "{trained}"\n'
    return cluster_of(
        directory, preset, workers, strategy, freeze=freeze, train_more=weights, **options
    )


def layers_of(arrays: Any) -> dict[str, list[str]]:
    """Layer -> the names of its arrays in a checkpoint."""
    found: dict[str, list[str]] = {}
    for name in arrays:
        found.setdefault(name.partition(".")[0], []).append(name)
    return found


def assert_kept(run: Simulated, trained: Path, frozen: tuple[str, ...]) -> None:
    """Frozen layers have the bits of the file and no history; all others have changed."""
    before, _ = load(trained)
    for layer, names in layers_of(run.arrays).items():
        kept = [run.arrays[name].tobytes() == before[name].tobytes() for name in names]
        if layer in frozen:
            assert all(kept) and not any("history" in name for name in names), layer
        else:
            assert not any(kept), layer


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory, trained: Path) -> Simulated:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CONVOY_THREADS", "1")
        directory = tmp_path_factory.mktemp("single")
        return tuned(directory, trained, strategy="reproducible = true\n")


@pytest.mark.few("[sync", "[replicas", "[parameter", "[omnivore", "[one-weird")
@pytest.mark.parametrize(("preset", "workers", "more"), PRESETS)
def test_frozen_layers_keep_their_bits_and_the_others_have_those_of_one_process(
    tmp_path: Path, trained: Path, single: Simulated, preset: str, workers: int, more: str
) -> None:
    run = tuned(tmp_path, trained, preset, workers, f"{more}reproducible = true\n")
    assert_kept(run, trained, LOWEST)
    assert run.arrays.keys() == single.arrays.keys()
    for name, array in single.arrays.items():
        assert run.arrays[name].tobytes() == array.tobytes(), name


@pytest.mark.parametrize("preset", OTHERS)
def test_frozen_layers_keep_their_bits_in_asynchronous_presets(
    tmp_path: Path, trained: Path, preset: str
) -> None:
    assert_kept(tuned(tmp_path, trained, preset, 2), trained, LOWEST)


def test_dense_layers_can_be_frozen_where_shards_divide_them(tmp_path: Path, trained: Path) -> None:
    frozen = (*LOWEST, "ip1")
    one = tuned(tmp_path / "one", trained, freeze=frozen)
    shards = tuned(
        tmp_path / "shards", trained, "one-weird-trick", 2, 'scheme = "b"\n', freeze=frozen
    )
    for run in (one, shards):
        assert_kept(run, trained, frozen)
    for name, array in one.arrays.items():
        np.testing.assert_allclose(shards.arrays[name], array, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize(("preset", "workers"), [("single", 1), ("sync", 2), ("replicas", 2)])
def test_a_resumed_run_with_frozen_layers_ends_with_the_bits_of_the_unbroken_one(
    tmp_path: Path, trained: Path, single: Simulated, preset: str, workers: int
) -> None:
    for name in ("whole", "rest"):
        cluster = frozen_cluster(tmp_path / name, trained, preset, workers, "reproducible = true\n")
        file = cluster.parent / "solver.prototxt"
        file.write_text(file.read_text().replace("snapshot: 0", "snapshot: 6"))
        if name == "rest":
            cluster.write_text(cluster.read_text().replace(f'weights = "{trained}"\n', ""))
            resume_from(cluster, "whole", 6)
        run = train(cluster)
        for array in single.arrays:
            assert run.arrays[array].tobytes() == single.arrays[array].tobytes(), array


def test_frozen_layers_come_back_from_a_state_that_was_in_memory(
    tmp_path: Path, trained: Path
) -> None:
    train(frozen_cluster(tmp_path / "before", trained))
    state = tmp_path / "16577"  # as in /proc/PID/fd, which gives no suffix
    state.write_bytes((tmp_path / "before" / "checkpoint-0000010.safetensors").read_bytes())
    cluster = frozen_cluster(tmp_path / "after", trained, "replicas", 2, iterations=12)
    text = cluster.read_text().replace("[train]\n", f'[train]\nresume = "{state}"\n', 1)
    cluster.write_text(text)
    assert_kept(train(cluster), trained, LOWEST)


def test_a_run_is_resumed_without_the_file_of_its_first_weights(
    tmp_path: Path, trained: Path
) -> None:
    weights = tmp_path / "weights.safetensors"
    weights.write_bytes(trained.read_bytes())
    cluster = frozen_cluster(tmp_path / "run", weights, iterations=2)
    assert run_up(cluster).returncode == 0
    weights.unlink()
    again = run_up(cluster, "--resume", "--set", "train.max_iter=3")
    assert again.returncode == 0, again.stderr
    assert "iteration 3/3" in again.stdout
    told = "train.weights: has no effect: the parameters of train.resume count"
    assert told in again.stderr


def test_a_resumed_run_may_not_let_layers_learn_whose_history_does_not_exist(
    tmp_path: Path, trained: Path
) -> None:
    train(frozen_cluster(tmp_path / "before", trained))
    cluster = cluster_of(tmp_path / "after", freeze=("conv1", "bn1"), iterations=20)
    resume_from(cluster, "before", 10)
    text = problems_of(cluster)
    assert "its run froze scale1: name them in train.freeze, or start with train.weights" in text


def test_a_frozen_batch_norm_uses_its_running_statistics_in_training(
    tmp_path: Path, trained: Path
) -> None:
    shapes = plan_of(frozen_cluster(tmp_path, trained))
    job = job_in(shapes)
    rows = job.batches(TRAIN, job.source(TRAIN)).read(0, 0, 20)
    arrays, _ = load(trained)
    found = []
    for phase in (TRAIN, TEST):
        net = Net(job.spec(TRAIN), phase, ops=get_backend("numpy"), batch=20)
        blobs = from_checkpoint(arrays, trained.name)
        net.fix({layer: blobs[layer] for layer in net.frozen})
        net.run(dict(zip(net.inputs, rows, strict=True)), blobs)
        found.append(net.blob("bn1"))
    np.testing.assert_array_equal(*found)


def plan_of(cluster: Path) -> Shapes:
    loaded = load_with_program(cluster)
    assert isinstance(loaded.options, Options)
    return Shapes(plan(loaded.config, loaded.options))


def bytes_to(shapes: Shapes, kind: type) -> int:
    """The bytes of all messages of one kind in an iteration."""
    return sum(
        size or 0
        for name, options in shapes.options.items()
        for _, message, size in options.sends(name, shapes)
        if message is kind
    )


def test_the_plan_counts_no_message_history_gradient_or_backward_pass_of_frozen_layers(
    tmp_path: Path, trained: Path
) -> None:
    whole = plan_of(frozen_cluster(tmp_path / "whole", trained, "sync", 2, freeze=()))
    part = plan_of(frozen_cluster(tmp_path / "part", trained, "sync", 2, freeze=("conv1", "bn1")))
    numbers = 8 * 16 + 8 + (8 + 8 + 1)
    for kind in (LayerGradient, LayerModel):
        assert bytes_to(whole, kind) - bytes_to(part, kind) == 2 * 4 * numbers, kind
    learned = {name: options.holds(name, part) for name, options in part.options.items()}
    assert sum(held.get("frozen parameters", 0) for held in learned.values()) == 2 * 4 * numbers
    before, after = (
        sum(of.get("history", 0) for of in (o.holds(n, s) for n, o in s.options.items()))
        for s in (whole, part)
    )
    assert before - after == 4 * (8 * 16 + 8)
    assert (
        volumes(whole.net(job_in(whole), "all")).backward
        > volumes(part.net(job_in(part), "all")).backward
    )


def job_in(shapes: Shapes) -> Job:
    found: Job = next(options.job for options in shapes.having("job").values())
    return found


def test_memory_of_a_pass_falls_when_nothing_below_a_layer_learns(
    tmp_path: Path, trained: Path
) -> None:
    sizes = []
    for name, freeze in (("whole", ()), ("part", ("conv*", "bn1", "scale1"))):
        shapes = plan_of(frozen_cluster(tmp_path / name, trained, freeze=freeze))
        sizes.append(shapes.net(job_in(shapes), "all").memory_plan.size)
    assert sizes[1] < sizes[0]


def test_test_and_time_and_predict_take_a_run_with_frozen_layers(
    tmp_path: Path, trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = frozen_cluster(tmp_path, trained, test=True)
    run = train(cluster)
    saved = str(tmp_path / run.journal.of("checkpoint")[-1]["file"])
    assert main(["test", saved, str(cluster)]) == 0
    assert "loss" in capsys.readouterr().out
    assert main(["time", str(cluster), "--iterations", "1"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["conv1", "Convolution"] in [row[:2] for row in rows]
    assert main(["predict", saved, "--data", "format=digits,split=test", "--top", "1"]) == 0
