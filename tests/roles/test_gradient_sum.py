"""The sum of gradients: equal to sum(), and the same to the last bit for every order of arrival."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

import ops
from ops import Array
from roles.learning.gradient_sum import GradientSum

OPS = ops.get_backend("numpy")


def names(count: int) -> tuple[str, ...]:
    return tuple(f"worker-{n}" for n in range(count))


def contributions(count: int, seed: int = 1) -> dict[str, tuple[Array, ...]]:
    """Two blobs per source, with numbers of very different sizes, so that the order of addition
    shows in the last bits."""
    rng = np.random.default_rng(seed)
    return {
        name: tuple(
            (rng.standard_normal(shape) * 10.0 ** rng.integers(-4, 5)).astype(np.float32)
            for shape in ((3, 4), (5,))
        )
        for name in names(count)
    }


def total_of(
    order: tuple[str, ...], given: dict[str, tuple[Array, ...]], key: object = 0
) -> tuple[Array, ...]:
    made = GradientSum(OPS)
    found = None
    for place, name in enumerate(order):
        found = made.add(key, names(len(given)).index(name), len(given), given[name])
        assert (found is not None) == (place == len(order) - 1)
    assert found is not None
    return found


def orders(count: int) -> list[tuple[str, ...]]:
    every = itertools.permutations(names(count))
    if count <= 4:
        return list(every)
    shuffled = [list(names(count)) for _ in range(5)]
    for number, order in enumerate(shuffled):
        random.Random(number).shuffle(order)
    return [tuple(order) for order in shuffled] + [names(count)[::-1]]


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 8, 17])
def test_the_sum_covers_all_sources_and_is_bit_equal_for_any_order_of_arrival(
    count: int,
) -> None:
    given = contributions(count)
    exact = [sum(blobs[n].astype(np.float64) for blobs in given.values()) for n in range(2)]
    size = [sum(np.abs(blobs[n].astype(np.float64)) for blobs in given.values()) for n in range(2)]
    # in float32, in the order that the docstring gives, by the array operation for many arrays
    blobs = list(given.values())
    in_pairs = [
        OPS.add_all([of[n] for of in blobs]) if count > 1 else blobs[0][n] for n in range(2)
    ]
    for order in orders(count):
        found = total_of(order, given)
        for n in range(2):
            assert found[n].dtype == np.float32
            assert found[n].tobytes() == in_pairs[n].tobytes()
            assert np.all(np.abs(found[n] - exact[n]) <= count * 2.0**-24 * size[n])


def test_the_contributions_differ_enough_for_the_order_to_matter() -> None:
    given = list(contributions(8).values())
    forward, backward = (
        list(itertools.accumulate(blobs[0] for blobs in way))[-1] for way in (given, given[::-1])
    )
    assert forward.tobytes() != backward.tobytes()


@pytest.mark.parametrize("members", [2, 4, 8])
def test_neighbours_that_were_added_up_beforehand_change_no_bit(members: int) -> None:
    whole = list(contributions(16).values())
    each = 16 // members
    shares = [
        dict(zip(names(each), whole[low : low + each], strict=True)) for low in range(0, 16, each)
    ]
    sums = [total_of(names(each), share) for share in shares]
    found = total_of(names(members), dict(zip(names(members), sums, strict=True)))
    for blob, right in zip(found, total_of(names(16), contributions(16)), strict=True):
        assert blob.tobytes() == right.tobytes()


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8])
def test_contributed_arrays_are_never_written_to(count: int) -> None:
    given = contributions(count)
    before = {name: [blob.copy() for blob in blobs] for name, blobs in given.items()}
    for blobs in given.values():
        for blob in blobs:
            blob.flags.writeable = False  # received arrays are read-only too
    for order in orders(count):
        total_of(order, given)
    for name, blobs in given.items():
        for blob, copy in zip(blobs, before[name], strict=True):
            np.testing.assert_array_equal(blob, copy)


def test_sums_of_several_keys_grow_side_by_side() -> None:
    made = GradientSum(OPS)
    first = contributions(2, seed=1)
    second = contributions(2, seed=2)
    assert made.add("x", 1, 2, first["worker-1"]) is None
    assert made.add("y", 0, 2, second["worker-0"]) is None
    assert repr(made) == "<gradient sum, 2 keys open>"
    x = made.add("x", 0, 2, first["worker-0"])
    y = made.add("y", 1, 2, second["worker-1"])
    assert x is not None
    assert y is not None
    np.testing.assert_array_equal(x[0], first["worker-0"][0] + first["worker-1"][0])
    np.testing.assert_array_equal(y[0], second["worker-0"][0] + second["worker-1"][0])
    assert repr(made) == "<gradient sum, 0 keys open>"


@pytest.mark.parametrize("before", [(), (0,), (2,), (0, 2)])
@pytest.mark.parametrize("intruder", [-1, 3])
def test_a_part_that_does_not_exist_is_refused_and_changes_nothing(
    before: tuple[int, ...], intruder: int
) -> None:
    refused_and_unchanged(before, intruder)


@pytest.mark.parametrize("before", [(0,), (2,), (0, 1), (2, 1)])
def test_a_repeat_is_refused_and_changes_nothing_whether_it_was_added_or_waits(
    before: tuple[int, ...],
) -> None:
    for again in before:
        refused_and_unchanged(before, again)


def refused_and_unchanged(before: tuple[int, ...], intruder: int) -> None:
    given = list(contributions(3).values())
    made = GradientSum(OPS)
    for part in before:
        made.add("k", part, 3, given[part])
    shown = repr(made)
    with pytest.raises(
        ValueError, match=(f"part {intruder} of 3: no such part, or it came twice for k")
    ):
        made.add("k", intruder, 3, given[0])
    assert repr(made) == shown
    found = None
    for part in range(3):
        if part not in before:
            found = made.add("k", part, 3, given[part])
    assert found is not None
    for blob, right in zip(found, total_of(names(3), contributions(3)), strict=True):
        assert blob.tobytes() == right.tobytes()
