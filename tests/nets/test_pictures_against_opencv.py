"""Pixels of generated pictures next to those of OpenCV, with which Caffe reads."""

import zlib

import numpy as np
import pytest

from nets.data.decoding.decode import image
from tests.helpers.pictures import EXACT, GREY, SORTS

cv2 = pytest.importorskip("cv2", reason="needs OpenCV: pip install -e '.[caffe-reference]'")


def as_opencv(data, color):
    flag = cv2.IMREAD_COLOR if color == "color" else cv2.IMREAD_GRAYSCALE
    found = cv2.imdecode(np.frombuffer(data, np.uint8), flag)
    assert found is not None
    return found.transpose(2, 0, 1) if found.ndim == 3 else found[None]


def compare(sort, seed):
    nearness, make = SORTS[sort]
    data = make(np.random.default_rng([seed, zlib.crc32(sort.encode())]))
    for color in ("color", "gray"):
        found = image(data, f"{sort} {seed}", color).astype(int)
        expected = as_opencv(data, color).astype(int)
        assert found.shape == expected.shape, (sort, color)
        apart = np.abs(found - expected)
        if nearness in (EXACT, GREY):
            most = int(nearness == GREY or color == "gray")
            assert apart.max() <= most, (sort, color, apart.max(), apart.mean())
        else:
            assert np.percentile(apart, 99) <= 2, (sort, color, apart.max())


@pytest.mark.parametrize("sort", SORTS)
def test_a_picture_of_each_sort_has_the_pixels_of_opencv(sort):
    compare(sort, seed=0)


@pytest.mark.slow
@pytest.mark.parametrize("sort", SORTS)
def test_many_pictures_of_each_sort_have_the_pixels_of_opencv(sort):
    for seed in range(1, 31):
        compare(sort, seed)
