"""Window geometry: Caffe's output sizes, and the spans that every lowering and pooling relies
on."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ops import ConvGeometry, OpsError, PoolGeometry
from ops.geometry import reach
from tests.ops import naive

small = st.integers(1, 6)


@given(
    size=st.integers(1, 12), position=st.integers(0, 8), outputs=st.integers(1, 9), stride=small,
    pad=st.integers(0, 6),
)  # fmt: skip
def test_reach_pairs_each_output_with_its_pixel_and_leaves_out_the_padding(
    size, position, outputs, stride, pad
):
    to, take = reach(position, size, outputs, stride, pad)
    expected = [(o, o * stride + position - pad) for o in range(outputs)]
    pairs = list(zip(range(outputs)[to], range(size)[take], strict=True))
    assert pairs == [(o, pixel) for o, pixel in expected if 0 <= pixel < size]


@given(
    size=st.integers(1, 40),
    kernel=small,
    stride=small,
    pad=st.integers(0, 5),
    step=st.integers(1, 3),
)
def test_convolution_size_is_the_number_of_windows_that_fit(size, kernel, stride, pad, step):
    g = ConvGeometry((kernel, 1), (stride, 1), (pad, 0), (step, 1))
    fits = [o for o in range(0, size + 2 * pad, stride) if o + step * (kernel - 1) < size + 2 * pad]
    if fits:
        assert g.output_shape((2, 3, size, 4), 5) == (2, 5, len(fits), 4)
    else:
        with pytest.raises(OpsError, match="extent"):
            g.output_shape((2, 3, size, 4), 5)


@given(
    size=st.integers(1, 40), kernel=small, stride=small, pad=st.integers(0, 5), whole=st.booleans()
)
def test_pooling_size_is_caffes_and_every_window_holds_a_pixel(size, kernel, stride, pad, whole):
    if pad >= kernel:
        with pytest.raises(OpsError, match="less than the kernel"):
            PoolGeometry((kernel, 1), (stride, 1), (pad, 0))
        return
    expected = naive.pool_size(size, kernel, stride, pad, whole)
    g = PoolGeometry((1, kernel), (1, stride), (0, pad), whole=whole)
    if expected < 1:
        with pytest.raises(OpsError, match="too small"):
            g.output_shape((2, 3, 4, size))
        return
    assert g.output_shape((2, 3, 4, size)) == (2, 3, 4, expected)
    reached = {o for to, _ in g.reaches(1, size) for o in range(expected)[to]}
    assert reached == set(range(expected))
    assert all(count >= 1 for count in g.counts(1, size))


@pytest.mark.parametrize(("size", "outputs"), [(24, 12), (13, 7), (55, 28), (32, 16)])
def test_max_pooling_rounds_the_output_size_up_as_caffe_does(size, outputs):
    kernel = 3 if size in (55, 32) else 2
    expected = 27 if size == 55 else outputs  # CaffeNet's pool1 fits exactly
    assert PoolGeometry((kernel, kernel), (2, 2)).output_shape((1, 1, size, size)) == (
        1,
        1,
        expected,
        expected,
    )


def test_the_last_pooling_window_starts_before_the_far_padding():
    assert PoolGeometry((2, 2), (2, 2), (1, 1)).output_shape((1, 1, 3, 4)) == (1, 1, 2, 3)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ConvGeometry((0, 3)), ["kernel is (0, 3)", "at least 1"]),
        (lambda: ConvGeometry(5), ["kernel is 5", "two integers"]),
        (lambda: ConvGeometry((3, 3), stride=(1,)), ["stride is (1,)"]),
        (lambda: ConvGeometry((3, 3), pad=(-1, 0)), ["pad is (-1, 0)", "at least 0"]),
        (lambda: ConvGeometry((3, 3), dilation=(1.0, 1)), ["dilation is (1.0, 1)"]),
        (lambda: ConvGeometry((3, 3), groups=0), ["groups is 0"]),
        (lambda: PoolGeometry((2, 2), mode="MAXX"), ["'MAXX'", "did you mean 'MAX'"]),
        (
            lambda: ConvGeometry((1, 1), groups=2).output_shape((1, 3, 4, 4), 2),
            ["input channels is 3"],
        ),
        (lambda: ConvGeometry((1, 1), groups=2).output_shape((1, 2, 4, 4), 3), ["num_output is 3"]),
        (lambda: ConvGeometry((1, 1)).output_shape((1, 2, 4), 3), ["(1, 2, 4)", "(N, C, H, W)"]),
    ],
)
def test_bad_geometry_is_refused_with_found_and_expected_values(make, words):
    with pytest.raises(OpsError) as caught:
        make()
    for word in words:
        assert word in str(caught.value)
