"""Dense and recurrent layers in precision "bf16" compared with float64 products of operands rounded
by integers."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from ops import Array, Backend, KernelsMissing, get_backend
from ops.cpu.gemm.bfloat16_choice import bfloat16_missing
from ops.cpu.gemm.products import pays
from ops.cpu.team.workspace import Workspace
from tests.ops.conftest import nans
from tests.ops.cpu.narrow import passes_with_narrow_vectors
from tests.ops.cpu.test_bfloat16_product import columns_first, rounded, rows_first
from tests.ops.cpu.test_dense import operands
from tests.ops.cpu.test_recurrent import case, named, single

needs_fast_bfloat16 = pytest.mark.skipif(
    bool(bfloat16_missing()), reason=bfloat16_missing() or "multiplies bfloat16 fast"
)
# images, inputs, outputs: one whole block, and sizes that end within one
SIZES = [(64, 512, 256), (100, 777, 130), (33, 1100, 70)]


@functools.cache
def narrow(threads: int) -> Backend:
    return get_backend("cpu", threads=threads, precision="bf16")


@pytest.fixture(params=[1, 2], ids=["one thread", "two threads"])
def backend(request: pytest.FixtureRequest) -> Backend:
    return narrow(request.param)


def close(found: Array, a: Array, b: Array, added: float | Array = 0.0) -> None:
    """Check that `found` is the product of the rounded operands, but for the order of its sums."""
    a, b = rounded(a), rounded(b)
    bound = (a.shape[1] + 2) * 2.0**-23 * (np.abs(a) @ np.abs(b) + np.abs(added))
    assert (np.abs(found - (a @ b + added)) <= bound).all()


@needs_fast_bfloat16
@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("layout", [rows_first, columns_first])
def test_all_three_products_of_a_layer_round_their_operands(random, backend, sizes, layout) -> None:
    x, w, b, dy = operands(random, sizes)
    w = layout(w)
    close(backend.dense_forward(x, w, b, out=nans(dy.shape, "f")), x, w.T, b)
    close(backend.dense_backward_data(dy, w, out=nans(x.shape, "f")), dy, w)
    into = layout(nans(w.shape, "f"))
    _, db = backend.dense_backward_weights(x, dy, bias=True, out_w=into, out_b=nans(b.shape, "f"))
    close(into, dy.T, x)
    # the sum of a bias is no product: its numbers keep all their bits
    np.testing.assert_allclose(db, dy.sum(0, np.float64), rtol=0, atol=1e-4)
    close(backend.matmul(x, columns_first(w.T), nans(dy.shape, "f")), x, w.T)


@needs_fast_bfloat16
def test_a_small_product_has_the_bits_of_float32(random) -> None:
    x, w, b, _ = operands(random, (16, 300, 100))
    assert not pays(16, 100, 300)
    fast = get_backend("cpu", threads=1)
    found = [each.dense_forward(x, w, b) for each in (narrow(1), fast)]
    assert found[0].tobytes() == found[1].tobytes()


@needs_fast_bfloat16
def test_products_in_bfloat16_have_the_same_bits_for_every_number_of_threads(random) -> None:
    x, w, b, dy = operands(random, (130, 700, 260))
    found = []
    for threads in (1, 2, 3):
        each = narrow(threads)
        dw, _ = each.dense_backward_weights(x, dy, bias=False)
        results = each.dense_forward(x, w, b), each.dense_backward_data(dy, w), dw
        found.append(b"".join(result.tobytes() for result in results))
    assert len(set(found)) == 1


@needs_fast_bfloat16
@pytest.mark.parametrize("bias", [False, True])
def test_the_scratch_memory_of_rounded_products_is_known_beforehand(
    random, monkeypatch, bias
) -> None:
    backend = narrow(2)
    x, w, b, dy = operands(random, SIZES[1])
    monkeypatch.setattr(backend, "workspace", Workspace())
    backend.dense_forward(x, w, b if bias else None)
    backend.dense_backward_data(dy, w)
    backend.dense_backward_weights(x, dy, bias=bias)
    assert backend.workspace.size == backend.dense_scratch(*SIZES[1], training=True, bias=bias)


@named
@needs_fast_bfloat16
@pytest.mark.parametrize("sizes", [(6, 40, 64, 96), (5, 64, 100, 130)], ids=str)
def test_states_and_gradients_of_recurrent_layers_are_within_the_rounding_of_operands(
    random, backend, kind, loops, gates, kept, sizes
) -> None:
    a = case(random, sizes, gates)
    for name in ("w_x", "w_h", "w_o"):
        a[name] *= 0.2  # so that no rounding error grows from step to step
    states, gradients = kind(get_backend("numpy"), a, True)
    out = kept(*(nans(gradient.shape, "f") for gradient in gradients))
    found_states, found = kind(backend, single(a), True, out=out)
    rounds = False
    for one, other in zip((*found_states, *found), (*states, *gradients), strict=True):
        error = np.linalg.norm(one - other) / np.linalg.norm(other)
        assert error < 2.0**-6
        rounds = rounds or error > 2.0**-12
    assert rounds  # float32 is within 2^-18


@named
@needs_fast_bfloat16
def test_steps_in_bfloat16_have_the_same_bits_for_every_number_of_threads(
    random, monkeypatch, kind, loops, gates, kept
) -> None:
    a = single(case(random, (4, 70, 40, 50), gates))
    found = []
    for threads in (1, 2, 3):
        each = narrow(threads)
        monkeypatch.setattr(each, "workspace", Workspace())
        states, gradients = kind(each, a, True)
        found.append(b"".join(array.tobytes() for array in (*states, *gradients)))
        told = each.recurrent_scratch((4, 70, 40), 50, gates, training=True)
        assert each.workspace.size == told
    assert len(set(found)) == 1


@pytest.mark.skipif(not bfloat16_missing(), reason="needs a processor without fast products")
def test_a_backend_in_bf16_is_refused_in_words_without_the_instructions() -> None:
    with pytest.raises(KernelsMissing, match=r"products in bfloat16: .*use precision 'fast'"):
        get_backend("cpu", precision="bf16")


def test_a_backend_in_bf16_is_refused_with_vectors_of_256_bits() -> None:
    passes_with_narrow_vectors(__file__, "refused_in_words")
