"""RandAugment: each operation gives the pixels of Pillow, with the strengths that torchvision's
table has for it."""

import math

import numpy as np
import pytest
from PIL import Image, ImageEnhance, ImageOps

from nets import DataError
from nets.data.augmentation import byte_tables, warps
from nets.data.augmentation.draws import draw
from nets.data.augmentation.randaugment import LANE, OPERATIONS, RandAugment, _changed

RANDOM = np.random.default_rng(1)
BLOCKS = RANDOM.integers(20, 230, (8, 3, 4, 5), np.uint8).repeat(8, 2).repeat(8, 3)
IMAGES = (BLOCKS + RANDOM.integers(0, 20, BLOCKS.shape)).astype(np.uint8)
PLACES = np.arange(len(IMAGES))
STRENGTHS = np.linspace(0, 1, 31)  # torchvision's 31 bins of each range


def sheared(image, part, x):
    level = 0.3 * part
    matrix = (1, level, 0, 0, 1, 0) if x else (1, 0, 0, level, 1, 0)
    return image.transform(image.size, Image.Transform.AFFINE, matrix)


def shifted(image, part, x):
    pixels = int(150 / 331 * part * image.size[0 if x else 1])
    matrix = (1, 0, -pixels, 0, 1, 0) if x else (1, 0, 0, 0, 1, -pixels)
    return image.transform(image.size, Image.Transform.AFFINE, matrix)


THEIRS = {
    "identity": lambda image, part: image,
    "shear_x": lambda image, part: sheared(image, part, x=True),
    "shear_y": lambda image, part: sheared(image, part, x=False),
    "translate_x": lambda image, part: shifted(image, part, x=True),
    "translate_y": lambda image, part: shifted(image, part, x=False),
    "rotate": lambda image, part: image.rotate(30 * part),
    "brightness": lambda image, part: ImageEnhance.Brightness(image).enhance(1 + 0.9 * part),
    "color": lambda image, part: ImageEnhance.Color(image).enhance(1 + 0.9 * part),
    "contrast": lambda image, part: ImageEnhance.Contrast(image).enhance(1 + 0.9 * part),
    "sharpness": lambda image, part: ImageEnhance.Sharpness(image).enhance(1 + 0.9 * part),
    "posterize": lambda image, part: ImageOps.posterize(image, 8 - round(4 * abs(part))),
    "solarize": lambda image, part: ImageOps.solarize(image, 255 - 255 * abs(part)),
    "autocontrast": lambda image, part: ImageOps.autocontrast(image),
    "equalize": lambda image, part: ImageOps.equalize(image),
}


def test_the_operations_are_torchvisions():
    assert set(THEIRS) == set(OPERATIONS)
    kinds = {*byte_tables.KINDS, *warps.KINDS, "identity", "color", "sharpness"}
    assert kinds == set(OPERATIONS)


@pytest.mark.parametrize("planes", [1, 3])
@pytest.mark.parametrize("magnitude", [0, 9, 17, 30])
@pytest.mark.parametrize("name", OPERATIONS)
def test_each_operation_gives_pillows_pixels(name, magnitude, planes):
    part = STRENGTHS[magnitude]
    number = OPERATIONS.index(name)
    signs = np.where(PLACES % 2, -1, 1)
    images = IMAGES[:, :planes]
    found = _changed(images, np.full(len(images), number), signs, magnitude / 30, "rgb")
    assert found.dtype == np.uint8
    for image, sign, mine in zip(images, signs, found, strict=True):
        pixels = Image.fromarray(image[0] if planes == 1 else np.moveaxis(image, 0, 2).copy())
        theirs = np.asarray(THEIRS[name](pixels, sign * part))
        theirs = theirs[None] if planes == 1 else np.moveaxis(theirs, 2, 0)
        wrong = theirs != mine
        assert wrong.mean() < 0.001
        assert np.abs(theirs.astype(int) - mine)[wrong].max(initial=0) <= 1 or name == "rotate"


def test_images_without_contrast_stay_as_they_are():
    flat = np.full((2, 3, 8, 8), 77, np.uint8)
    for name in ("autocontrast", "equalize", "sharpness"):
        which = np.full(2, OPERATIONS.index(name))
        assert (_changed(flat, which, np.ones(2, int), 0.3, "rgb") == flat).all()


def test_the_order_of_planes_only_decides_the_weights_of_grey():
    both = [
        RandAugment(3, 12)(images, PLACES, 1, order)
        for images, order in ((IMAGES, "rgb"), (np.ascontiguousarray(IMAGES[:, ::-1]), "bgr"))
    ]
    assert (both[0] == both[1][:, ::-1]).all()


def test_each_image_gets_its_own_operations_one_after_the_other():
    """Every operation is drawn about equally often, and two are the second after the first."""
    many = np.arange(14000)
    for slot in (0, 1):
        which = draw(1, many, LANE + 2 * slot) % len(OPERATIONS)
        counts = np.bincount(which.astype(int), minlength=len(OPERATIONS))
        assert counts.min() > 850
        assert counts.max() < 1150
    step = RandAugment(1, 9)(IMAGES, PLACES, 1, "rgb")
    which = (draw(1, PLACES, LANE + 2) % len(OPERATIONS)).astype(int)
    signs = np.where(draw(1, PLACES, LANE + 3) % 2 == 1, -1, 1)
    expected = _changed(step, which, signs, 9 / 30, "rgb")
    assert (RandAugment(2, 9)(IMAGES, PLACES, 1, "rgb") == expected).all()


def test_neighbours_in_a_batch_make_no_difference_and_the_input_stays():
    before = IMAGES.copy()
    whole = RandAugment(2, 9)(IMAGES, PLACES, 5, "rgb")
    single = [
        RandAugment(2, 9)(IMAGES[at : at + 1], PLACES[at : at + 1], 5, "rgb") for at in PLACES
    ]
    assert (np.concatenate(single) == whole).all()
    assert (before == IMAGES).all()
    assert (RandAugment(2, 9)(IMAGES, PLACES, 6, "rgb") != whole).any()


def test_tiny_images_and_images_that_are_not_bytes():
    tiny = np.zeros((30, 1, 1, 1), np.uint8)
    assert RandAugment(3, 30)(tiny, np.arange(30), 1, "rgb").shape == tiny.shape
    with pytest.raises(DataError, match=r"randaugment: found images of float32, expected bytes"):
        RandAugment()(tiny.astype(np.float32), np.arange(30), 1, "rgb")


def test_a_rotation_by_thirty_degrees_moves_a_point_to_its_place():
    image = np.zeros((1, 1, 101, 101), np.uint8)
    image[0, 0, 49:52, 88:91] = 255  # 39 pixels to the right of the centre
    which = np.array([OPERATIONS.index("rotate")])
    found = _changed(image, which, np.ones(1, int), 1.0, "rgb")[0, 0]
    y, x = (axis.mean() for axis in np.nonzero(found))
    angle = math.degrees(math.atan2(50 - y, x - 50))
    assert angle == pytest.approx(30, abs=1), "counter-clockwise"
