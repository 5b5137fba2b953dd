"""Histograms of parameters and gradients, against NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nets import ParamSpec, load_solver
from nets.definition.spec import ZOO
from nets.schema import caffe_pb2 as caffe
from ops import get_backend
from roles.learning import histograms
from roles.learning.histograms import BINS, WHOLE, Histograms, histogram
from roles.learning.parameter_store import ParameterStore

OPS = get_backend("numpy")


def drawn(*shape: int, kind: str = "float32") -> Any:
    return np.random.default_rng(3).normal(0.5, 2.0, shape).astype(kind)


@pytest.mark.parametrize("piece", [7, histograms.PIECE])
def test_a_histogram_has_the_counts_and_the_moments_of_all_numbers(
    monkeypatch: pytest.MonkeyPatch, piece: int
) -> None:
    monkeypatch.setattr(histograms, "PIECE", piece)
    array = drawn(20, 5, 3)
    array[:5, 0, 0] = 0
    found = histogram(OPS, array)
    exact = array.astype(np.float64)
    counts, edges = np.histogram(exact, BINS)
    assert found["counts"] == counts.tolist()
    assert (found["low"], found["high"]) == pytest.approx((edges[0], edges[-1]), rel=1e-6)
    assert found["mean"] == pytest.approx(exact.mean(), rel=1e-6)
    assert found["deviation"] == pytest.approx(exact.std(), rel=1e-6)
    assert (found["zeros"], found["infinite"]) == (pytest.approx(5 / 300, rel=1e-6), 0)


def test_numbers_that_are_not_finite_are_counted_apart() -> None:
    array = drawn(100)
    array[[3, 4, 5]] = np.nan, np.inf, -np.inf
    found = histogram(OPS, array)
    assert (found["infinite"], sum(found["counts"])) == (3, 97)
    assert found["high"] == pytest.approx(array[np.isfinite(array)].max())
    none = histogram(OPS, np.full(4, np.nan, np.float32))
    assert (none["infinite"], sum(none["counts"]), none["low"]) == (4, 0, 0)


def test_an_array_of_equal_numbers_is_in_one_bin() -> None:
    found = histogram(OPS, np.full((3, 4), 0.25, np.float32))
    assert (found["low"], found["high"], found["deviation"]) == (0.25, 0.25, 0)
    assert found["counts"][0] == sum(found["counts"]) == 12


@given(st.integers(1, 50), st.integers(0, 10**6))
def test_a_stretch_begins_at_a_multiple_of_the_key(every: int, iteration: int) -> None:
    made = Histograms(every)
    length, number = made.stretch(iteration)
    first = length * number
    assert first <= iteration < first + length
    assert first % every == 0
    assert made.stretch(first) == (length, number)
    assert first == 0 or made.stretch(first - 1) != (length, number)


def test_the_histograms_of_a_run_grow_with_the_logarithm_of_its_iterations() -> None:
    made = Histograms(1)
    assert len(set(map(made.stretch, range(WHOLE)))) == WHOLE
    assert len(set(map(made.stretch, range(WHOLE * 64)))) == WHOLE + 6 * WHOLE // 2


def test_a_store_makes_them_before_updates_and_not_of_running_statistics() -> None:
    params = {
        "bn": (
            ParamSpec("bn", 0, "weight", (3,), caffe.FillerParameter()),
            ParamSpec("bn", 1, "mean", (3,), caffe.FillerParameter(), keep=0.9),
        )
    }
    first = np.array([1, 2, 4], np.float32)
    solver = load_solver(ZOO / "lenet_digits_solver.prototxt")
    store = ParameterStore(params, {"bn": (first.copy(), first.copy())}, solver, OPS)
    store.histograms = Histograms(2)
    for _ in range(3):
        store.apply("bn", (np.ones(3, np.float32), np.ones(3, np.float32)))
    found = list(store.histograms.take())
    assert [(one["iteration"], one["layer"]) for one in found] == [(0, "bn"), (2, "bn")]
    values, gradients = found[0]["arrays"]
    assert (values["name"], values["of"], gradients["of"]) == ("weight", "values", "gradients")
    assert (values["low"], values["high"], gradients["low"]) == (1, 4, 1)
    assert found[1]["arrays"][0]["high"] < 4
    assert list(store.histograms.take()) == []
