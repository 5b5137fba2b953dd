"""Fillers draw from the distributions that Caffe names. The same (seed, layer, index) gives the
same numbers."""

import math

import numpy as np
import pytest

from nets.definition.params import ParamSpec, generator
from nets.schema import caffe_pb2 as caffe

SHAPE = (50, 20, 5, 5)
NORM = caffe.FillerParameter


def fill(kind, shape=SHAPE, seed=0, layer="conv", index=0, **options):
    return ParamSpec(
        layer, index, "weight", shape, caffe.FillerParameter(type=kind, **options)
    ).initial(seed, np.float64)


@pytest.mark.parametrize(
    ("norm", "fan"), [(NORM.FAN_IN, 500), (NORM.FAN_OUT, 1250), (NORM.AVERAGE, 875)]
)
def test_xavier_and_msra_scale_by_the_chosen_fan(norm, fan):
    xavier = fill("xavier", variance_norm=norm)
    msra = fill("msra", variance_norm=norm)
    assert np.abs(xavier).max() == pytest.approx(math.sqrt(3 / fan), rel=1e-3)
    assert xavier.std() == pytest.approx(math.sqrt(1 / fan), rel=0.02)
    assert msra.std() == pytest.approx(math.sqrt(2 / fan), rel=0.02)


def test_simple_fillers_follow_their_numbers():
    assert (fill("constant", value=0.5) == 0.5).all()
    uniform = fill("uniform", min=-2, max=6)
    assert (uniform.min(), uniform.max()) == pytest.approx((-2, 6), abs=0.01)
    gaussian = fill("gaussian", mean=3, std=0.5)
    assert (gaussian.mean(), gaussian.std()) == pytest.approx((3, 0.5), abs=0.02)


def test_a_sparse_gaussian_keeps_the_given_number_of_weights_per_input():
    weights = fill("gaussian", shape=(100, 2000), std=1, sparse=15)
    assert np.count_nonzero(weights) / weights.size == pytest.approx(0.15, abs=0.005)


def test_positive_unitball_rows_sum_to_one():
    weights = fill("positive_unitball")
    assert weights.min() >= 0
    np.testing.assert_allclose(weights.reshape(50, -1).sum(1), 1)


def test_the_bilinear_kernel_is_caffes():
    kernel = fill("bilinear", shape=(2, 1, 4, 4))
    ramp = np.array([0.25, 0.75, 0.75, 0.25])
    np.testing.assert_allclose(kernel[1, 0], np.outer(ramp, ramp))


@pytest.mark.parametrize("shape", [(7, 3, 3, 3), (3, 5, 3, 2), (4, 4, 1)])
def test_dirac_hands_on_the_centre_of_each_input_and_draws_further_outputs(shape):
    weights = fill("dirac", shape=shape)
    through = min(shape[:2])
    expected = np.zeros((through, *shape[1:]))
    for at in range(through):
        expected[(at, at, *(size // 2 for size in shape[2:]))] = 1
    np.testing.assert_array_equal(weights[:through], expected)
    limit = 1 / math.sqrt(math.prod(shape[1:]))
    assert (np.abs(weights[through:]) < limit).all()
    assert (weights[through:] != 0).all()


def test_whitening_without_images_has_the_filters_of_white_noise_and_their_negatives():
    weights = fill("whitening", shape=(10, 2, 1, 3)).reshape(10, 6)
    np.testing.assert_array_equal(weights, np.concatenate((np.eye(6), -np.eye(6)[:4])))


def test_numbers_depend_on_seed_layer_and_index_only():
    first = fill("xavier")
    np.random.default_rng().random()
    assert np.array_equal(first, fill("xavier"))
    others = [fill("xavier", seed=1), fill("xavier", layer="conv2"), fill("xavier", index=1)]
    assert not any(np.array_equal(first, other) for other in others)
    assert generator(0, "a", 1).random() != generator(0, "a", 11).random()
