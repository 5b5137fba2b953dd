"""The kernel that transforms images of bytes gives the host's images, with drawn settings."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nets.data import Augment, Batches, MemorySource, Transform, on_device
from ops import ImageForm, OpsError
from ops.backends.cupy_backend import CupyBackend
from roles.learning.readers import reader_of
from tests.ops.host_cupy import HostCupy

COUNT = 13  # images
LEVEL = 0.01  # of the 256 levels of a byte: the two may round a product differently


@pytest.fixture(scope="module")
def device() -> CupyBackend:
    try:
        return CupyBackend(xp=HostCupy())
    except OpsError as missing:
        pytest.skip(str(missing))


def numbers(channels: int, low: float, high: float) -> st.SearchStrategy[tuple[float, ...]]:
    """No number, one, or one for each channel."""
    one = st.floats(low, high, width=32)
    return st.sampled_from(sorted({0, 1, channels})).flatmap(
        lambda count: st.lists(one, min_size=count, max_size=count).map(tuple)
    )


def augments(most: int) -> st.SearchStrategy[Augment | None]:
    """All changes that a device makes, with at most so many added pixels."""
    return st.none() | st.builds(
        Augment,
        pad=st.integers(0, most),
        flip=st.sampled_from(["", "random", "alternating"]),
        erase=st.sampled_from([0.0, 0.5, 1.0]),
    )


@st.composite
def cases(draw: st.DrawFn) -> tuple[tuple[int, int, int], Transform]:
    """The shape of the images, and a transform of them."""
    channels, high, wide = (
        draw(st.sampled_from([1, 3])),
        *draw(st.tuples(*[st.integers(2, 19)] * 2)),
    )
    shape, side = (channels, high, wide), min(high, wide)
    found = Transform(
        scale=draw(st.sampled_from([1.0, 1 / 256, 0.017])),
        crop=draw(st.just(0) | st.integers(1, side)),
        mirror=draw(st.booleans()),
        deviation=draw(numbers(channels, 1, 200)),
        augment=draw(augments(side - 1)),
        phase=draw(st.sampled_from(["", "TRAIN", "TEST"])),
    )
    if draw(st.booleans()):
        image = np.random.default_rng(draw(st.integers(0, 9))).uniform(0, 255, shape)
        return shape, replace(found, mean_image=image.astype(np.float32))
    turned = channels == 3 and draw(st.booleans())
    return shape, replace(found, mean=draw(numbers(channels, 0, 255)), rgb=turned, turned=turned)


@given(case=cases(), train=st.booleans(), seed=st.integers(0, 99), low=st.integers(0, 2 * COUNT))
@settings(deadline=None)
def test_a_device_gives_the_hosts_images_with_all_settings_that_it_takes(
    device: CupyBackend,
    case: tuple[tuple[int, int, int], Transform],
    train: bool,
    seed: int,
    low: int,
) -> None:
    shape, transform = case
    images = np.random.default_rng(seed).integers(0, 256, (COUNT, *shape), dtype=np.uint8)
    source = MemorySource("images", images, np.arange(COUNT), COUNT)
    read = Batches(source, transform, 8, shuffle=True, seed=seed, train=train)
    assert on_device(read)
    with reader_of(read, device, None, on_gpu=True) as reader:
        found: Any = reader.get(low, low + 8)
    expected = read.samples(low, low + 8)
    level = transform.scale / np.array(transform.deviation or (1.0,), np.float32)[:, None, None]
    assert found[0].shape == expected[0].shape and found[0].dtype == np.float32
    assert (abs(found[0] - expected[0]) <= LEVEL * level).all()
    assert (found[1] == expected[1]).all()


def test_a_mean_image_of_another_size_is_refused(device: CupyBackend) -> None:
    form = ImageForm((6, 6), False, (0.0,) * 3, 1.0, (1.0,) * 3, np.zeros((3, 5, 6), np.float32))
    with pytest.raises(OpsError, match=r"mean_image: found float32 \(3, 5, 6\), expected float32"):
        device.transform_pixels(np.zeros((1, 3, 6, 6), np.uint8), np.zeros((1, 7), np.int32), form)
