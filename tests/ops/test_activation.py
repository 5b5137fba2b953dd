"""ReLU: properties that the contract of the backends does not cover."""

from __future__ import annotations

import numpy as np
import pytest

from ops import Backend, OpsError


@pytest.mark.parametrize("slope", [0.0, 0.25])
def test_relu_works_in_place_forward_and_backward(slope, random, backend: Backend):
    x, dy = random.standard_normal((2, 4, 9))
    y = backend.relu_forward(x, slope)
    dx = backend.relu_backward(dy, x, slope)
    # the output may take the place of the input
    np.testing.assert_array_equal(backend.relu_backward(dy, y, slope), dx)
    assert backend.relu_forward(x, slope, out=x) is x
    assert backend.relu_backward(dy, x, slope, out=dy) is dy
    np.testing.assert_array_equal(x, y)
    np.testing.assert_array_equal(dy, dx)


def test_relu_refuses_other_shapes_and_dtypes(backend: Backend):
    x = np.zeros((2, 3))
    for call in (
        lambda: backend.relu_forward(x.astype(np.int32)),
        lambda: backend.relu_forward(x, out=x[:1]),
        lambda: backend.relu_backward(x, x[:1]),
        lambda: backend.relu_backward(x, x.astype("f")),
    ):
        with pytest.raises(OpsError, match=r"relu_.*expected"):
            call()
