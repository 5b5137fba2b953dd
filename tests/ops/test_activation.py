"""ReLU, in place and not, with and without a negative slope."""

from __future__ import annotations

import numpy as np
import pytest

from ops import Array, Backend, OpsError
from ops.gradcheck import check_gradient
from tests.ops.conftest import LAYOUTS, nans


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("slope", [0.0, 0.1, 2.0, -0.5])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_relu_equals_its_definition(slope, dtype, layout, random, backend: Backend):
    x, dy = (random.standard_normal((7, 3, 5, 4)).astype(dtype) for _ in range(2))
    x[0, 0, 0, 0] = 0
    y = np.array([v if v > 0 else slope * v for v in x.ravel().tolist()]).reshape(x.shape)
    dx = np.array([d if v > 0 else slope * d for v, d in zip(x.flat, dy.flat, strict=True)]).reshape(x.shape)
    lx, ldy = layout(x), layout(dy)
    for out in (None, layout(nans(x.shape, dtype)), lx.copy(order="K")):
        got = backend.relu_forward(lx, slope, out=out)
        assert got.dtype == dtype and (out is None or got is out)
        np.testing.assert_allclose(got, y, rtol=1e-6)
        back = backend.relu_backward(ldy, lx, slope, out=None if out is None else layout(nans(x.shape, dtype)))
        np.testing.assert_allclose(back, dx, rtol=1e-6)


@pytest.mark.parametrize("slope", [0.0, 0.25])
def test_relu_works_in_place_forward_and_backward(slope, random, backend: Backend):
    x, dy = random.standard_normal((2, 4, 9))
    y, dx = backend.relu_forward(x, slope), backend.relu_backward(dy, x, slope)
    np.testing.assert_array_equal(backend.relu_backward(dy, y, slope), dx)  # the output serves as well
    assert backend.relu_forward(x, slope, out=x) is x
    assert backend.relu_backward(dy, x, slope, out=dy) is dy
    np.testing.assert_array_equal(x, y)
    np.testing.assert_array_equal(dy, dx)


@pytest.mark.parametrize("slope", [0.0, 0.1])
def test_relu_gradient_passes_the_directional_check(slope, random, backend: Backend):
    x = random.standard_normal((3, 5))
    x += np.sign(x) * 0.01

    def backward(dy: Array, x: Array) -> tuple[Array]:
        return (backend.relu_backward(dy, x, slope),)

    check_gradient(lambda x: backend.relu_forward(x, slope), backward, x)


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
