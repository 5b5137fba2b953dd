"""Pad and crop, flips, erased boxes, mean and deviation: what each does to an image, and that it
depends on nothing but the seed and the sample."""

from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from nets import DataError
from nets.data import Augment, Batches, MemorySource, Mixing, Prefetcher, Transform, open_source
from nets.data.augmentation.randaugment import RandAugment
from nets.data.augmentation.transform import alternate_flips
from nets.data.batches import prefetch

IMAGES = np.random.default_rng(1).integers(1, 256, (40, 3, 12, 10), np.uint8)
LABELS = np.arange(40) % 5
PLACES = np.arange(40, dtype=np.int64)
SOURCE = MemorySource("memory", IMAGES, LABELS)
ALL = Augment(
    0.2, 0.2, 0.2, 0.1, order="rgb", pad=3, padding="reflect", flip="alternating", erase=0.5,
    randaugment=RandAugment(2, 9),
)  # fmt: skip


def transformed(augment, train=True, seed=1, **more):
    mirror = bool(augment.flip)
    return Transform(augment=augment, mirror=mirror, **more)(IMAGES, PLACES, seed=seed, train=train)


def batches(augment=ALL, batch=16, mixing=None, shuffle=True, seed=3):
    transform = Transform(augment=augment, mirror=bool(augment.flip), mean=(120.0,), scale=0.01)
    return Batches(SOURCE, transform, batch, shuffle=shuffle, seed=seed, train=True, mixing=mixing)


@pytest.mark.parametrize("padding", ["black", "reflect"])
@pytest.mark.parametrize("crop", [0, 8])
def test_an_image_is_padded_and_cut_out_at_every_place(padding, crop):
    found = transformed(Augment(pad=2, padding=padding), crop=crop)
    high, wide = (crop, crop) if crop else (12, 10)
    assert found.shape == (40, 3, high, wide)
    mode = {"black": "constant", "reflect": "reflect"}[padding]
    seen = set()
    for image, cut in zip(IMAGES, found, strict=True):
        whole = np.pad(image, ((0, 0), (2, 2), (2, 2)), mode=mode)
        tops, lefts = whole.shape[1] - high + 1, whole.shape[2] - wide + 1
        matches = [
            (top, left)
            for top in range(tops)
            for left in range(lefts)
            if (whole[:, top : top + high, left : left + wide] == cut).all()
        ]
        assert matches
        seen |= {matches[0]}
    assert len({top for top, _ in seen}) > 3
    assert len({left for _, left in seen}) > 3


def test_tests_see_images_without_padding_flips_or_erased_boxes():
    assert (transformed(ALL, train=False) == IMAGES).all()


def test_padding_moves_a_mean_image_with_the_image():
    same = np.repeat(IMAGES[:1], 40, 0)
    mean = IMAGES[0].astype(np.float32)
    for padding in ("black", "reflect"):
        transform = Transform(augment=Augment(pad=3, padding=padding), mean_image=mean)
        assert (transform(same, PLACES, seed=1, train=True) == 0).all()


def test_a_random_flip_is_drawn_for_each_position_as_caffes_mirror():
    by_key = transformed(Augment(flip="random"))
    by_net = Transform(mirror=True)(IMAGES, PLACES, seed=1, train=True)
    assert (by_key == by_net).all()


def test_alternating_flips_show_each_image_once_from_each_side_in_two_epochs():
    source = batches(Augment(flip="alternating"), 10)
    epochs = []
    for epoch in range(4):
        sides = np.zeros(40, bool)
        images = source.samples(40 * epoch, 40 * epoch + 40)[0]
        for index, image in zip(source.indices(40 * epoch, 40 * epoch + 40), images, strict=True):
            plain = (IMAGES[index].astype(np.float32) - 120) * np.float32(0.01)
            sides[index] = np.allclose(image, plain[:, :, ::-1])
            assert sides[index] or np.allclose(image, plain)
        epochs.append(sides)
    assert (epochs[0] != epochs[1]).all()
    assert (epochs[0] == epochs[2]).all()
    assert (epochs[1] == epochs[3]).all()
    assert 8 < epochs[0].sum() < 32, "the seed mirrors about half of the images in the first epoch"


def test_alternating_flips_differ_between_seeds_and_not_between_calls():
    first = alternate_flips(1, PLACES, PLACES * 0)
    assert (first == alternate_flips(1, PLACES, PLACES * 0)).all()
    assert (first != alternate_flips(2, PLACES, PLACES * 0)).any()


def test_a_box_of_some_images_is_erased_after_the_mean_is_subtracted():
    many = np.full((2000, 3, 20, 30), 200, np.uint8)
    transform = Transform(augment=Augment(erase=0.25), mean=(100.0,))
    found = transform(many, np.arange(2000), seed=1, train=True)
    zero = (found == 0).all(1)
    assert set(np.unique(found)) == {0, 100}
    shares = zero.mean((1, 2))
    chosen = shares > 0
    assert chosen.mean() == pytest.approx(0.25, abs=0.03)
    assert 0.015 < shares[chosen].min() < 0.05
    assert 0.28 < shares[chosen].max() < 0.35
    for image in zero[chosen][:50]:
        rows, columns = np.flatnonzero(image.any(1)), np.flatnonzero(image.any(0))
        box = image[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
        assert box.all(), "the erased part is a rectangle"
        assert 0.2 < len(columns) / len(rows) < 4.5


def test_all_or_no_images_are_erased_at_the_ends_of_the_range():
    assert (transformed(Augment(erase=1.0)) == 0).any((1, 2, 3)).all()
    assert not (transformed(Augment(pad=0, flip="random", erase=0.0)) == 0).any()


def test_mean_and_deviation_per_channel_apply_in_training_and_in_tests():
    transform = Transform(mean=(10.0, 20.0, 30.0), deviation=(2.0, 4.0, 8.0))
    expected = (IMAGES - np.array([10, 20, 30])[:, None, None]) / np.array([2, 4, 8])[:, None, None]
    for train in (True, False):
        found = transform(IMAGES, PLACES, seed=1, train=train)
        assert found.dtype == np.float32
        assert np.abs(found - expected).max() < 1e-4


@pytest.mark.parametrize("mixing", [None, Mixing(0.2, 1.0, 5, 16)])
@pytest.mark.parametrize("order", [[(0, 16)], [(0, 5), (5, 16)], [(9, 16), (0, 1), (1, 9)]])
def test_a_batch_is_the_same_however_it_is_divided_over_workers(mixing, order):
    source = batches(mixing=mixing)
    for ticket in (0, 3):
        whole = batches(mixing=mixing).read(ticket, 0, 16)
        parts = sorted((low, source.read(ticket, low, high)) for low, high in order)
        for at, array in enumerate(whole):
            assert (np.concatenate([arrays[at] for _, arrays in parts]) == array).all()


@pytest.mark.parametrize("mixing", [None, Mixing(0.2, 1.0, 5, 80)])
@pytest.mark.parametrize("threads", [2, 3, 5])
def test_a_batch_is_the_same_with_any_number_of_threads(threads, mixing, monkeypatch):
    monkeypatch.setattr(prefetch, "LEAST_NUMBERS", 360)
    expected = batches(batch=80, mixing=mixing).samples(80, 160)
    spans = []

    class Noting(Batches):
        def samples(self, low, high, into=None):
            spans.append((low, high))
            return super().samples(low, high, into)

    divided = batches(batch=80, mixing=mixing)
    divided.__class__ = Noting
    with Prefetcher(divided, threads=threads) as ahead:
        assert ahead.request(80, 160)
        for one, other in zip(ahead.get(80, 160), expected, strict=True):
            assert (one == other).all()
    assert len(spans) == threads
    assert min(low for low, _ in spans) == 80
    assert max(high for _, high in spans) == 160


def test_a_thread_gets_some_images_and_at_least_one(monkeypatch):
    spans = []

    class Noting(Batches):
        def samples(self, low, high, into=None):
            spans.append(high - low)
            return super().samples(low, high, into)

    read = Noting(SOURCE, Transform(), 40, shuffle=False, seed=1, train=True)
    for least, rows, expected in ((360 * 10, 40, 4), (360 * 30, 40, 1), (1, 3, 3)):
        monkeypatch.setattr(prefetch, "LEAST_NUMBERS", least)
        spans.clear()
        with Prefetcher(read, threads=8) as ahead:
            assert len(ahead.get(0, rows)[0]) == rows
        assert len(spans) == expected
        assert sum(spans) == rows


def test_the_images_of_a_resumed_run_are_those_of_a_run_in_one_piece():
    mixing = Mixing(0.2, 1.0, 5, 16)
    whole = batches(mixing=mixing)
    run = [whole.read(ticket, 0, 16) for ticket in range(8)]
    resumed = batches(mixing=mixing)
    for ticket in range(5, 8):
        for one, other in zip(resumed.read(ticket, 0, 16), run[ticket], strict=True):
            assert (one == other).all()
    assert any((one != other).any() for one, other in zip(run[0], run[1], strict=True))


@pytest.mark.parametrize(
    ("augment", "shape", "expected"),
    [
        (Augment(pad=4), (8,), "augment: found samples of shape (8,), expected images"),
        (Augment(pad=8), (3, 8, 9), "augment: pad: found 8, expected at most 7 for images of 8 x"),
        (Augment(pad=2, scale=(0.5, 1.0)), (3, 8, 8), "augment: pad: given together with 'scale'"),
        (
            Augment(randaugment=RandAugment()),
            (4, 8, 8),
            "augment: randaugment: found images of 4 channels, expected 1 or 3",
        ),
    ],
)
def test_changes_that_the_images_do_not_allow_are_refused(augment, shape, expected):
    with pytest.raises(DataError) as error:
        augment.check(shape)
    assert expected in str(error.value)


def test_a_share_for_several_threads_reports_the_damaged_sample(monkeypatch):
    monkeypatch.setattr(prefetch, "LEAST_NUMBERS", 360)

    class Damaged(MemorySource):
        def read(self, indices):
            if 37 in indices:
                raise DataError("image 37 is damaged")
            return super().read(indices)

    source = Damaged("damaged", IMAGES, LABELS)
    read = Batches(source, Transform(), 40, shuffle=False, seed=1, train=True)
    with Prefetcher(read, threads=2) as ahead:
        assert ahead.request(0, 40)
        with pytest.raises(DataError, match="image 37 is damaged"):
            ahead.get(0, 40)
        assert len(ahead.get(0, 30)[0]) == 30


@pytest.mark.parametrize("color", ["color", "gray"])
def test_encoded_images_are_augmented_as_arrays_in_memory_are(tmp_path, color):
    planes = 3 if color == "color" else 1
    lines = []
    for at, image in enumerate(IMAGES[:, :planes]):
        pixels = image[0] if planes == 1 else np.moveaxis(image[::-1], 0, 2)
        Image.fromarray(np.ascontiguousarray(pixels)).save(tmp_path / f"{at}.png")
        lines.append(f"{at}.png {LABELS[at]}")
    (tmp_path / "list.txt").write_text("\n".join(lines))
    said = {"format": "images", "source": "list.txt", "color": color}
    encoded = open_source(said, tmp_path)
    held = MemorySource("memory", np.ascontiguousarray(IMAGES[:, :planes]), LABELS)
    augment = replace(ALL, order="bgr", saturation=0.0, lighting=0.0)
    found, expected = (
        Batches(
            source, Transform(augment=augment, mirror=True), 16, shuffle=True, seed=3, train=True,
            mixing=Mixing(0.2, 1.0, 5, 16),
        ).samples(3, 30)
        for source in (encoded, held)
    )  # fmt: skip
    for one, other in zip(found, expected, strict=True):
        assert (one == other).all()
