"""The random numbers of dropout: those of Philox4x32-10, however the rows are divided."""

from __future__ import annotations

import numpy as np
import pytest

from ops import Backend, OpsError, get_backend
from ops.backends.cupy_backend import CupyBackend
from ops.reference import philox
from tests.ops import naive
from tests.ops.host_cupy import HostCupy

# counter, key -> numbers: the test vectors of Random123, the authors' own library (kat_vectors)
VECTORS = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((2**32 - 1,) * 4, (2**32 - 1,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]  # fmt: skip
KEY = 0x299F31D0_A4093822


@pytest.fixture(params=["numpy", "cpu threads=1", "cpu threads=2", "kernels"])
def backend(request: pytest.FixtureRequest) -> Backend:
    name, _, threads = request.param.partition(" threads=")
    if name != "kernels":
        return get_backend(name, **({"threads": int(threads)} if threads else {}))
    try:
        return CupyBackend(xp=HostCupy())
    except OpsError as missing:
        pytest.skip(str(missing))


@pytest.mark.parametrize(("counter", "key", "numbers"), VECTORS)
def test_the_reference_of_the_tests_gives_the_published_numbers(counter, key, numbers):
    assert naive.philox(counter, key) == numbers


def test_the_operation_draws_these_numbers():
    (counter, key, numbers), *_ = VECTORS
    drawn = philox.words(np.array([counter[0]]), np.array([counter[1]]), key[0] | key[1] << 32)
    assert tuple(int(number[0]) for number in drawn) == numbers


def placed(backend: Backend, x: np.ndarray) -> np.ndarray:
    own = backend.empty(x.shape)
    own[...] = x
    return own


@pytest.mark.parametrize("shape", [(9, 1003), (6, 8, 3, 5), (6, 7, 3, 5), (4, 3, 5)], ids=str)
def test_every_backend_keeps_the_same_elements_and_so_do_parts_of_the_whole(backend, shape):
    x = np.random.default_rng(1).random(shape, np.float32) + 1
    whole = backend.dropout(placed(backend, x), 0.3, KEY, 5)
    expected = get_backend("numpy").dropout(x, 0.3, KEY, 5)
    np.testing.assert_array_equal(whole, expected)
    part = backend.dropout(placed(backend, x)[2:4], 0.3, KEY, 7)
    np.testing.assert_array_equal(part, whole[2:4])
    assert not np.array_equal(
        backend.dropout(placed(backend, x), 0.3, KEY + 1, 5) == 0, expected == 0
    )


@pytest.mark.parametrize("ratio", [0.1, 0.5, 0.9])
def test_the_share_of_dropped_elements_is_the_ratio(ratio):
    x = np.ones((64, 4096), np.float32)
    dropped = 1 - np.count_nonzero(get_backend("cpu").dropout(x, ratio, KEY)) / x.size
    # five standard deviations
    assert abs(dropped - ratio) < 5 * (ratio * (1 - ratio) / x.size) ** 0.5
