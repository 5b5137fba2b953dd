"""The plain objects behind islands, compared with formulas and simple models in float64."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ops import Array, get_backend
from roles.attendance_messages import Abandon
from roles.islands.gathering import Gathering
from roles.islands.island_messages import Gain, GetOuter, OuterModel
from roles.islands.merged_statistics import merged
from roles.islands.outer_step import WARM, OuterStep, mean_gain
from roles.islands.packed_model import add_answer, copied, pack
from roles.learning.local_steps import LEAST, LocalSteps, StepsBySpeed, shared_out
from roles.learning.wire_formats import Wire, WireFormat
from runtime import MessageError

OPS = get_backend("numpy")
ISLANDS = ("island-0", "island-1", "island-2", "island-3")


def drawn(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


# -- the outer step


@pytest.mark.parametrize(("rate", "momentum"), [(1.0, 0.0), (1.0, 0.6), (0.7, 0.9)])
def test_outer_steps_of_whole_periods_are_nesterovs_momentum_on_gains(
    rate: float, momentum: float
) -> None:
    step = OuterStep(rate, momentum)
    model = (drawn(0, 3, 4),)
    expected = model[0].astype(np.float64)
    velocity = np.zeros((3, 4))
    for seed in range(1, 9):
        gain = drawn(seed, 3, 4)
        velocity = momentum * velocity + gain
        expected = expected + rate * (gain + momentum * velocity)
        step.apply("ip", model, (gain.copy(),), 1.0)
    np.testing.assert_allclose(model[0], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("rows", "times"),
    [((), 1.0), ((64,), 1.0), ((32, 32, 32, 32), 2.0), ((128, 64, 32, 32), (64 / 22) ** 0.5)],
)
def test_the_chosen_momentum_moves_the_model_by_the_root_of_the_number_of_equal_islands(
    rows: tuple[int, ...], times: float
) -> None:
    step = OuterStep(1.0, None)
    model = (np.zeros(3, np.float32),)
    moved = []
    for _ in range(3 * WARM):
        before = model[0].copy()
        step.suit(rows, 1.0)
        step.apply("ip", model, (np.ones(3, np.float32),), 1.0)
        moved.append(float((model[0] - before)[0]))
    assert moved[0] == pytest.approx(1.0, rel=0.06)
    assert moved[-1] == pytest.approx(times, rel=1e-5)
    assert moved == pytest.approx(sorted(moved))


def test_a_chosen_momentum_goes_on_from_the_periods_that_a_checkpoint_has() -> None:
    whole, later = OuterStep(1.0, None), OuterStep(1.0, None)
    models = [(np.zeros(3, np.float32),) for _ in range(2)]

    def steps(step: OuterStep, model: tuple[Array], count: int) -> None:
        for _ in range(count):
            step.suit((32, 32), 0.5)
            step.apply("ip", model, (np.ones(3, np.float32),), 0.5)

    steps(whole, models[0], 9)
    models[1][0][...] = models[0][0]
    later.take_back(whole.set_aside())
    for step, model in zip((whole, later), models, strict=True):
        steps(step, model, 9)
    assert models[0][0].tobytes() == models[1][0].tobytes()


def test_a_given_momentum_stays_and_a_chosen_one_is_without_velocity_once_one_island_is_left() -> (
    None
):
    given, chosen = OuterStep(1.0, 0.6), OuterStep(1.0, None)
    for step in (given, chosen):
        for rows in ((32, 32), (32,)):
            step.suit(rows, 1.0)
            step.apply("ip", (np.zeros(3, np.float32),), (np.ones(3, np.float32),), 1.0)
    np.testing.assert_allclose(given.set_aside()["ip.0"], 1.6)
    assert "ip.0" not in chosen.set_aside()


def test_the_momentum_of_a_period_decays_as_much_in_four_steps_as_in_one() -> None:
    whole, parts = OuterStep(1.0, 0.5), OuterStep(1.0, 0.5)
    first = np.ones(3, np.float32)
    for step in (whole, parts):
        step.apply("ip", (np.zeros(3, np.float32),), (first.copy(),), 1.0)
    nothing = np.zeros(3, np.float32)
    whole.apply("ip", (np.zeros(3, np.float32),), (nothing.copy(),), 1.0)
    for _ in range(4):
        parts.apply("ip", (np.zeros(3, np.float32),), (nothing.copy(),), 0.25)
    for step in (whole, parts):
        np.testing.assert_allclose(step.set_aside()["ip.0"], 0.5 * first, rtol=1e-6)


def test_velocities_that_were_put_back_go_on_as_before() -> None:
    one, other = OuterStep(1.0, 0.6), OuterStep(1.0, 0.6)
    models = ((drawn(1, 5),), (drawn(1, 5),))
    one.apply("ip", models[0], (drawn(2, 5),), 1.0)
    other.take_back(one.set_aside())
    models[1][0][...] = models[0][0]
    for step, model in zip((one, other), models, strict=True):
        step.apply("ip", model, (drawn(3, 5),), 0.5)
    assert models[0][0].tobytes() == models[1][0].tobytes()


def test_gains_are_averaged_by_rows_and_an_island_without_rows_does_not_count() -> None:
    gains = [(drawn(seed, 2, 3),) for seed in range(3)]
    gains[2][0][...] = np.nan
    (found,) = mean_gain(gains, [48, 16, 0])
    expected = 0.75 * gains[0][0].astype(np.float64) + 0.25 * gains[1][0]
    np.testing.assert_allclose(found, expected, rtol=1e-6)


# -- running statistics


def statistics_of(rows: Array, weight: float = 1.0) -> tuple[Array, Array, Array]:
    """Caffe's three arrays for these rows."""
    return (rows.mean(0) * weight, rows.var(0) * weight, np.array([weight]))


def test_merged_statistics_are_those_of_all_rows_together() -> None:
    rng = np.random.default_rng(1)
    parts = [rng.normal(at, 1 + at, (count, 5)) for at, count in ((0, 30), (2, 50), (-1, 20))]
    found = merged([statistics_of(part) for part in parts], [0.3, 0.5, 0.2])
    expected = statistics_of(np.concatenate(parts))
    for one, right in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, right, rtol=1e-12)


def test_statistics_that_have_seen_nothing_do_not_count() -> None:
    known = statistics_of(np.random.default_rng(1).normal(3, 2, (40, 5)), weight=2.0)
    nothing = tuple(np.zeros_like(array) for array in known)
    mean, spread, weight = merged([nothing, known], [0.5, 0.5])
    np.testing.assert_allclose(mean / weight, known[0] / 2, rtol=1e-12)
    np.testing.assert_allclose(spread / weight, known[1] / 2, rtol=1e-12)
    assert not any(array.any() for array in merged([nothing, nothing], [0.5, 0.5]))


# -- copies of the outer model


@pytest.mark.parametrize("name", ["float16", "bfloat16", "int8", "int4", "one-bit"])
def test_an_island_s_copy_follows_the_outer_model_and_equals_the_server_s_to_the_last_bit(
    name: str,
) -> None:
    layers = {"ip": [([20, 30], True), ([20], True)], "bn": [([4], False)] * 3}
    outer = {"ip": (drawn(1, 20, 30), drawn(2, 20)), "bn": tuple(drawn(s, 4) for s in (3, 4, 5))}
    servers, islands = copied(OPS, outer), copied(OPS, outer)
    wire, other = (Wire(layers, OPS, WireFormat(kind)) for kind in (name, "float32"))
    for seed in range(30):
        for blob in (*outer["ip"], *outer["bn"]):
            blob += 0.1 * drawn(100 + seed, *blob.shape)
        model = {
            "ip": tuple(x - h for x, h in zip(outer["ip"], servers["ip"], strict=True)),
            "bn": outer["bn"],
        }
        wire.errors.take_back({})
        answer = OuterModel(version=seed, whole=False, **pack(wire, model)._asdict())
        add_answer(wire, layers, servers, answer)
        add_answer(other, layers, islands, answer)
    for layer, blobs in outer.items():
        for mine, theirs, right in zip(islands[layer], servers[layer], blobs, strict=True):
            assert mine.tobytes() == theirs.tobytes()
            assert np.abs(mine - right).max() <= (0.4 if layer == "ip" else 0)


# -- the gathering


def gain(rows: int = 16) -> Gain:
    return Gain(number=0, count=1, rows=rows, layers=(), arrays=(), formats=(), blobs=())


def test_gains_wait_in_the_order_of_the_islands_and_each_island_waits_once() -> None:
    gathering: Gathering[int] = Gathering(ISLANDS)
    gathering.take(gain(), "island-2", 2)
    gathering.take(gain(), "island-0", 0)
    assert (gathering.waiting, gathering.complete) == (2, False)
    for message, name, said in (
        (gain(), "island-2", "is 'waiting for an answer'"),
        (gain(), "replica-0", "is 'not an island of this run'"),
    ):
        with pytest.raises(MessageError, match=said):
            gathering.take(message, name, 9)
    with pytest.raises(MessageError, match="is 'waiting for an answer'"):
        gathering.asked(GetOuter(), "island-2")
    assert list(gathering.taken().items()) == [("island-0", 0), ("island-2", 2)]
    assert gathering.waiting == 0
    gathering.asked(GetOuter(), "island-2")
    for rank, name in enumerate(ISLANDS):
        gathering.take(gain(), name, rank)
    assert gathering.complete


def test_the_shares_of_a_period_add_up_to_one_once_all_islands_are_known() -> None:
    gathering: Gathering[int] = Gathering(ISLANDS)
    assert gathering.share(16) == 1.0
    gathering.take(gain(64), "island-3", 0)
    assert gathering.share(64) == 0.25
    assert gathering.rows == (64,)
    for name, rows in zip(ISLANDS, (16, 16, 32), strict=False):
        gathering.take(gain(rows), name, 0)
    assert [gathering.share(rows) for rows in (16, 16, 32, 64)] == [0.125, 0.125, 0.25, 0.5]


def test_an_island_that_is_abandoned_is_not_waited_for_until_it_asks_for_the_outer_model() -> None:
    gathering: Gathering[int] = Gathering(ISLANDS)
    for rank, name in enumerate(ISLANDS[:3]):
        gathering.take(gain(), name, rank)
    gathering.abandon(Abandon(worker="island-3"), "coordinator")
    assert gathering.complete
    gathering.abandon(Abandon(worker="island-1"), "coordinator")
    assert gathering.complete
    assert list(gathering.taken()) == ["island-0", "island-2"]
    for late in ("island-1", "island-3"):
        with pytest.raises(MessageError, match="is 'away'"):
            gathering.take(gain(), late, 0)
    gathering.asked(GetOuter(), "island-1")
    for name in ISLANDS[:2]:
        gathering.take(gain(), name, 0)
    assert not gathering.complete


def test_a_period_is_shared_by_the_islands_that_are_not_away() -> None:
    gathering: Gathering[int] = Gathering(ISLANDS)
    for rows, name in zip((16, 16, 32, 64), ISLANDS, strict=True):
        gathering.take(gain(rows), name, 0)
    gathering.taken()
    gathering.abandon(Abandon(worker="island-3"), "coordinator")
    assert [gathering.share(rows) for rows in (16, 32)] == [0.25, 0.5]


# -- local steps


def steps(**said: object) -> StepsBySpeed:
    return StepsBySpeed(LocalSteps(**said), ISLANDS, 100_000)  # type: ignore[arg-type]


def test_steps_follow_the_measured_speeds_while_they_change() -> None:
    found = steps(period=16)
    assert [found.of(name) for name in ISLANDS] == [1] * 4
    for name, seconds in zip(ISLANDS, (0.2, 0.2, 0.1, 0.05), strict=True):
        found.stepped(name, 0, seconds, 0.0)
    assert [found.of(name) for name in ISLANDS] == [4, 4, 8, 16]
    for _ in range(50):
        found.stepped("island-0", 0, 0.05, 0.0)
    assert [found.of(name) for name in ISLANDS] == [16, 4, 8, 16]


@pytest.mark.parametrize("seconds", [0.0, 1e-320, -1.0, float("nan"), float("inf")])
def test_seconds_of_which_no_speed_follows_do_not_count(seconds: float) -> None:
    found = steps()
    for name in ISLANDS:
        found.stepped(name, 3, seconds, 1.0)
    assert [found.of(name) for name in ISLANDS] == [1] * 4
    found.merged(3, 3.0)
    found.stepped("island-0", 4, 0.5, 5.0)
    found.stepped("island-1", 4, 1.0, 5.0)
    assert found.period == LEAST
    assert [found.of(name) for name in ISLANDS] == [16, 8, 1, 1]


def test_a_very_slow_island_does_one_step() -> None:
    found = steps(period=16, speeds=(1.0, 100.0, 100.0, 100.0))
    assert [found.of(name) for name in ISLANDS] == [1, 16, 16, 16]


def test_equal_steps_and_given_speeds_need_no_measurement() -> None:
    assert steps(period=5, equal=True).of("island-3") == 5
    assert [steps(period=8, speeds=(1, 1, 2, 4)).of(name) for name in ISLANDS] == [2, 2, 4, 8]


def test_a_period_is_as_long_as_an_exchange_and_a_run_has_some_hundred_of_them() -> None:
    found = steps(speeds=(1, 1, 2, 4))
    assert found.of("island-3") == LEAST
    found.stepped("island-3", 7, 0.05, 10.0)
    found.merged(6, 10.5)  # of another island
    found.merged(7, 11.0)
    assert found.period == 40  # two seconds there and back, of 0.05 s each
    short = StepsBySpeed(LocalSteps(speeds=(1, 1, 2, 4)), ISLANDS, 2000)
    assert short.period == 5  # 2000 iterations, 200 periods, two fastest islands' worth each
    short.stepped("island-3", 7, 0.05, 10.0)
    short.merged(7, 10.2)
    assert short.period == 8  # in a shorter period, islands would wait for answers


def test_the_steps_of_the_others_follow_the_fastest_that_is_left() -> None:
    for found in (steps(period=16, speeds=(1, 1, 2, 4)), steps(period=16)):
        for name, seconds in zip(ISLANDS, (0.2, 0.2, 0.1, 0.05), strict=True):
            found.stepped(name, 0, seconds, 0.0)
        found.forget("island-3")
        assert [found.of(name) for name in ISLANDS] == [8, 8, 16, 1]
        found.joined("island-3")
        found.stepped("island-3", 1, 0.05, 0.0)
        assert [found.of(name) for name in ISLANDS] == [4, 4, 8, 16]


@given(
    count=st.integers(0, 300),
    speeds=st.lists(st.floats(0.1, 50), min_size=1, max_size=9),
)
def test_iterations_are_shared_out_once_and_in_proportion(count: int, speeds: list[float]) -> None:
    cuts = shared_out(count, speeds)
    assert cuts[0] == 0
    assert cuts[-1] == count
    sizes = np.diff(cuts)
    assert np.all(sizes >= 0)
    assert np.all(np.abs(sizes - count * np.array(speeds) / sum(speeds)) <= 1)


def test_islands_that_go_together_share_a_ticket_of_a_whole_period() -> None:
    found = steps(period=16, speeds=(1, 1, 2, 4), together=True)
    assert found.of("island-0") == 32
    assert shared_out(32, (1, 1, 2, 4)) == (0, 4, 8, 16, 32)
    assert steps(period=16, together=True).of("island-0") == 64


def test_islands_that_go_together_are_not_measured_so_that_a_run_repeats_itself() -> None:
    found = steps(together=True)
    before = found.of("island-0")
    found.stepped("island-0", 3, 0.01, 1.0)
    found.merged(3, 9.0)
    assert found.of("island-0") == before
