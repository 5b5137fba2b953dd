"""Choosing a backend, its arrays, and the gradient check itself."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest

import ops
from ops import Array, Backend, OpsError, get_backend
from ops.gradcheck import check_gradient


def test_an_unknown_backend_or_option_is_refused_with_the_choices():
    with pytest.raises(
        OpsError,
        match=(
            r"'numpyy', expected one of 'cpu', 'cupy', 'cupy plan', 'emulated', 'numpy' "
            r"\(did you mean 'numpy'\?\)"
        ),
    ):
        get_backend("numpyy")
    with pytest.raises(OpsError, match="option of backend 'numpy' is 'bp', expected one of 'b_p'"):
        get_backend("numpy", bp=1)


@pytest.mark.parametrize("b_p", [0, -1, 2.0, True, "all"])
def test_the_lowering_batch_is_a_positive_integer_or_none(b_p):
    with pytest.raises(OpsError, match=f"b_p is {b_p!r}"):
        get_backend("numpy", b_p=b_p)


def test_the_backend_makes_arrays_and_brings_them_home(backend: Backend):
    assert backend.empty((2, 3)).shape == (2, 3) and backend.empty((1,)).dtype == np.float32
    np.testing.assert_array_equal(backend.zeros((2,), np.float64), [0.0, 0.0])
    x = backend.asarray([[1, 2]], np.float32)
    assert x.dtype == np.float32 and backend.to_host(x) is x and backend.asarray(x) is x
    assert repr(get_backend("numpy", b_p=3)) == "<NumpyBackend numpy b_p=3>"


def test_the_gradient_check_accepts_a_right_gradient_and_names_a_wrong_input():
    def product(a: Array, b: Array) -> Array:
        return a * b

    a = np.arange(1.0, 5.0)
    b = np.arange(2.0, 6.0)
    assert check_gradient(product, lambda dy, a, b: (dy * b, dy * a), a, b) < 1e-8
    with pytest.raises(OpsError, match="input 1: relative error"):
        check_gradient(product, lambda dy, a, b: (dy * b, dy * a * 1.001), a, b)
    with pytest.raises(OpsError, match="input 0"):
        check_gradient(product, lambda dy, a, b: (dy * np.nan, dy * a), a, b)
    with pytest.raises(OpsError, match="1 gradients, expected 2"):
        check_gradient(product, lambda dy, a, b: (dy * b,), a, b)
    with pytest.raises(OpsError, match=r"gradient 0 has shape \(1,\)"):
        check_gradient(product, lambda dy, a, b: (dy[:1], dy), a, b)
    with pytest.raises(OpsError, match="float32, expected float64"):
        check_gradient(product, lambda dy, a, b: (dy, dy), a.astype("f"), b)


def test_ops_imports_nothing_of_the_other_packages():
    for file in Path(ops.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not {n.split(".")[0] for n in names} & {
                "nets",
                "roles",
                "runtime",
                "asyncio",
                "zmq",
            }, file
