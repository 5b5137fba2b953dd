"""`benchmarks.cifar94`: the port to PyTorch computes our net, and trials are judged and kept."""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.cifar94 import cifar94
from benchmarks.cifar94.sides import TESTS, TRAIN, Failed, Size, Trial, Variant
from benchmarks.helpers.report import Record
from benchmarks.tuning.kept import Kept
from nets import (
    Net,
    OptimizerSettings,
    RateSchedule,
    SolverExtras,
    WeightAverage,
    load_net,
    load_solver,
)
from ops import get_backend, lacking
from roles.learning.parameter_store import ParameterStore
from roles.recipes import RECIPES
from tests.nets.support import backward

UPDATES = 11  # two steps of Lookahead, and one update after them
REASON = "torch is not installed: the extra `reference` brings it"


def our_net(phase: str, rows: int) -> Net:
    spec = load_net("airbench94")
    return Net(
        spec,
        phase,
        ops=get_backend("numpy"),
        input_shape=(3, 32, 32),
        batch=rows,
        dtype=np.float64,
    )


def test_the_port_has_our_nets_parameters_and_with_equal_weights_its_loss_and_scores() -> None:
    torch = pytest.importorskip("torch", reason=REASON)
    from benchmarks.cifar94 import port

    net = our_net("TRAIN", 6)
    rng = np.random.default_rng(2)
    blobs = {
        layer: tuple(
            blob if spec.keep is not None else rng.normal(0.1, 0.2, blob.shape)
            for spec, blob in zip(net.params[layer], of, strict=True)
        )
        for layer, of in net.initial_blobs().items()
    }
    weights = [
        blob
        for layer, of in blobs.items()
        for spec, blob in zip(net.params[layer], of, strict=True)
        if spec.keep is None
    ]
    theirs = port.net_of().double()
    parameters = list(theirs.parameters())
    assert sum(p.numel() for p in parameters) == sum(blob.size for blob in weights)
    for parameter, blob in zip(parameters, weights, strict=True):
        parameter.data.copy_(torch.from_numpy(blob))
    images = rng.normal(size=(6, 3, 32, 32))
    labels = np.arange(6)
    found = net.run({"data": images, "label": labels.astype(np.float64)}, blobs)
    scores = theirs(torch.from_numpy(images))
    loss = torch.nn.functional.cross_entropy(
        scores, torch.from_numpy(labels), label_smoothing=port.SMOOTHING
    )
    np.testing.assert_allclose(net.blob("scores"), scores.detach().numpy(), rtol=1e-8, atol=1e-9)
    assert found["loss"] == pytest.approx(loss.item(), rel=1e-9)


def test_the_port_begins_as_our_net_whitens_and_learns_at_the_same_rates() -> None:
    torch = pytest.importorskip("torch", reason=REASON)
    from benchmarks.cifar94 import port
    from nets.definition.whitening import covariance, whitening_filters

    net = our_net("TRAIN", 2)
    images = np.random.default_rng(5).normal(size=(20, 3, 32, 32)).cumsum(3).astype(np.float32)
    theirs = port.net_of()
    port.whiten(theirs[0], torch.from_numpy(images))
    ours = whitening_filters(covariance(images, (2, 2)))
    found = theirs[0].weight.numpy().reshape(24, 12)
    np.testing.assert_array_equal(found[12:], -found[:12])
    signs = np.sign((found[:12] * ours).sum(axis=1))[:, None]  # an eigenvector has any sign
    np.testing.assert_allclose(found[:12], signs * ours, rtol=0.01, atol=0.01)
    (scale, bias) = net.params["block2_conv1_bias"]
    assert (scale.lr_mult, bias.lr_mult, bias.decay_mult) == (
        0,
        port.FASTER_BIASES,
        1 / port.FASTER_BIASES,
    )
    first = net.initial_blobs()["block2_conv1"][0]
    np.testing.assert_array_equal(first[:64], theirs[9].weight.detach().numpy()[:64])
    assert pytest.approx(1.5) == port.RATE


def test_updates_of_the_recipe_without_decay_give_the_ports_weights() -> None:
    """Schedule, Nesterov's momentum, the rates of biases and Lookahead, in float64. The decay is left
    out, since ours is decoupled."""
    torch = pytest.importorskip("torch", reason=REASON)
    from benchmarks.cifar94 import port

    said = RECIPES["airbench94"]
    rising = int(UPDATES * 0.23)
    schedule = {key: said["schedule"][key] for key in ("warmup_from", "end")}
    extras = SolverExtras(
        optimizer=OptimizerSettings(numbers={"momentum": said["momentum"]}),
        schedule=RateSchedule(said["schedule"]["type"], rising, **schedule),
        average=WeightAverage(**said["ema"] | {"decay": port.KEPT}),
    )
    values = {"max_iter": UPDATES, "weight_decay": 0.0, "momentum": said["momentum"]}
    values |= {"base_lr": said["base_lr"] / 100}  # so that a few updates of few images stay finite
    solver = load_solver("airbench94_solver", values, extras)
    net = our_net("TRAIN", 4)
    rng = np.random.default_rng(8)
    batches = [(rng.normal(size=(4, 3, 32, 32)), rng.integers(0, 10, 4)) for _ in range(UPDATES)]
    store = ParameterStore(net.params, net.initial_blobs(), solver, net.ops)
    theirs = port.net_of().double()
    for parameter, blob in zip(theirs.parameters(), learned(net, store, "TRAIN"), strict=True):
        parameter.data.copy_(torch.from_numpy(blob))
    for step, (images, labels) in enumerate(batches):
        blobs = {layer: store.read(layer) for layer in store.layers}
        net.run({"data": images, "label": labels.astype(np.float64)}, blobs, step)
        store.apply_all(backward(net))

    class Given:
        def __len__(self) -> int:
            return UPDATES

        def epoch(self, number: int) -> list[tuple[Any, Any]]:
            return [tuple(map(torch.from_numpy, batch)) for batch in batches]

    trainer = port.Trainer(theirs, half=False, compiled=False, rate=port.RATE / 100, decay=0.0)
    trainer.train(Given(), 1)
    for parameter, blob in zip(theirs.parameters(), learned(net, store, "TEST"), strict=True):
        np.testing.assert_allclose(blob, parameter.detach().numpy(), rtol=1e-6, atol=1e-8)


def learned(net: Net, store: ParameterStore, phase: str) -> list[Any]:
    """The arrays that are not running statistics, in the order of the layers."""
    return [
        blob
        for layer in store.layers
        for spec, blob in zip(net.params[layer], store.read(layer, phase), strict=True)
        if spec.keep is None
    ]


def trial(seconds: float, share: float) -> Trial:
    return Trial(seconds, 1.0, {images: {"plain": 0.5, "flips": share} for images in TESTS})


@pytest.mark.parametrize(
    ("mine", "theirs", "status"),
    [
        (trial(40, 0.938), trial(100, 0.940), "passed"),
        (trial(40, 0.936), trial(100, 0.940), "failed"),
        (trial(60, 0.950), trial(100, 0.940), "failed"),
        (trial(40, 0.940), None, "skipped"),
    ],
)
def test_a_mean_is_compared_with_the_ports_by_accuracy_and_by_seconds(
    mine: Trial, theirs: Trial | None, status: str
) -> None:
    record = Record("r")
    cifar94.judged(record, [mine], [theirs] if theirs else None)
    assert record.status == status


def test_the_fastest_variant_counts_its_compilation_and_one_that_fails_is_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = {
        Variant(): (1.0, 1.0),
        Variant(compiled=True): (90.0, 0.8),
        Variant(half=True): (2.0, 0.9),
    }

    def pace(data: Path, size: Size, variant: Variant, updates: int) -> tuple[float, float]:
        if variant not in times:
            raise Failed("no compiler\n")
        return times[variant]

    monkeypatch.setattr(cifar94, "pace", pace)
    record = Record("r")
    size = Size(epochs=1, threads=2)
    kept = Kept(tmp_path / "kept.jsonl")
    assert cifar94.fastest(record, tmp_path, size, kept) == Variant(half=True)
    assert record.notes == ["bfloat16, torch.compile does not work here: no compiler"]
    times.clear()
    assert cifar94.fastest(record, tmp_path, size, kept) == Variant(half=True)


def test_missing_files_are_named_before_anything_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        cifar94.main(["--data", str(tmp_path)])
    assert f"--data: {tmp_path} has no data_batch_1.bin.gz" in capsys.readouterr().err


@pytest.mark.slow
def test_our_side_trains_and_scores_both_files_and_a_trial_that_is_kept_is_not_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    rng = np.random.default_rng(7)
    # six updates: the recipe's average changes after every fifth
    for name, count in (*((name, 20) for name in TRAIN), *((name, 20) for name in TESTS.values())):
        records = rng.integers(0, 256, (count, 3073), np.uint8)
        records[:, 0] %= 10
        (data / name).write_bytes(gzip.compress(records.tobytes()))
    monkeypatch.setattr(cifar94, "missing", lambda modules: ["torch"])
    words = [
        "--data",
        str(data),
        "--seeds",
        "1",
        "--batch",
        "16",
        "--epochs",
        "1",
        "--threads",
        "1",
    ]
    words += ["--kept", str(tmp_path / "kept.jsonl"), "--results", str(tmp_path / "results")]
    assert cifar94.main(words) == 0
    (result,) = (tmp_path / "results").glob("cifar94-*.json")
    (row,) = json.loads(result.read_text())["parts"]["cifar94"]["tables"][0]["rows"]
    assert row[:2] == [f"Convoy, {'fast' if lacking('cpu', 'bf16') else 'bf16'}", 1]
    assert row[2] > 0
    assert math.isfinite(row[3])
    assert all(0 <= share <= 1 for share in row[4:8])

    def made_again(data: Path, size: Size, precision: str, seed: int) -> Trial:
        raise AssertionError

    monkeypatch.setattr(cifar94, "ours", made_again)
    assert cifar94.main(words) == 0
