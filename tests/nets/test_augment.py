"""Random changes of images: compared with a second implementation of torchvision's formulas, with
random numbers that depend on the sample only."""

import colorsys
import math

import numpy as np
import pytest
from PIL import Image, ImageEnhance

from nets import DataError, NetError
from nets.data import Augment, Batches, MemorySource, Transform
from nets.data.augmentation.draws import draw, normal, uniform
from roles.learning.job import Job
from roles.messages import TRAIN
from tests.nets.support import spec_of

IMAGES = np.random.default_rng(1).integers(0, 256, (6, 3, 20, 30), np.uint8)
PLACES = np.arange(6, dtype=np.int64)
ALL = Augment(0.4, 0.4, 0.4, 0.1, (0.2, 1.0), order="rgb")


def transformed(augment, images=IMAGES, positions=PLACES, seed=1, train=True, **more):
    return Transform(augment=augment, **more)(images, positions, seed=seed, train=train)


def factor(lane, amount, position, seed=1):
    low = max(0.0, 1 - amount)
    return low + (1 + amount - low) * uniform(seed, np.array([position]), lane)[0]


@pytest.mark.parametrize(
    ("name", "lane", "enhancer"),
    [
        ("brightness", 10, ImageEnhance.Brightness),
        ("contrast", 11, ImageEnhance.Contrast),
        ("saturation", 12, ImageEnhance.Color),
    ],
)
def test_each_colour_is_changed_as_pillow_does_by_the_factor_of_its_sample(name, lane, enhancer):
    found = transformed(Augment(**{name: 0.8}, order="rgb"))
    for at, image in enumerate(IMAGES):
        pixels = Image.fromarray(np.ascontiguousarray(image.transpose(1, 2, 0)))
        expected = np.asarray(enhancer(pixels).enhance(factor(lane, 0.8, at)), float).transpose(
            2, 0, 1
        )
        assert np.abs(found[at] - expected).max() <= 2.0, (
            "Pillow rounds the grey image and the result"
        )
        assert np.abs(found[at] - expected).mean() < 1


def test_the_order_of_planes_decides_the_weights_of_grey():
    rgb, bgr = (Augment(saturation=1.0, order=order) for order in ("rgb", "bgr"))
    assert np.abs(transformed(bgr, IMAGES[:, ::-1])[:, ::-1] - transformed(rgb)).max() < 1e-3
    assert np.abs(transformed(bgr) - transformed(rgb)).max() > 1


def test_a_change_of_saturation_keeps_the_hue():
    red = np.zeros((200, 3, 1, 1), np.uint8)
    red[:, 0], red[:, 1] = 200, 80
    found = transformed(Augment(saturation=1.0, order="rgb"), red, np.arange(200))[:, :, 0, 0] / 255
    inside = [one for one in found if one.max() < 1 and one.min() > 0 and np.ptp(one) > 0.05]
    hues = [colorsys.rgb_to_hsv(*one)[0] for one in inside]
    assert len(hues) > 50
    assert np.allclose(hues, colorsys.rgb_to_hsv(200, 80, 0)[0], atol=1e-3)


def test_the_three_are_applied_in_an_order_that_is_drawn_too():
    """Compare one sample with a computation by hand, in the order of three uniform numbers."""
    found = transformed(Augment(0.4, 0.4, 0.4, order="rgb"))
    orders = set()
    for at, image in enumerate(IMAGES):
        x = image.astype(float)
        order = np.argsort([uniform(1, np.array([at]), 14 + k)[0] for k in range(3)])
        orders.add(tuple(order))
        for k in order:
            grey = 0.299 * x[0] + 0.587 * x[1] + 0.114 * x[2]
            other = (0, grey.mean(), grey)[k]
            f = factor(10 + int(k), 0.4, at)
            x = np.clip(f * x + (1 - f) * other, 0, 255)
        assert np.abs(found[at] - x).max() < 1e-2
    assert len(orders) > 1


def test_light_is_alexnets_noise_along_the_components_of_colours():
    """Krizhevsky et al. 2012: one number for each plane of an image. Its covariance is that of the
    colour components."""
    grey = np.full((4000, 3, 1, 1), 128, np.uint8)
    added = transformed(Augment(lighting=0.1, order="rgb"), grey, np.arange(4000))[:, :, 0, 0] - 128
    vectors = np.array(
        [[-0.5675, 0.7192, 0.4009], [-0.5808, -0.0045, -0.8140], [-0.5836, -0.6948, 0.4203]]
    )
    expected = vectors @ np.diag(np.array([0.2175, 0.0188, 0.0045]) * 0.1 * 255) ** 2 @ vectors.T
    assert np.abs(np.cov(added.T) / expected - 1).max() < 0.15
    whole = transformed(Augment(lighting=0.1, order="rgb"))
    for at in range(6):
        assert np.ptp((whole[at] - IMAGES[at]).reshape(3, -1), axis=1).max() < 1e-3, (
            "the change must be the same for every pixel"
        )


def test_boxes_have_areas_and_ratios_within_their_bounds_and_are_placed_everywhere():
    augment = Augment(scale=(0.08, 1.0), ratio=(3 / 4, 4 / 3))
    boxes = augment.boxes((250, 250), np.arange(5000), 1)
    top, left, high, wide = boxes.T
    assert (top >= 0).all()
    assert (left >= 0).all()
    assert (top + high <= 250).all()
    assert (left + wide <= 250).all()
    share = high * wide / 62500
    ratio = wide / high
    assert share.min() == pytest.approx(0.08, abs=0.005)
    assert share.max() > 0.8
    assert ratio.min() == pytest.approx(3 / 4, abs=0.02)
    assert ratio.max() == pytest.approx(4 / 3, abs=0.03)
    assert np.median(np.log(ratio)) == pytest.approx(0, abs=0.02), (
        "ratios are drawn evenly on a logarithmic scale"
    )
    assert top.min() == left.min() == 0


@pytest.mark.parametrize(
    ("sides", "expected"), [((10, 100), (10, 13)), ((100, 10), (13, 10)), ((10, 11), (10, 11))]
)
def test_where_no_box_fits_the_largest_allowed_one_is_taken(sides, expected):
    """A box of the whole area in a ratio that the image does not have never fits. torchvision then
    takes the largest box that fits."""
    found = Augment(scale=(1.0, 1.0)).boxes(sides, np.arange(300), 1)
    assert expected in {tuple(box[2:]) for box in found}
    if sides[0] != 10 or sides[1] != 11:
        assert {tuple(box[2:]) for box in found} == {expected}


def test_a_box_is_resized_to_the_crop_or_to_the_size_of_the_image():
    augment = Augment(scale=(0.1, 0.9))
    for crop, size in ((12, (12, 12)), (0, (20, 30))):
        found = transformed(augment, crop=crop)
        assert found.shape == (6, 3, *size)
        for at, (top, left, high, wide) in enumerate(augment.boxes((20, 30), PLACES, 1)):
            part = IMAGES[at, :, top : top + high, left : left + wide]
            planes = [Image.fromarray(plane.astype(np.float32), "F") for plane in part]
            box = (0, 0, wide, high)
            if high >= size[0] or wide >= size[1]:
                continue  # Pillow averages when it shrinks an image
            theirs = np.stack(
                [
                    np.asarray(plane.resize(size[::-1], Image.Resampling.BILINEAR, box))
                    for plane in planes
                ]
            )
            assert np.abs(found[at] - theirs).max() <= 0.51, "bytes are rounded"


def test_a_mean_image_is_cut_and_resized_as_the_image_is():
    same = np.broadcast_to(IMAGES[0].astype("f4"), (3, 20, 30))
    found = transformed(
        Augment(scale=(0.1, 0.9)), np.repeat(IMAGES[:1], 6, 0), crop=8, mean_image=same
    )
    assert np.abs(found).max() <= 0.51


def test_the_reader_of_a_sample_and_its_neighbours_make_no_difference():
    source = MemorySource("memory", IMAGES, np.arange(6))
    batches = Batches(
        source, Transform(augment=ALL, crop=8, mirror=True), 6, shuffle=True, seed=3, train=True
    )
    whole = batches.read(2, 0, 6)[0]
    parts = [batches.read(2, low, high)[0] for low, high in ((4, 6), (0, 1), (1, 4))]
    assert (np.concatenate([parts[1], parts[2], parts[0]]) == whole).all()
    again = Batches(
        source, Transform(augment=ALL, crop=8, mirror=True), 6, shuffle=True, seed=3, train=True
    )
    assert (again.read(2, 0, 6)[0] == whole).all()
    assert not np.allclose(batches.read(3, 0, 6)[0], whole)


def test_tests_see_unchanged_images_and_so_does_training_without_options():
    assert (transformed(ALL, train=False, crop=8) == transformed(None, train=False, crop=8)).all()
    assert (
        transformed(None, crop=8) == Transform(crop=8)(IMAGES, PLACES, seed=1, train=True)
    ).all()
    assert not Augment()


def test_grey_images_take_brightness_and_contrast_and_images_of_floats_are_not_cut_off():
    grey = IMAGES[:, :1]
    assert transformed(Augment(0.5, 0.5, order="bgr"), grey).shape == grey.shape
    assert transformed(Augment(brightness=1.0), grey).max() <= 255
    assert transformed(Augment(brightness=1.0), grey.astype("f4")).max() > 255


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (
            {"scale": (0.5, 0.2)},
            "scale: found [0.5, 0.2], expected two rising numbers > 0, at most 1",
        ),
        ({"scale": (0.5, 1.5)}, "scale: found"),
        ({"ratio": (2.0, 1.0)}, "ratio: found"),
    ],
)
def test_impossible_options_are_refused(settings, expected):
    with pytest.raises(DataError) as error:
        Augment(**settings)
    assert expected in str(error.value)


@pytest.mark.parametrize("name", ["saturation", "lighting"])
def test_colours_of_grey_images_cannot_be_changed(name):
    with pytest.raises(DataError, match=f"augment: {name}: found images of 1 channel, expected 3"):
        Transform(augment=Augment(**{name: 0.1})).check((1, 8, 8))


def test_with_two_data_layers_neither_is_changed_alone(tmp_path):
    text = (
        "".join(
            (
                f'layer {{ name: "{name}" type: "Data" top: "{name}" data_param {{ batch_size: 2 '
                f"}} }}"
            )
            for name in "ab"
        )
        + 'layer { name: "l" type: "EuclideanLoss" bottom: "a" bottom: "b" top: "l" }'
    )
    one = {"format": "synthetic", "shape": [1, 8, 8], "size": 4}
    job = Job(
        net=str(spec_of(tmp_path, text).path),
        solver="lenet_solver",
        data={TRAIN: {"a": one, "b": one}},
        seed=1,
        batch=2,
        test_batches=(),
        base_directory=".",
        augment=Augment(brightness=0.1),
    )
    with pytest.raises(
        NetError, match=("augment: found 2 data layers that read images, expected one")
    ):
        job.batches(TRAIN, job.source(TRAIN))


def test_numbers_are_uniform_or_normal_and_differ_between_lanes():
    places = np.arange(20000)
    even = uniform(1, places, 3)
    bell = normal(1, places, 5)
    assert 0 <= even.min() < even.max() < 1
    assert even.mean() == pytest.approx(0.5, abs=0.01)
    assert bell.mean() == pytest.approx(0, abs=0.03)
    assert bell.std() == pytest.approx(1, abs=0.03)
    assert abs(np.corrcoef(even, uniform(1, places, 4))[0, 1]) < 0.03
    assert math.isclose(even[7], uniform(1, np.array([7]), 3)[0])
    assert draw(1, places, 3).dtype == np.uint64
