"""The choice of cuDNN's convolutions: with a stand-in for its frontend, on kernels compiled for the
processor."""

from __future__ import annotations

import ctypes
import logging
import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from ops import BFLOAT16, Array, ConvGeometry, get_backend
from ops.cuda.conv import choose, trial
from ops.cuda.conv.algorithm import ConvShape, Direction, Epilogue
from ops.cuda.conv.cudnn import Library, Planned
from ops.cuda.conv.folded import Folded, blocks, folded_shape
from ops.cuda.conv.lowered import Lowered
from ops.cuda.image_layout import new_images
from tests.ops.tried import FLOAT, SMALL, Made, algorithms, convolved, right, told

SEVEN = ConvGeometry((7, 7), stride=(2, 2), pad=(3, 3))


GEOMETRIES = {
    "3x3": SMALL,
    "groups": ConvGeometry((3, 3), groups=2),
    "stride and dilation": ConvGeometry((3, 2), stride=(2, 1), pad=(1, 0), dilation=(1, 2)),
    "1x1": ConvGeometry((1, 1)),
}


@pytest.mark.parametrize("name", GEOMETRIES)
def test_a_right_plan_is_taken_and_computes_every_pass(name: str, make: Made, caplog: Any) -> None:
    backend = make()
    right(convolved(backend, GEOMETRIES[name]), GEOMETRIES[name])
    assert algorithms(backend) == [Planned] * 4
    assert len(told(caplog)) == 4
    assert sum("taken, engine 7 (TILE=1), not timed; error " in line for line in told(caplog)) == 3
    assert "taken, engine 7 (TILE=1) with its epilogue, not timed; error " in told(caplog)[1]


@pytest.mark.parametrize("way", [Planned, Folded])
@pytest.mark.parametrize("narrow", [(True, True), (False, True), (True, False)], ids=str)
def test_images_in_bfloat16_are_multiplied_as_they_are(
    narrow: tuple[bool, bool], way: type, make: Made, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    """An image in float32 is rounded before; a result is stored in its own type."""
    monkeypatch.setattr(
        trial.Trial, "seconds", lambda self, *tried: [1 + (type(one) is not way) for one in tried]
    )
    backend = make("fastest", precision="bf16")
    random = np.random.default_rng(1)

    def given(shape: tuple[int, ...], stored: bool) -> Array:
        images = new_images(np, shape, BFLOAT16 if stored else FLOAT)
        images[...] = random.standard_normal(shape).astype(BFLOAT16)
        return images

    x = given((3, 4, 9, 8), narrow[0])
    dy = given((3, 6, 9, 8), narrow[1])
    w = random.standard_normal((6, 4, 3, 3)).astype(BFLOAT16).astype(np.float32)
    found = [
        backend.conv_forward(x, w, None, SMALL, out=np.empty_like(dy)),
        backend.conv_backward_data(dy, w, SMALL, x.shape, out=np.empty_like(x)),
        backend.conv_backward_weights(x, dy, SMALL, w.shape, bias=False)[0],
    ]
    assert algorithms(backend) == [way] * 3, told(caplog)
    ops = get_backend("numpy")
    x, dy = x.astype(np.float32), dy.astype(np.float32)
    expected = [
        ops.conv_forward(x, w, None, SMALL),
        ops.conv_backward_data(dy, w, SMALL, x.shape),
        ops.conv_backward_weights(x, dy, SMALL, w.shape, bias=False)[0],
    ]
    for got, wanted in zip(found, expected, strict=True):
        bound = 2.0**-8 if got.dtype == BFLOAT16 else 1e-5
        off = np.abs(got.astype(np.float32) - wanted)
        assert off.max() <= bound * np.abs(wanted).max()


TIMES = [0.003, 0.001, 0.004, 0.004]  # seconds of plans; of lowering 0.002
FAULTS = {
    "wrong": ("differs from lowering by ", "of the greatest value, expected at most 1e-04"),
    "idle": ("differs from lowering by ",),
    "lacking": (
        ("cudnnGraphNotSupportedError: No valid engine configs returned from heuristics)"),
        "",
    ),
    "failing": (
        "engine 7 (TILE=1) does not run (RuntimeError: CUDNN_STATUS_EXECUTION_FAILED); ",
        "engine 9 does not run (RuntimeError: CUDNN_STATUS_EXECUTION_FAILED); lowered",
    ),
    "unsupported": ("no plan that runs (cudnnGraphNotSupportedError: CUDNN_STATUS_NOT_SUPPORTED)",),
    "large": ("no plan that runs (OpsError: engine 9 needs 1099511627776 bytes of scratch",),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_logged_once_for_each_pass_and_lowering_computes(
    fault: str, make: Made, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    monkeypatch.setenv("FAKE_CUDNN", fault)
    backend = make()
    for _ in range(2):
        right(convolved(backend, SMALL), SMALL)
    assert algorithms(backend) == [Lowered] * 4
    lines = told(caplog, logging.WARNING)
    assert len(lines) == 4 and "\n" not in "".join(lines)
    small = "of 3x4x9x8 -> 6 by 3x3"
    passes = (f"forward {small}", f"forward {small} with bias and ReLU")
    passes += (f"backward-data {small}", f"backward-weights {small}")
    for line, name in zip(lines, passes, strict=True):
        assert line.startswith(f"cuDNN, {name}: ")
        assert all(part in line for part in FAULTS[fault]) and line.endswith("; lowered")


@pytest.mark.parametrize("fault", ["wrong", "idle", "failing", "unsupported", "large"])
def test_an_engine_with_a_fault_is_passed_over_and_the_next_one_computes(
    fault: str, make: Made, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    monkeypatch.setenv("FAKE_CUDNN", f"{fault} 7")
    backend = make()
    right(convolved(backend, SMALL), SMALL)
    assert algorithms(backend) == [Planned] * 4
    assert len(told(caplog)) == 4 and not told(caplog, logging.WARNING)
    named = fault in ("wrong", "idle", "failing")  # engines that do not suit are not worth a word
    for line in told(caplog):
        whole = " with its epilogue" if " with bias and ReLU: " in line else ""
        assert f"taken, engine 9{whole}, not timed; " in line
        assert (f"; engine 7 (TILE=1){whole} d" in line) is named, line


def test_the_fastest_engine_is_taken(
    make: Made, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    monkeypatch.setattr(
        trial.Trial,
        "seconds",
        lambda self, *tried: [*TIMES[: len(tried) - 1], 0.002],
    )
    backend = make("fastest")
    right(convolved(backend, SMALL), SMALL)
    assert algorithms(backend) == [Planned] * 4
    outcome = "taken, engine 9, 1.000 ms; engine 7 (TILE=1) 3.000 ms; lowering 2.000 ms; error "
    assert sum(outcome in line for line in told(caplog)) == 3
    line = told(caplog)[1]
    assert ": taken, engine 9 with its epilogue, 1.000 ms; " in line and line.count(" ms") == 5


EPILOGUES = {"bias": Epilogue(True, False), "ReLU": Epilogue(False, True)}


@pytest.mark.parametrize("name", EPILOGUES)
def test_a_plan_may_have_either_part_of_an_epilogue(name: str, make: Made, caplog: Any) -> None:
    b = np.arange(6, dtype=np.float32) if EPILOGUES[name].bias else None
    x, w = new_images(np, (2, 4, 5, 5), FLOAT), np.ones((6, 4, 3, 3), np.float32)
    x[...] = np.random.default_rng(0).standard_normal(x.shape)
    rectify = EPILOGUES[name].rectify
    got = make().conv_forward(x, w, b, SMALL, rectify=rectify)
    expected = get_backend("numpy").conv_forward(x, w, b, SMALL, rectify=rectify)
    np.testing.assert_allclose(got, expected, atol=1e-4)
    (line,) = told(caplog)
    assert f"by 3x3 with {name}: taken, engine 7 (TILE=1) with its epilogue, " in line


def test_without_an_engine_for_epilogues_a_plan_takes_one_more_launch(
    make: Made, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    monkeypatch.setenv("FAKE_CUDNN", "lacking bias")
    backend = make()
    right(convolved(backend, SMALL), SMALL)
    assert algorithms(backend) == [Planned] * 4 and not told(caplog, logging.WARNING)
    assert "with bias and ReLU: taken, engine 7 (TILE=1), not timed; " in told(caplog)[1]


def test_an_epilogue_that_takes_nan_for_0_is_rejected(
    make: Made, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    monkeypatch.setenv("FAKE_CUDNN", "hiding 7")
    backend = make()
    right(convolved(backend, SMALL), SMALL)
    line = told(caplog)[1]
    assert "taken, engine 9 with its epilogue, " in line
    assert "; engine 7 (TILE=1) with its epilogue takes NaN for 0; " in line
    x = new_images(np, (3, 4, 9, 8), FLOAT)
    x[...] = np.nan
    w, b = np.ones((6, 4, 3, 3), np.float32), np.zeros(6, np.float32)
    assert np.isnan(backend.conv_forward(x, w, b, SMALL, rectify=True)).all()


def test_a_bias_at_an_odd_address_is_copied_for_its_plan(make: Made, caplog: Any) -> None:
    x, w = new_images(np, (2, 4, 5, 5), FLOAT), np.ones((6, 4, 3, 3), np.float32)
    x[...] = 0
    block = np.arange(16, dtype=np.float32)
    b = block[1 - block.ctypes.data // 4 % 4 :][:6]
    y = make().conv_forward(x, w, b, SMALL)
    np.testing.assert_array_equal(y[1, :, 2, 2], b)
    assert "with its epilogue" in told(caplog)[0]


FOLDED = {
    "padded channels": ConvGeometry((3, 3), pad=(1, 1)),
    "stride 2": ConvGeometry((7, 7), stride=(2, 2), pad=(3, 3)),
    "stride 4 without padding": ConvGeometry((5, 5), stride=(4, 4)),
    "two strides, uneven kernel": ConvGeometry((4, 3), stride=(3, 2), pad=(2, 1)),
}


@pytest.mark.parametrize("name", FOLDED)
@pytest.mark.parametrize("channels", [1, 3])
def test_folded_images_give_the_same_results_in_every_pass(
    channels: int, name: str, make: Made, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    geometry = FOLDED[name]
    strided = geometry.stride != (1, 1)
    # the last way to fold the images is the fastest
    monkeypatch.setattr(
        trial.Trial, "seconds", lambda self, *tried: [*range(len(tried), 1, -1), len(tried) + 1]
    )
    backend = make("fastest")
    right(convolved(backend, geometry, channels), geometry, channels)
    assert algorithms(backend) == [Folded] * 4, told(caplog)
    how = "folded pixels" if strided else "padded channels"
    assert all(f"taken, engine 7 (TILE=1) with {how}, " in line for line in told(caplog))
    assert [line.count(" ms") - strided for line in told(caplog)] == [4, 6, 4, 4]


def test_channels_that_fill_16_bytes_are_not_folded() -> None:
    strided = ConvGeometry((3, 3), stride=(2, 2))
    assert blocks(ConvShape((2, 3, 9, 9), 4, strided, FLOAT)) == [(1, 1), (2, 2)]
    assert blocks(ConvShape((2, 4, 9, 9), 4, strided, FLOAT)) == []
    assert blocks(ConvShape((2, 4, 9, 9), 4, strided, FLOAT, (True, True))) == [(1, 1), (2, 2)]
    # a 1x1 kernel reads one pixel in four: folding would quadruple its work
    narrow = ConvGeometry((1, 1), stride=(2, 2))
    assert blocks(ConvShape((2, 3, 9, 9), 4, narrow, FLOAT)) == [(1, 1)]
    shape = ConvShape((2, 3, 224, 224), 64, SEVEN, FLOAT)
    assert folded_shape(shape, Direction.FORWARD, (2, 2)) == ConvShape(
        (2, 12, 115, 115), 64, ConvGeometry((4, 4)), FLOAT
    )


@pytest.mark.parametrize("image", range(5))
def test_a_plan_that_leaves_out_one_image_is_rejected(
    image: int, make: Made, cudnn: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = cudnn.pygraph.execute

    def without_it(graph: Any, places: dict[int, int], *rest: Any, **more: Any) -> None:
        x, y = (tensor.at(places[tensor.uid])[image] for tensor in (graph.x, graph.y))
        given = y if graph.operation == "conv_wgrad" else np.empty(0)
        kept = given.copy()
        given[...] = 0
        whole(graph, places, *rest, **more)
        given[...] = kept
        if graph.operation != "conv_wgrad":
            (x if graph.operation == "conv_dgrad" else y)[...] = 0

    monkeypatch.setattr(cudnn.pygraph, "execute", without_it)
    backend = make()
    right(convolved(backend, SMALL, 4, 6, 5), SMALL, 4, 6, 5)
    assert algorithms(backend) == [Lowered] * 4


def test_only_the_pass_that_is_wrong_is_lowered(
    make: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_CUDNN", "wrong conv_dgrad")
    backend = make()
    right(convolved(backend, SMALL), SMALL)
    assert algorithms(backend) == [Planned, Planned, Lowered, Planned]
    shape = ConvShape((3, 4, 9, 8), 6, SMALL, FLOAT)
    assert [backend.chooser.taken(shape, direction) for direction in Direction] == [
        "cuDNN",
        "lowering",
        "cuDNN",
    ]


@pytest.mark.parametrize(
    ("precision", "most"), [("full", 1e-4), ("fast", 5e-3), ("tf32", 5e-3), ("bf16", 2e-2)]
)
def test_the_error_bound_depends_on_the_rounding_of_factors(precision: str, most: float) -> None:
    assert choose.against(most, precision) is None
    assert choose.against(most * 1.01, precision) is not None
    assert choose.against(float("nan"), precision) is not None


@pytest.mark.parametrize(
    ("seconds", "expected"), [((0.001, 0.002), Planned), ((0.002, 0.001), Lowered)]
)
def test_the_faster_one_is_taken(
    seconds: tuple[float, float],
    expected: type,
    make: Made,
    monkeypatch: pytest.MonkeyPatch,
    caplog: Any,
) -> None:
    times = dict(zip((Planned, Lowered), seconds, strict=True))
    monkeypatch.setattr(
        trial.Trial, "seconds", lambda self, *tried: [times[type(one)] for one in tried]
    )
    backend = make("fastest")
    right(convolved(backend, SMALL), SMALL)
    assert algorithms(backend) == [expected] * 4
    assert len(told(caplog)) == 4 and not told(caplog, logging.WARNING)
    assert all("1.000 ms" in line and "2.000 ms" in line for line in told(caplog))


def test_a_slow_plan_is_not_taken_by_the_clock(make: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_CUDNN", "slow conv_fprop")
    backend = make("fastest")
    y = backend.conv_forward(
        new_images(np, (1, 1, 3, 3), FLOAT) * 0, np.ones((1, 1, 1, 1), "f"), None, GEOMETRIES["1x1"]
    )
    assert not y.any() and algorithms(backend) == [Lowered]


def test_deterministic_leaves_out_other_engines_and_uses_no_clock(
    cudnn: ModuleType, make: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(trial, "clock")
    convolved(make(), SMALL)
    notes = cudnn.numerical_note
    assert all(notes.NONDETERMINISTIC in graph.left_out for graph in cudnn.made)


@pytest.mark.parametrize("precision", ["full", "fast", "tf32", "bf16"])
def test_tensor_cores_round_float32_only_if_precision_allows_it(
    precision: str, cudnn: ModuleType, make: Made
) -> None:
    convolved(make(precision=precision), SMALL)
    notes = cudnn.numerical_note
    for graph in cudnn.made:
        assert notes.DOWN_CONVERT_INPUTS in graph.left_out
        assert (notes.TENSOR_CORE in graph.left_out) == (precision == "full")


def test_times_of_the_first_trial_decide_for_other_numbers_of_images(
    make: Made, monkeypatch: pytest.MonkeyPatch, cudnn: ModuleType
) -> None:
    timed: list[type] = []
    times = {Planned: 0.001, Lowered: 0.002}
    monkeypatch.setattr(
        trial.Trial,
        "seconds",
        lambda self, *tried: [timed.append(type(one)) or times[type(one)] for one in tried],
    )
    backend = make("fastest")
    for n in range(1, choose.MOST_SIZES + 4):
        right(convolved(backend, SMALL, 4, 6, n), SMALL, 4, 6, n)
    # for each pass two engines and lowering, and the engines with an epilogue for one of them
    assert len(timed) == 14
    # plans take time: all for the first number, then the fastest, then no more
    assert len(cudnn.made) == 10 + 4 * (choose.MOST_SIZES - 1)
    assert (
        sorted(kind.__name__ for kind in algorithms(backend))
        == ["Lowered"] * 12 + ["Planned"] * 4 * choose.MOST_SIZES
    )


def test_images_within_wider_ones_have_a_separate_plan(make: Made, cudnn: ModuleType) -> None:
    backend = make()
    x = new_images(np, (2, 4, 5, 5), FLOAT)
    w = np.ones((4, 4, 3, 3), np.float32)
    x[...] = 1
    wide = new_images(np, (2, 12, 5, 5), FLOAT)
    wide[...] = 7
    alone = backend.conv_forward(x, w, None, SMALL)
    inside = backend.conv_forward(x, w, None, SMALL, out=wide[:, 4:8])
    np.testing.assert_array_equal(alone, inside)
    assert (wide[:, :4] == 7).all() and (wide[:, 8:] == 7).all()
    assert len(cudnn.made) == 2 and algorithms(backend) == [Planned] * 2


def test_images_at_an_odd_address_are_lowered_and_parameters_are_copied(
    make: Made, cudnn: ModuleType
) -> None:
    backend = make()
    wide = new_images(np, (2, 5, 5, 5), FLOAT)
    wide[...] = 1
    w = np.empty(4 * 5 + 1, np.float32)[1:].reshape(4, 5, 1, 1)
    w[...] = 1
    y = backend.conv_forward(wide, w, None, GEOMETRIES["1x1"])
    assert (y == 5).all() and algorithms(backend) == [Planned]
    dw, _ = backend.conv_backward_weights(wide, y, GEOMETRIES["1x1"], w.shape, bias=False, out_w=w)
    assert dw is w and (w == 250).all()
    y = backend.conv_forward(wide[:, 1:], w[:, :4], None, GEOMETRIES["1x1"])
    assert (y == 1000).all() and len(cudnn.made) == 2


def test_float64_and_lowering_that_is_asked_for_need_no_cudnn(
    make: Made, cudnn: ModuleType
) -> None:
    backend = make()
    x = np.ones((1, 1, 3, 3))
    w = np.ones((1, 1, 1, 1))
    assert (backend.conv_forward(x, w, None, GEOMETRIES["1x1"]) == 1).all()
    lowering = make(b_p=2)
    assert not lowering.tries
    convolved(lowering, SMALL)
    assert not cudnn.made


def test_cudnn_starts_by_ctypes_which_lets_the_interpreters_lock_go(
    cudnn: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[str] = []

    class Loaded:
        def __init__(self, name: str) -> None:
            assert name == "libcudnn.so.9"

        def cudnnCreate(self, handle: Any) -> int:
            called.append("create")
            handle._obj.value = 7
            return len(called) > 2  # the second call returns "not initialized"

        def cudnnDestroy(self, handle: Any) -> None:
            called.append(f"destroy {handle.value}")

    monkeypatch.setattr(ctypes, "CDLL", Loaded)
    monkeypatch.setattr(cudnn, "create_handle", lambda: called.append("frontend"))
    Library("full", 0, deterministic=False)
    assert called == ["create", "destroy 7", "frontend"]
    Library("full", 0, deterministic=False)
    assert called[3:] == ["create", "frontend"]


def test_a_missing_driver_is_logged_once_and_everything_is_lowered(
    make: Made, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    monkeypatch.setenv("FAKE_CUDNN", "no driver")
    backend = make()
    right(convolved(backend, SMALL), SMALL)
    (line,) = told(caplog, logging.WARNING)
    assert line.startswith("cuDNN does not start (RuntimeError: CUDNN_STATUS_NOT_INITIALIZED")
    assert "; convolutions are lowered" in line
    assert not backend.tries


def test_without_the_package_the_extra_is_named(
    make: Made, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    monkeypatch.setitem(sys.modules, "cudnn", None)
    backend = make()
    right(convolved(backend, SMALL), SMALL)
    (line,) = told(caplog, logging.WARNING)
    assert line.startswith("cudnn cannot be imported") and "install the extra 'cudnn'" in line


def test_a_shape_has_a_readable_name() -> None:
    geometry = ConvGeometry((5, 3), stride=(2, 2), groups=2)
    assert str(ConvShape((16, 4, 28, 28), 8, geometry, FLOAT)) == (
        "16x4x28x28 -> 8 by 5x3, stride 2x2, 2 groups"
    )
