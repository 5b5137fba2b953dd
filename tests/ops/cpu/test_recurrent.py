"""LSTM, RNN and tables of the CPU backend compared with plain loops in float64, and the functions
of their gates."""

from __future__ import annotations

import ctypes
import tracemalloc
from typing import Any

import numpy as np
import pytest

from ops import Array, OpsError, get_backend
from ops.cpu.recurrent.units import units
from ops.cpu.team.workspace import Workspace
from ops.reference.recurrent import LstmGradients, RnnGradients, Tape
from tests.ops.conftest import nans
from tests.ops.cpu.conftest import cpu
from tests.ops.cpu.narrow import passes_with_narrow_vectors

# steps, images, features, hidden
SIZES = [
    (5, 3, 4, 2),
    (1, 1, 1, 1),
    (7, 13, 20, 97),
    (3, 32, 50, 64),
    (4, 100, 3, 20),
    (2, 7, 65, 200),
]


def close(found: Array, expected: Array) -> None:
    np.testing.assert_allclose(
        found, expected, rtol=0, atol=2e-5 * max(1e-3, float(np.abs(expected).max()))
    )


def case(random, sizes, gates: int) -> dict[str, Array]:
    steps, images, features, hidden = sizes
    shapes = {
        "x": (steps, images, features),
        "w_x": (gates * hidden, features),
        "b": (gates * hidden,),
        "w_h": (gates * hidden, hidden),
        "h0": (images, hidden),
        "c0": (images, hidden),
        "extra": (images, gates * hidden),
        "w_o": (5, hidden),
        "b_o": (5,),
        "dh": (steps, images, hidden),
        "do": (steps, images, 5),
        "dh_last": (images, hidden),
        "dc_last": (images, hidden),
    }
    scale = {"w_x": 0.3, "w_h": 0.3}
    arrays = {
        name: scale.get(name, 1.0) * random.standard_normal(shape) for name, shape in shapes.items()
    }
    return {**arrays, "cont": (random.random((steps, images)) > 0.3).astype("d")}


def single(arrays: dict[str, Array]) -> dict[str, Array]:
    return {name: array if name == "index" else array.astype("f") for name, array in arrays.items()}


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def lstm_loops(a: dict[str, Array]) -> tuple[Array, Array]:
    """h and c, step by step, as Caffe's LSTMUnit computes them."""
    h = a["h0"]
    c = a["c0"]
    hs = []
    cs = []
    for x, cont in zip(a["x"], a["cont"][..., None], strict=True):
        i, f, o, g = np.split(
            x @ a["w_x"].T + a["b"] + a["extra"] + (cont * h) @ a["w_h"].T, 4, axis=1
        )
        c = cont * sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        hs.append(h)
        cs.append(c)
    return np.array(hs), np.array(cs)


def rnn_loops(a: dict[str, Array]) -> tuple[Array, Array]:
    """o and h, step by step."""
    h = a["h0"]
    hs = []
    for x, cont in zip(a["x"], a["cont"][..., None], strict=True):
        h = np.tanh(x @ a["w_x"].T + a["b"] + a["extra"] + (cont * h) @ a["w_h"].T)
        hs.append(h)
    return np.tanh(np.array(hs) @ a["w_o"].T + a["b_o"]), np.array(hs)


def lstm(backend, a, whole: bool, tape=None, out=None):
    """Run forward and backward. `whole` gives all optional arguments too."""
    start = {"index": a.get("index")}
    start |= {name: a[name] for name in ("h0", "c0")} if whole else {}
    last = {name: a[name] for name in ("dh_last", "dc_last")} if whole else {}
    extra, b = (a["extra"], a["b"]) if whole else (None, None)
    tape = backend.lstm_forward(
        a["x"], a["cont"], a["w_x"], b, a["w_h"], **start, extra=extra, tape=tape
    )
    found = backend.lstm_backward(
        a["dh"], tape, a["x"], a["cont"], a["w_x"], a["w_h"], **start, **last, out=out
    )
    return tape, found


def rnn(backend, a, whole: bool, states=None, out=None):
    weights = [a["w_x"], a["b"] if whole else None, a["w_h"], a["w_o"], a["b_o"] if whole else None]
    start = {"index": a.get("index"), "h0": a["h0"] if whole else None}
    last = {"dh_last": a["dh_last"]} if whole else {}
    extra = a["extra"] if whole else None
    o, h = backend.rnn_forward(a["x"], a["cont"], *weights, **start, extra=extra, states=states)
    found = backend.rnn_backward(
        a["do"], o, h, a["x"], a["cont"], a["w_x"], a["w_h"], a["w_o"], **start, **last, out=out
    )
    return (o, h), found


KINDS: list[Any] = [(lstm, lstm_loops, 4, LstmGradients), (rnn, rnn_loops, 1, RnnGradients)]
named = pytest.mark.parametrize(("kind", "loops", "gates", "kept"), KINDS, ids=["lstm", "rnn"])


@named
@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("whole", [True, False])
def test_states_and_all_gradients_agree_with_float64(
    random, fast, kind, loops, gates, kept, whole, sizes
) -> None:
    a = case(random, sizes, gates)
    states, gradients = kind(get_backend("numpy"), a, whole)
    out = kept(*(nans(gradient.shape, "f") for gradient in gradients))
    found_states, found = kind(fast, single(a), whole, out=out)
    for one, other in zip((*found_states, *found), (*states, *gradients), strict=True):
        assert one.dtype == np.float32
        close(one, other)
    if whole:
        for one, other in zip(found_states, loops(a), strict=False):
            close(one, other)
    assert all(one is place for one, place in zip(found, out, strict=True))


@named
@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize(("sizes", "rows"), [((5, 3, 4, 2), 1), ((7, 13, 20, 97), 65)], ids=str)
@pytest.mark.parametrize("name", ["numpy", "cpu"])
def test_an_index_into_a_table_gives_the_numbers_of_the_rows_looked_up(
    random, fast, kind, loops, gates, kept, name, sizes, rows, whole
) -> None:
    a = case(random, sizes, gates)
    reference = get_backend("numpy")
    table = random.standard_normal((rows, sizes[2]))
    index = random.integers(0, rows, sizes[:2])
    states, gradients = kind(reference, {**a, "x": table[index]}, whole)
    by_row, _ = reference.embed_backward_weights(index, gradients.x, table.shape, bias=False)
    looked_up = {**a, "x": table, "index": index}
    backend, given = (fast, single(looked_up)) if name == "cpu" else (reference, looked_up)
    expected = gradients._replace(x=by_row)
    dtype = given["x"].dtype
    out = kept(*(nans(gradient.shape, dtype) for gradient in expected))
    found_states, found = kind(backend, given, whole, out=out)
    for one, other in zip((*found_states, *found), (*states, *expected), strict=True):
        assert one.dtype == dtype
        close(one, other)
    assert all(one is place for one, place in zip(found, out, strict=True))


@named
@pytest.mark.parametrize("backend", [get_backend("numpy"), cpu(1)], ids=str)
def test_an_index_that_is_no_row_of_the_table_is_refused(
    random, kind, loops, gates, kept, backend
) -> None:
    a = {**single(case(random, (3, 8, 5, 6), gates)), "x": np.ones((4, 5), "f")}
    for index, expected in (
        (np.full((3, 8), 4), "index has numbers from 4 to 4, expected rows from 0 to 3"),
        (np.full((3, 8), -1), "index has numbers from -1 to -1, expected rows from 0 to 3"),
        (np.zeros((3, 8), "f"), "index has dtype float32, expected int64"),
        (np.zeros(3, np.int64), r"index has shape \(3,\), expected 2 axes"),
    ):
        with pytest.raises(OpsError, match=expected):
            kind(backend, {**a, "index": index}, False)


@named
@pytest.mark.parametrize("sizes", [(5, 3, 4, 2), (3, 7, 20, 50)], ids=str)
def test_each_gradient_agrees_with_the_difference_of_plain_loops(
    random, fast, kind, loops, gates, kept, sizes
) -> None:
    """In float64 along a direction: the results of the loops change by the amount that the gradient
    predicts."""
    a = case(random, sizes, gates)
    a["dh_last"], a["dc_last"] = np.zeros_like(a["dh_last"]), np.zeros_like(a["dc_last"])
    upstream = a["dh"] if gates == 4 else a["do"]
    _, found = kind(fast, single(a), True)
    for name, gradient in zip(kept._fields, found, strict=True):
        direction = random.standard_normal(a[name].shape)
        results = [loops({**a, name: a[name] + step * direction})[0] for step in (1e-4, -1e-4)]
        change = float(((results[0] - results[1]) * upstream).sum()) / 2e-4
        assert float((gradient * direction).sum()) == pytest.approx(change, rel=1e-3, abs=1e-3), (
            name
        )


def test_the_arrays_of_the_last_pass_are_used_again(random, fast) -> None:
    a = single(case(random, (3, 8, 5, 6), 4))
    given = Tape(*(nans((3, 8, width), "f") for width in (6, 6, 24)))
    tape, _ = lstm(fast, a, True, tape=given)
    assert all(one is place for one, place in zip(tape, given, strict=True))
    h = nans((3, 8, 6), "f")
    found = fast.lstm_forward(a["x"], a["cont"], a["w_x"], a["b"], a["w_h"], out=h, tape=given)
    assert found.h is h and found.c is given.c


@pytest.mark.parametrize("backend", [get_backend("numpy"), cpu(1)], ids=str)
def test_unwanted_gradients_are_left_out_and_the_others_are_the_same(random, backend) -> None:
    a = single(case(random, (3, 8, 5, 6), 4))
    tape, whole = lstm(backend, a, False)
    arguments = (a["dh"], tape, a["x"], a["cont"], a["w_x"], a["w_h"])
    found = backend.lstm_backward(*arguments, without=("x", "extra"))
    assert found.x is None and found.extra is None
    for name in ("w_x", "b", "w_h", "h0", "c0"):
        np.testing.assert_array_equal(getattr(found, name), getattr(whole, name))
    with pytest.raises(OpsError, match="without is 'y', expected one of 'extra', 'x'"):
        backend.lstm_backward(*arguments, without=("y",))


def test_float64_and_arrays_that_are_not_contiguous_go_to_the_reference(random, fast) -> None:
    a = case(random, (3, 4, 5, 6), 4)
    tape, _ = lstm(fast, a, True)
    assert tape.h.dtype == np.float64
    a = single(a)
    a["x"] = a["x"].transpose(1, 0, 2).copy().transpose(1, 0, 2)
    close(lstm(fast, a, True)[0].h, tape.h)


def test_a_state_without_a_past_needs_no_finite_weights(random, fast) -> None:
    a = single(case(random, (1, 3, 4, 2), 4))
    a["w_h"][...] = np.inf
    assert np.isfinite(lstm(fast, a, False)[0].h).all()


def test_a_pass_into_given_arrays_allocates_none(random, fast) -> None:
    a = single(case(random, (4, 30, 20, 50), 4))
    tape, found = lstm(fast, a, True)
    lstm(fast, a, True, tape, found)
    tracemalloc.start()
    try:
        lstm(fast, a, True, tape, found)
        assert tracemalloc.get_traced_memory()[1] < 8192  # every array of this layer is larger
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("table", [0, 7])
@pytest.mark.parametrize("gates", [4, 1])
def test_the_scratch_memory_is_known_beforehand_to_the_byte(
    random, monkeypatch, gates, table
) -> None:
    backend = cpu(2)
    sizes = (3, 13, 20, 50)
    a = single(case(random, sizes, gates))
    if table:
        a |= {"x": np.ones((table, 20), "f"), "index": random.integers(0, table, (3, 13))}
    monkeypatch.setattr(backend, "workspace", Workspace())
    monkeypatch.setattr(backend, "_recurrences", {})
    (lstm if gates == 4 else rnn)(backend, a, True)
    assert backend.workspace.size == backend.recurrent_scratch(
        sizes[:3], 50, gates, training=True, table=table
    )


@pytest.mark.parametrize("kind", ["sigmoid", "tanh"])
def test_gate_functions_are_within_1e_6_and_keep_infinities_and_nan(kind) -> None:
    x = np.concatenate(
        [
            np.linspace(-100, 100, 40001),
            np.geomspace(1e-30, 1e4, 999),
            [0.0, np.inf, -np.inf, np.nan],
        ]
    )
    found = squashed(x.astype("f"), kind)
    exact = x.astype("f").astype("d")
    with np.errstate(over="ignore"):
        expected = np.tanh(exact) if kind == "tanh" else sigmoid(exact)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)
    if kind == "tanh":
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=0)


def squashed(x: Array, kind: str) -> Array:
    """Apply tanh with the RNN's unit, or the sigmoid with the LSTM's gate i."""
    f = np.float32
    count = x.size
    lstm_unit = kind == "sigmoid"
    gates = np.zeros((4, count), f)
    gates[0] = x
    c = np.zeros(count, f)
    h = np.zeros(count, f)
    carried = np.zeros(count, f)
    address = units().lstm_forward if lstm_unit else units().rnn_forward
    call = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 8, ctypes.c_float, ctypes.c_float)(address)
    zero = np.zeros(4 * count, f)
    arrays = (gates, zero, gates, zero, c, h, carried)
    call(*(array.ctypes.data for array in arrays), count, 1.0, 1.0)
    return gates[0] if lstm_unit else h


@pytest.mark.parametrize("table", [0, 7])
@named
def test_results_repeat_to_the_last_bit_for_any_number_of_threads(
    random, kind, loops, gates, kept, table
) -> None:
    a = single(case(random, (4, 30, 20, 50), gates))
    if table:
        a |= {"x": a["x"][0, :table], "index": random.integers(0, table, (4, 30))}
    states, gradients = kind(cpu(1), a, True)
    for threads in (1, 2, 2, 3, 16):
        found_states, found = kind(cpu(threads), a, True)
        for one, other in zip((*found_states, *found), (*states, *gradients), strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("count", "rows", "width"), [(1, 1, 1), (7, 3, 20), (13, 50, 97), (300, 65, 64), (5, 9, 33)]
)
def test_a_table_s_gradient_agrees_with_a_loop_and_leaves_zero_where_no_row_was_read(
    random, fast, count, rows, width
) -> None:
    index = random.integers(0, rows, count)
    dy = random.standard_normal((count, width)).astype("f")
    expected = np.zeros((rows, width))
    for at, value in zip(index, dy, strict=True):
        expected[at] += value
    dw, db = fast.embed_backward_weights(
        index.astype("f"),
        dy,
        (rows, width),
        bias=True,
        out_w=nans((rows, width), "f"),
        out_b=nans((width,), "f"),
    )
    close(dw, expected)
    close(db, dy.astype("d").sum(0))


@pytest.mark.slow
def test_states_and_gradients_agree_with_vectors_of_256_bits() -> None:
    passes_with_narrow_vectors(__file__, "(agree and (97 or 20)) or functions")
