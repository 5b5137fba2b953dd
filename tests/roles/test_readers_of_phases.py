"""Images that a device transforms are those that the host transforms: the same crops, flips and
erased boxes, and the same arithmetic."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nets.data import Augment, Batches, MemorySource, Mixing, Transform, on_device
from nets.data.augmentation.randaugment import RandAugment
from ops import get_backend
from roles.learning.readers import reader_of

ROWS = 24
TRANSFORMS = {
    "crop, mean and mirror": Transform(crop=9, mean=(104.0, 117.0, 123.0), mirror=True),
    "pad and alternating flips": Transform(
        mirror=True, augment=Augment(pad=3, flip="alternating"), scale=0.25
    ),
    "pad, crop and erase": Transform(
        crop=8, mean=(127.0,), deviation=(60.0, 61.0, 62.0), augment=Augment(pad=2, erase=0.7)
    ),
    "turned planes": Transform(mean=(1.0, 2.0, 3.0), rgb=True, turned=True, scale=1 / 256),
    "a mean image, padded": Transform(
        crop=10,
        mirror=True,
        augment=Augment(pad=3),
        mean_image=np.linspace(0, 255, 540, dtype=np.float32).reshape(3, 12, 15),
    ),
    "nothing": Transform(),
}


def batches(transform: Transform, *, train: bool = True, **options: Any) -> Batches:
    rng = np.random.default_rng(4)
    images = rng.integers(0, 256, (20, 3, 12, 15), dtype=np.uint8)
    source = MemorySource("images", options.pop("images", images), np.arange(20), 20)
    return Batches(source, transform, ROWS, shuffle=True, seed=6, train=train, **options)


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A backend whose operations are the reference."""
    backend = get_backend("numpy")
    monkeypatch.setattr(backend, "transforms_images", True)
    return backend


@pytest.mark.parametrize("train", [True, False])
@pytest.mark.parametrize("name", TRANSFORMS)
def test_a_device_gives_the_images_of_the_host_whatever_part_it_is_asked_for(
    device: Any, name: str, train: bool
) -> None:
    read = batches(TRANSFORMS[name], train=train)
    assert on_device(read)
    with reader_of(read, device, None, on_gpu=True) as reader:
        for low, high in ((0, ROWS), (30, 31), (17, 45)):
            reader.request(low, high)
            found = reader.get(low, high)
            expected = read.samples(low, high)
            assert [one.shape for one in found] == [one.shape for one in expected]
            for one, other in zip(found, expected, strict=True):
                assert (one == other).all()


@pytest.mark.parametrize(
    "augment",
    [
        Augment(randaugment=RandAugment()),
        Augment(scale=(0.5, 1.0)),
        Augment(brightness=0.4),
        Augment(pad=2, padding="reflect"),
    ],
)
def test_other_changes_are_made_on_the_host(device: Any, augment: Augment) -> None:
    read = batches(Transform(augment=augment))
    assert not on_device(read)
    with reader_of(read, device, None, on_gpu=True) as reader:
        assert (reader.get(0, 4)[0] == read.samples(0, 4)[0]).all()


def test_mixed_images_and_images_of_floats_stay_on_the_host() -> None:
    assert not on_device(batches(Transform(), mixing=Mixing(0.2, 0.0, 20, ROWS)))
    assert not on_device(batches(Transform(), images=np.zeros((20, 3, 4, 4), np.float32)))
