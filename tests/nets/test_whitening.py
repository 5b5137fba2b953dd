"""Whitening filters: their outputs on the images are uncorrelated, with variance 1."""

import numpy as np
import pytest

from nets.definition.whitening import EPSILON, PIECE, covariance, whitening_filters


def correlated(count, seed=0):
    """Smooth images of 3 planes that resemble one another: patches are strongly correlated."""
    rng = np.random.default_rng(seed)
    base = rng.standard_normal((count, 1, 9, 8)).cumsum(2).cumsum(3)
    return (base + 0.3 * rng.standard_normal((count, 3, 9, 8))).astype(np.float32)


def patches_of(images, kernel):
    """All patches, one after the other: the definition, in float64."""
    high, wide = (images.shape[2 + axis] - kernel[axis] + 1 for axis in (0, 1))
    return np.array(
        [
            image[:, top : top + kernel[0], left : left + kernel[1]].ravel()
            for image in images
            for top in range(high)
            for left in range(wide)
        ],
        np.float64,
    )


@pytest.mark.parametrize("kernel", [(2, 2), (1, 3)])
def test_the_outputs_of_the_filters_have_the_identity_as_covariance(kernel):
    images = 10 * correlated(40)
    filters = whitening_filters(covariance(images, kernel))
    outputs = patches_of(images, kernel) @ filters.T
    found = outputs.T @ outputs / len(outputs)
    np.testing.assert_allclose(found, np.eye(len(filters)), atol=0.01)


def test_the_covariance_is_that_of_all_patches_however_many_pieces_they_come_in():
    images = correlated(PIECE + 3)
    patches = patches_of(images, (2, 2))
    expected = patches.T @ patches / len(patches)
    np.testing.assert_allclose(covariance(images, (2, 2)), expected, rtol=1e-10)


def test_filters_come_in_the_order_of_falling_variance_and_flat_directions_stay_finite():
    filters = whitening_filters(np.diag([4.0, 0.0, 9.0]))
    expected = [
        [0, 0, 1 / np.sqrt(9 + EPSILON)],
        [1 / np.sqrt(4 + EPSILON), 0, 0],
        [0, 1 / np.sqrt(EPSILON), 0],
    ]
    np.testing.assert_allclose(filters, expected)
