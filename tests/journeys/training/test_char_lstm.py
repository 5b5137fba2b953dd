"""The zoo's char_lstm in processes and on virtual time, with the presets of the papers."""

from __future__ import annotations

import string
from pathlib import Path
from statistics import fmean

import numpy as np
import pytest

from nets.definition.spec import ZOO
from nets.files import checkpoint
from tests.helpers.recurrent_runs import same_arrays
from tests.helpers.support import events, run_directory, run_up, train

pytestmark = [pytest.mark.usefixtures("one_thread"), pytest.mark.slow]

ALPHABET = (string.ascii_letters + string.digits + " .,")[:65]
REPRODUCIBLE = "reproducible = true\n"
PRESETS = ["omnivore", "sync", "replicas", "firecaffe", "parameter-server", "sparknet"]
NATS = 0.05
LAST = 20  # iterations whose losses are averaged


def configured(
    folder: Path,
    preset: str,
    workers: int,
    iterations: int,
    *,
    snapshot: int = 0,
    size: int = 64,
    strategy: str = "",
) -> Path:
    """Write the cluster.toml of char_lstm, whose states go on for 4 batches, and its text. With a
    `size` below 64, it has fewer streams, steps and units."""
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(1)
    followers = random.integers(0, len(ALPHABET), (len(ALPHABET), 4))
    letters = [0]
    for choice in random.integers(0, 4, size * size * 64):
        letters.append(int(followers[letters[-1], choice]))
    net = (ZOO / "char_lstm.prototxt").read_text()
    for old, new in (
        ("dim: 64 dim: 64", f"dim: {size} dim: {size}"),
        ("num_output: 256", f"num_output: {4 * size}"),
    ):
        assert net.count(old) == 1
        net = net.replace(old, new)
    (folder / "net.prototxt").write_text(net)
    (folder / "input.txt").write_text("".join(ALPHABET[letter] for letter in letters))
    (folder / "solver.prototxt").write_text(
        'net: "net.prototxt" type: "Adam" base_lr: 0.01 momentum: 0.9 momentum2: 0.999 '
        f'lr_policy: "fixed" max_iter: {iterations} display: 1 snapshot: {snapshot}\n'
    )
    cluster = folder / "cluster.toml"
    cluster.write_text(
        '[train]\nsolver = "solver.prototxt"\n[train.data]\nshuffle = true\n'
        f'train = {{ format = "text", source = "input.txt", streams = {size}, length = {4 * size}, '
        f'alphabet = "{ALPHABET}" }}\n[train.strategy]\npreset = "{preset}"\n'
        + (f"workers = {workers}\n" if preset != "single" else "")
        + strategy
    )
    return cluster


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run of one worker, in a process."""
    cluster = configured(tmp_path_factory.mktemp("alone"), "single", 1, 6, strategy=REPRODUCIBLE)
    done = run_up(cluster)
    assert done.returncode == 0, done.stderr
    return run_directory(cluster)


@pytest.mark.parametrize("workers", [2, 4])
@pytest.mark.parametrize("preset", PRESETS)
def test_each_preset_trains_it_in_processes_and_over_a_resume(
    tmp_path: Path, alone: Path, preset: str, workers: int
) -> None:
    """Presets that equal one process leave its bits. The mean of `sparknet` is another model."""
    sums = preset != "sparknet"
    strategy = REPRODUCIBLE if sums else ""
    cluster = configured(tmp_path, preset, workers, 6, snapshot=3, strategy=strategy)
    done = run_up(cluster)
    assert done.returncode == 0, done.stderr
    first = run_directory(cluster)
    again = run_up(cluster, "--set", f"train.resume={first}/checkpoint-0000003.safetensors")
    assert again.returncode == 0, again.stderr
    expected = [entry["loss"] for entry in events(alone, "progress")]
    wanted, _ = checkpoint.load(alone / "checkpoint-0000006.safetensors")
    for run, begin in ((first, 0), (run_directory(cluster), 3)):
        losses = [entry["loss"] for entry in events(run, "progress")]
        if sums:
            assert losses == expected[begin:]
            found, _ = checkpoint.load(run / "checkpoint-0000006.safetensors")
            same_arrays(found, wanted)
        else:
            assert losses[0] == pytest.approx(expected[0], abs=1e-4) or begin
            assert losses[-1] < expected[0]


def test_four_groups_learn_as_much_as_one_worker_from_the_same_samples(tmp_path: Path) -> None:
    alone = train(configured(tmp_path / "alone", "single", 1, 400, size=16)).losses()
    groups = "groups = 4\n"
    apart = train(configured(tmp_path / "apart", "omnivore", 4, 400, size=16, strategy=groups))
    assert fmean(apart.losses()[-LAST:]) <= fmean(alone[-LAST:]) + NATS
