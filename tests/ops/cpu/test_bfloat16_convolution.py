"""The convolutions of a backend with images in bfloat16 compared with float64 sums over the same
numbers: every mix of types, and the algorithms that only take float32."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
import pytest

from ops import Array, Backend, ConvGeometry, get_backend
from ops.cpu.codegen.stored import BFLOAT16, FLOAT32, STORED
from ops.cpu.conv import choose
from ops.cpu.conv.algorithm import Converted, ConvShape
from ops.cpu.conv.depthwise import Depthwise
from ops.cpu.gemm.bfloat16_choice import bfloat16_missing
from ops.cpu.team.workspace import Workspace
from tests.ops.cpu.conv_loops import (
    convolved,
    image_by_image,
    in_memory,
    operands,
    row_by_row,
    slice_of_channels,
)
from tests.ops.cpu.test_depthwise import channelwise, grouped
from tests.ops.cpu.test_direct import plain

pytestmark = pytest.mark.skipif(
    bool(bfloat16_missing()), reason=bfloat16_missing() or "multiplies bfloat16 fast"
)
FIRST = plain(3, 3, (23, 21), 16, 7, pad=3, stride=2)
SHAPES = [
    plain(3, 64, (9, 8), 96, 1),
    plain(2, 33, (7, 9), 17, 3, pad=1),
    plain(3, 20, (13, 11), 24, 3, pad=1, stride=2),
    plain(2, 24, (6, 7), 36, 3, pad=1, groups=3),
    plain(1, 5, (9, 9), 7, 5, pad=2),
    plain(8, 64, (12, 12), 64, 3, pad=1),  # Winograd in float32
    plain(64, 96, (5, 4), 72, 3, pad=1),  # in place, in groups of chunks
    channelwise(2, 17, (9, 11), 3, pad=1),
    channelwise(3, 32, (12, 14), 3, stride=2, pad=1),
    grouped(2, 24, (9, 10), 3, 4, pad=1, stride=2),
    FIRST,
]
# channels so few that each row of pixels is copied for gradients of weights
DILATED = ConvShape((32, 4, 12, 13), 33, ConvGeometry((3, 3), (3, 3), (2, 2), (1, 3)))
OWN = choose.Tiled, Depthwise  # algorithms that read bfloat16
mixes = pytest.mark.parametrize(
    ("x_type", "y_type"),
    [(x, y) for x in STORED for y in STORED if BFLOAT16 in (x, y)],
    ids=lambda kind: str(kind),
)


@functools.cache
def backend(threads: int) -> Backend:
    return get_backend("cpu", threads=threads, precision="bf16")


@pytest.fixture(params=[False, True], ids=["with tiles", "without tiles"])
def tiles(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the backend may use tiles. It chooses anew."""
    if request.param:
        monkeypatch.setattr(choose, "has_amx", lambda: False)
    for threads in (1, 2):
        vars(backend(threads)).pop("chooser", None)
        monkeypatch.setattr(backend(threads), "workspace", Workspace())


def near(found: Array, expected: Array) -> None:
    """Check that errors are within 2^-7 of the largest number."""
    assert np.abs(found.astype(np.float64) - expected).max() <= 2.0**-7 * np.abs(expected).max()


def passes(
    shape: ConvShape, threads: int, layout: Callable[[Array], Array], x: Array, dy: Array
) -> tuple[Array, ...]:
    """y, dx, dw and db of images of this layout, y and dx with the types of dy and x."""
    ops = backend(threads)
    _, w, b, _ = operands(shape)
    x, dy = layout(x), layout(dy)
    y, dx = (layout(np.full(one.shape, np.nan, one.dtype)) for one in (dy, x))
    dw, db = np.full_like(w, np.nan), np.full_like(b, np.nan)
    if choose.is_depthwise(shape) and shape.weight_shape[1] == 1:
        forward, data, weights = (
            ops.depthwise_forward,
            ops.depthwise_backward_data,
            ops.depthwise_backward_weights,
        )
    else:
        forward, data, weights = (
            ops.conv_forward,
            ops.conv_backward_data,
            ops.conv_backward_weights,
        )
    forward(x, w, b, shape.geometry, y, rectify=True)
    data(dy, w, shape.geometry, shape.in_shape, dx)
    weights(x, dy, shape.geometry, w.shape, bias=True, out_w=dw, out_b=db)
    return y, dx, dw, db


@mixes
@pytest.mark.parametrize("layout", [in_memory, slice_of_channels])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_pass_takes_every_mix_of_types(tiles, shape, layout, x_type, y_type) -> None:
    x, w, b, dy = operands(shape)
    x, dy = x.astype(x_type), dy.astype(y_type)
    wide = (part.astype(np.float64) for part in (x, w, b, dy))
    expected = convolved(shape, *wide)
    one, two = (passes(shape, threads, layout, x, dy) for threads in (1, 2))
    results = (
        np.maximum(expected.y, 0),
        expected.dx,
        expected.dw,
        expected.dy.sum((0, 2, 3)),
    )
    for found, right in zip(one, results, strict=True):
        near(found, right)
    # threads share the sums of db, and in float32 those of dw
    alike = 3 if isinstance(backend(1).chooser(shape, choose.WEIGHTS, True), OWN) else 2
    for found, same in zip(two[:alike], one[:alike], strict=True):
        assert found.tobytes() == same.tobytes()


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_scratch_memory_of_images_in_bfloat16_is_known_beforehand(tiles, shape) -> None:
    ops = backend(2)
    x, w, _, dy = operands(shape)
    told = 0
    for kind in STORED:
        narrow = kind == BFLOAT16
        told = max(
            told,
            ops.conv_scratch(shape.in_shape, w.shape, shape.geometry, training=True, narrow=narrow),
        )
        x, dy = in_memory(x.astype(kind)), in_memory(dy.astype(kind))
        ops.conv_forward(x, w, None, shape.geometry)
        ops.conv_backward_data(dy, w, shape.geometry, shape.in_shape)
        ops.conv_backward_weights(x, dy, shape.geometry, w.shape, bias=False)
    assert ops.workspace.size <= told


def test_the_layer_that_reads_the_data_takes_plain_images(tiles) -> None:
    x, w, b, dy = operands(FIRST)
    found = in_memory(np.full(dy.shape, np.nan, BFLOAT16))
    ops = backend(2)
    ops.conv_forward(x, w, b, FIRST.geometry, found)
    narrow = in_memory(dy.astype(BFLOAT16))
    dw, _ = ops.conv_backward_weights(x, narrow, FIRST.geometry, w.shape, bias=False)
    wide = (part.astype(np.float64) for part in (x, w, b, narrow))
    expected = convolved(FIRST, *wide)
    near(found, expected.y)
    near(dw, expected.dw)


def test_results_without_a_destination_have_the_type_of_the_images(tiles) -> None:
    shape = SHAPES[1]
    x, w, b, dy = (one.astype(BFLOAT16) if one.ndim == 4 else one for one in operands(shape))
    w = w.astype(np.float32)
    ops = backend(1)
    assert ops.conv_forward(in_memory(x), w, b, shape.geometry).dtype == BFLOAT16
    dx = ops.conv_backward_data(in_memory(dy), w, shape.geometry, shape.in_shape)
    assert dx.dtype == BFLOAT16
    dw, db = ops.conv_backward_weights(
        in_memory(x), in_memory(dy), shape.geometry, w.shape, bias=True
    )
    assert db is not None
    assert (dw.dtype, db.dtype) == (FLOAT32, FLOAT32)


def test_an_output_of_bfloat16_that_is_read_only_is_refused() -> None:
    shape = SHAPES[1]
    x, w, b, dy = operands(shape)
    out = in_memory(dy.astype(BFLOAT16))
    out.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        backend(1).conv_forward(in_memory(x.astype(BFLOAT16)), w, b, shape.geometry, out)


def test_images_in_bfloat16_are_converted_only_where_no_kernel_reads_them() -> None:
    vars(backend(1)).pop("chooser", None)
    choice = backend(1).chooser
    kinds = [type(choice(shape, choose.FORWARD, True)) for shape in SHAPES]
    assert Depthwise in kinds
    if choose.has_amx():
        assert Converted not in kinds
        assert isinstance(choice(FIRST, choose.DATA, True), choose.Tiled)


def test_images_one_after_the_other_are_converted_in_their_order(monkeypatch) -> None:
    monkeypatch.setattr(choose, "has_amx", lambda: False)
    vars(backend(1)).pop("chooser", None)
    x, w, b, _ = operands(SHAPES[1])
    narrow = image_by_image(x.astype(BFLOAT16))
    y = backend(1).conv_forward(narrow, w, b, SHAPES[1].geometry)
    same = backend(1).conv_forward(in_memory(x.astype(BFLOAT16)), w, b, SHAPES[1].geometry)
    np.testing.assert_array_equal(y, same)


@mixes
@pytest.mark.parametrize("layout", [image_by_image, row_by_row, slice_of_channels])
@pytest.mark.parametrize("shape", [*SHAPES[:3], DILATED], ids=str)
def test_converted_images_in_any_order_are_kept_until_their_gradients_are_made(
    monkeypatch, shape, layout, x_type, y_type
) -> None:
    """Converted images lie in the scratch memory behind the part that float32 takes."""
    monkeypatch.setattr(choose, "has_amx", lambda: False)
    vars(backend(1)).pop("chooser", None)
    monkeypatch.setattr(backend(1), "workspace", Workspace())
    x, w, _, dy = operands(shape)
    x, dy = layout(x.astype(x_type)), layout(dy.astype(y_type))
    dw, _ = backend(1).conv_backward_weights(x, dy, shape.geometry, w.shape, bias=False)
    wide = (part.astype(np.float64) for part in (x, w, np.zeros(shape.outputs), dy))
    near(dw, convolved(shape, *wide).dw)


@pytest.mark.parametrize("shape", [SHAPES[1], SHAPES[6]], ids=str)
def test_plain_images_in_bfloat16_are_left_to_the_reference(shape) -> None:
    x, w, b, dy = operands(shape)
    x, dy = x.astype(BFLOAT16), dy.astype(BFLOAT16)
    wide = (part.astype(np.float64) for part in (x, w, b, dy))
    expected = convolved(shape, *wide)
    found = passes(shape, 1, np.ascontiguousarray, x, dy)
    results = np.maximum(expected.y, 0), expected.dx, expected.dw, expected.dy.sum((0, 2, 3))
    for one, right in zip(found, results, strict=True):
        near(one, right)


def test_a_backend_that_lowers_parts_of_a_batch_stores_no_bfloat16() -> None:
    assert backend(1).stores_bfloat16
    assert not get_backend("cpu", b_p=4, precision="bf16").stores_bfloat16
