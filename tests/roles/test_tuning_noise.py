"""The noise scale on problems with known noise; the gradients that a model server examines, and its
page about them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from roles.messages import LayerGradient
from roles.tuning.momentum import compensated, total
from roles.tuning.noise import NoiseScale, efficiency, gain
from roles.tuning.watch import BURST, LAYERS, PERIOD, GradientWatch, Leaves
from tests.helpers.support import configure, train

SIZE = 200
BATCH = 64
TRUE = np.linspace(0.0, 0.4, SIZE)
SPREAD = 3.0  # standard deviation of one image's gradient
SCALE = SIZE * SPREAD**2 / float(TRUE @ TRUE)


def gradient(draw: np.random.Generator, images: int) -> np.ndarray:
    return (TRUE + SPREAD / np.sqrt(images) * draw.normal(size=SIZE)).astype(np.float32)


def sent(
    number: int,
    blob: np.ndarray,
    part: int = 0,
    parts: int = 1,
    *,
    layer: str = "ip",
    **leaves: Any,
) -> LayerGradient:
    return LayerGradient(
        group=0,
        number=number,
        layer=layer,
        part=part,
        parts=parts,
        formats=("float32",),
        blobs=(blob,),
        **leaves,
    )


@pytest.mark.parametrize("members", [2, 4])
def test_parts_of_members_give_the_noise_scale(members: int) -> None:
    noise = NoiseScale(BATCH)
    draw = np.random.default_rng(1)
    for _ in range(1500):
        parts = [gradient(draw, BATCH // members) / members for _ in range(members)]
        noise.parts(sum(float(part @ part) for part in parts), members, np.sum(parts, axis=0))
    measured = noise.measured()
    assert measured is not None
    assert measured.value == pytest.approx(SCALE, abs=4 * measured.error)
    assert measured.error < 0.1 * SCALE


def test_successive_gradients_of_groups_give_it_too() -> None:
    noise = NoiseScale(BATCH)
    draw = np.random.default_rng(1)
    for _ in range(1500):
        noise.successive(gradient(draw, BATCH), gradient(draw, BATCH))
    measured = noise.measured()
    assert measured is not None
    assert measured.value == pytest.approx(SCALE, abs=4 * measured.error)


def test_gradients_of_batches_of_different_sizes_give_one_scale() -> None:
    noise = NoiseScale(BATCH)
    draw = np.random.default_rng(1)
    for at in range(1500):
        batch = BATCH * (1 + 3 * (at % 2))
        noise.successive(gradient(draw, batch), gradient(draw, batch), batch=batch)
        parts = [gradient(draw, batch // 2) / 2 for _ in range(2)]
        noise.parts(
            sum(float(part @ part) for part in parts), 2, np.sum(parts, axis=0), batch=batch
        )
    measured = noise.measured()
    assert measured is not None
    assert measured.value == pytest.approx(SCALE, abs=4 * measured.error)
    assert measured.error < 0.1 * SCALE


@pytest.mark.parametrize("members", [2, 3, 4])
def test_a_tree_of_reducers_gives_the_same_scale_as_the_parts(members: int) -> None:
    """A tree of these members has two reducers, or a reducer and a worker, below the model
    server."""
    through = GradientWatch(["ip"], BATCH)
    direct = GradientWatch(["ip"], BATCH)
    draw = np.random.default_rng(1)
    for number in range(BURST):
        found = [
            (gradient(draw, BATCH // members) / members).astype(np.float32) for _ in range(members)
        ]
        total = np.sum(found, axis=0, dtype=np.float32)
        for rank, part in enumerate(found):
            direct.part(sent(number, part, rank, members), (part,))
        for at, below in enumerate((found[:2], found[2:])):
            leaves = Leaves()
            for rank, part in enumerate(below):
                leaves.add(number, sent(number, part, rank, len(below)), (part,))
            count, squares = leaves.of(number)
            if len(below) == 1:
                through.part(sent(number, below[0], at, 2), (below[0],))
            elif below:
                whole = np.sum(below, axis=0)
                through.part(sent(number, whole, at, 2, leaves=count, squares=squares), (whole,))
        for watch in (through, direct):
            watch.whole(number, "ip", (total,))
    assert str(through.noise) == str(direct.noise)
    measured = through.noise_scale()
    assert measured is not None
    assert measured.value == pytest.approx(SCALE, abs=4 * measured.error)


def test_pure_noise_has_no_scale() -> None:
    noise = NoiseScale(BATCH)
    draw = np.random.default_rng(1)
    for _ in range(1500):
        noise.successive(
            draw.normal(size=SIZE).astype(np.float32), draw.normal(size=SIZE).astype(np.float32)
        )
    assert noise.measured() is None


def test_an_image_of_a_larger_batch_is_worth_less_the_less_noise_there_is() -> None:
    assert efficiency(100.0, 64, 64) == 1.0
    assert efficiency(1e9, 128, 64) == pytest.approx(1.0)
    assert efficiency(0.0, 128, 64) == 0.5


def test_an_iteration_with_a_larger_batch_has_the_gain_of_adascale() -> None:
    assert gain(0.0, 256, 64) == 1.0  # without noise, nothing is gained
    # with noise only, the gain is the ratio of the batches
    assert gain(1e12, 256, 64) == pytest.approx(4.0)
    variance = 3.0  # the variance of the gradient of a batch of 64
    square = 2.0
    scale = 4
    expected = (variance + square) / (variance / scale + square)  # Johnson et al. 2020, equation 3
    assert gain(64 * variance / square, 64 * scale, 64) == pytest.approx(expected)


def test_only_a_burst_of_updates_and_some_layers_are_looked_at() -> None:
    watch = GradientWatch([f"layer{n}" for n in range(20)], BATCH)
    blobs = (np.ones((30, 40), np.float32),)
    for layer, number in (("layer0", BURST), ("layer0", PERIOD - 1), ("layer1", 0)):
        watch.part(sent(number, blobs[0], layer=layer), blobs)
        watch.whole(number, layer, blobs)
    assert not watch._seen
    assert len(watch._momenta) <= LAYERS
    watch.part(sent(PERIOD, blobs[0], layer="layer0"), blobs)
    watch.whole(PERIOD, "layer0", blobs)
    assert watch._seen["layer0"].weight == pytest.approx(1200 / 240)


def test_a_gradient_that_overflows_is_left_out_silently() -> None:
    watch = GradientWatch(["ip"], BATCH)
    blobs = (np.array([1e30, np.inf, np.nan], np.float32),)
    for version in range(20):
        for rank in range(2):
            watch.part(sent(version, blobs[0], rank, 2), blobs)
        watch.whole(version, "ip", blobs)
        watch.applied("ip", 0, version + 1, 0)
    assert watch.noise_scale() is None
    assert watch.by_gradients() is None


@pytest.mark.slow
def test_the_page_of_a_model_server_shows_momentum_and_noise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from roles.servers import gradient_gauges

    monkeypatch.setattr(gradient_gauges, "EVERY", 16)
    monkeypatch.setattr(gradient_gauges, "CLEAR", 100.0)
    shown: dict[tuple[str, str], float] = {}
    actor = gradient_gauges.GradientGauges

    def kept(self: gradient_gauges.GradientGauges, iterations: int, explicit: float) -> None:
        original(self, iterations, explicit)
        page = self._actor._runtime.host.metrics.text()
        for line in page.splitlines():
            if line.startswith(
                ("convoy_implicit_momentum", "convoy_total_momentum", "convoy_gradient_noise")
            ):
                name, value = line.rsplit(" ", 1)
                shown[name.partition("{")[0], name.partition('by="')[2].partition('"')[0]] = float(
                    value
                )

    original = actor.show
    monkeypatch.setattr(actor, "show", kept)
    draw = np.random.default_rng(1)
    # 128 pairs of gradients are needed
    cluster = configure(tmp_path, "omnivore", workers=4, groups=2, iterations=140)
    train(
        cluster,
        service_time=lambda actor, label: float(draw.exponential(0.01)) * label.startswith("back"),
    )
    assert shown["convoy_implicit_momentum_ratio", "groups"] == 0.5
    by_staleness = shown["convoy_implicit_momentum_ratio", "staleness"]
    assert 0.0 <= by_staleness < 1.0
    together = total(compensated(0.9, 1), by_staleness)
    assert shown["convoy_total_momentum_ratio", ""] == pytest.approx(together, abs=1e-5)
    assert shown["convoy_gradient_noise_images", ""] > 0
