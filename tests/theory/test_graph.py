"""Graphs of pieces that wait for one another, compared with results by hand or by mean value
analysis."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise
from random import Random

import pytest

from runtime.queueing.mean_values import Station, solve
from runtime.queueing.rate_sharing import Sharing, Transfer
from runtime.queueing.work_graph import DRAWS, Piece, Sent, evaluate
from runtime.simulation.clock import run_virtual
from runtime.transport import network_model

EXPONENTIAL = 1.0  # squared coefficient of variation


def test_pieces_one_after_the_other_take_the_sum_of_their_times() -> None:
    cycle = [
        Piece("a", station="x", seconds=2.0),
        Piece("b", ("a",), station="y", seconds=3.0, delay=1.0),
    ]
    found = evaluate([cycle], {})
    assert found.seconds == pytest.approx(6.0)
    assert found.use == pytest.approx({"x": 2 / 6, "y": 3 / 6})


def test_a_pipeline_of_two_stations_is_as_fast_as_the_slower() -> None:
    """a(n + 1) waits for a(n) only. The mean cycle time of the recursion is the largest of its
    circles, a or b."""
    cycle = [
        Piece("a", since=("a",), station="x", seconds=2.0),
        Piece("b", ("a",), ("b",), station="y", seconds=3.0),
    ]
    assert evaluate([cycle], {}).seconds == pytest.approx(3.0)


def test_a_part_of_a_cycle_that_takes_no_time_does_not_run_ahead_for_ever() -> None:
    """Islands of which no work was measured: a(n + 1) waits for a(n) only, and a takes no time."""
    cycle = [Piece("a", since=("a",)), Piece("b", ("a",), station="y", seconds=3.0)]
    other = [Piece("c", station="z", seconds=1.0)]
    assert evaluate([cycle], {}).seconds == pytest.approx(3.0)
    assert evaluate([cycle, other], {}).seconds == pytest.approx(1 / (1 / 3 + 1), rel=0.05)


def test_the_piece_that_was_ready_first_is_served_first() -> None:
    """Both pieces are ready at once: the second waits for the first, and the third for the
    second."""
    cycle = [
        Piece("first", station="x", seconds=5.0),
        Piece("second", station="x", seconds=1.0),
        Piece("third", ("second",), station="y", seconds=1.0),
    ]
    assert evaluate([cycle], {}).seconds == pytest.approx(7.0)


@pytest.mark.parametrize("members", [2, 8])
def test_a_group_that_waits_for_its_slowest_waits_for_the_expected_maximum(members: int) -> None:
    """The expected maximum of k exponential times is the harmonic number H_k (Omnivore, appendix
    D.4, assumes no spread)."""
    cycle = [
        Piece(n, station=f"device {n}", seconds=1.0, variation=EXPONENTIAL) for n in range(members)
    ]
    expected = sum(1 / n for n in range(1, members + 1))
    means = [evaluate([cycle], {}, seed).seconds for seed in range(16)]
    assert math.fsum(means) / len(means) == pytest.approx(expected, rel=0.06)


@pytest.mark.parametrize("groups", [2, 4, 16])
def test_groups_at_one_server_are_as_fast_as_mean_value_analysis_predicts(groups: int) -> None:
    """The machine repairman problem: each group has its own exponential conv phase, and all share
    one exponential FC server."""
    demands = {"conv": 4.0, "fc": 1.0}
    exact = solve([Station("conv", None), Station("fc")], demands, groups)
    cycles = [
        [
            Piece("conv", station=f"conv {group}", seconds=4.0, variation=EXPONENTIAL),
            Piece("fc", ("conv",), station="fc", seconds=1.0, variation=EXPONENTIAL),
        ]
        for group in range(groups)
    ]
    found = [evaluate(cycles, {}, seed) for seed in range(16)]  # the mean of several draws each
    assert sum(each.seconds for each in found) / 16 == pytest.approx(exact.cycle_seconds, rel=0.05)
    assert sum(each.use["fc"] for each in found) / 16 == pytest.approx(exact.use["fc"], rel=0.05)


def test_one_group_at_a_time_is_in_a_stretch() -> None:
    """Three groups, each 2 s in the stretch and 1 s outside: 2 s per cycle, although each group has
    its own devices."""
    cycles = [
        [
            Piece("in", station=f"a {n}", seconds=2.0, takes="stretch"),
            Piece("over", ("in",), gives="stretch"),
            Piece("out", ("over",), station=f"b {n}", seconds=1.0),
        ]
        for n in range(3)
    ]
    assert evaluate(cycles, {}).seconds == pytest.approx(2.0)


def test_transfers_share_a_way_and_are_counted_on_each() -> None:
    cycle = [Piece(n, size=100.0, ways={"out": 1, f"in {n}": 1}, lane=n) for n in range(4)]
    found = evaluate([cycle], dict.fromkeys(["out", *(f"in {n}" for n in range(4))], 100.0))
    assert found.seconds == pytest.approx(4.0)
    assert found.use == pytest.approx({"out": 1.0, **{f"in {n}": 0.25 for n in range(4)}})


def test_a_lane_has_room_for_its_window_and_a_sender_waits_for_that_only() -> None:
    """Three transfers of 100 bytes at 100 bytes/s with a window of 100: the third is admitted when
    the second begins."""
    wide = {"ways": {"way": 1}, "size": 100.0, "lane": "a", "window": 100.0}
    cycle = [
        Piece("0", **wide),
        Piece("1", (Sent("0"),), **wide),
        Piece("2", (Sent("1"),), **wide),
        Piece("work", (Sent("2"),), station="x", seconds=10.0),
    ]
    assert evaluate([cycle], {"way": 100.0}).seconds == pytest.approx(12.0)
    last = [*cycle[:3], Piece("work", ("2",), station="x", seconds=10.0)]
    assert evaluate([last], {"way": 100.0}).seconds == pytest.approx(13.0)


def test_no_transfer_gets_more_of_a_way_until_transfers_with_less_are_held_back_elsewhere() -> None:
    """Max-min fairness: three transfers from a slow sender get 10 each. The transfer from a fast
    sender gets the rest of the receiver's rate."""
    sharing = Sharing({"slow": 30.0, "fast": 100.0, "in": 100.0})
    for number in range(3):
        sharing.start(Transfer(number, 100.0, {"slow": 1, "in": 1}, number), 0.0)
    sharing.start(Transfer("fast", 140.0, {"fast": 1, "in": 1}, "fast"), 0.0)
    assert sharing.next_end() == pytest.approx(2.0)
    assert [transfer.who for transfer in sharing.ended(2.0)] == ["fast"]
    assert sharing.next_end() == pytest.approx(10.0)
    assert [transfer.who for transfer in sharing.ended(10.0)] == [0, 1, 2]
    assert sharing.carried == pytest.approx({"slow": 300.0, "fast": 140.0, "in": 440.0})


@pytest.mark.parametrize("seed", range(8))
def test_transfers_end_when_they_do_on_the_simulated_network(seed: int) -> None:
    """Two implementations of one model: sixty transfers between five senders and five receivers,
    begun at random."""
    chance = Random(seed)
    rates = {f"{way} {n}": chance.uniform(50.0, 200.0) for way in ("out", "in") for n in range(5)}
    begun = [
        (at, chance.uniform(1.0, 300.0), f"out {chance.randrange(5)}", f"in {chance.randrange(5)}")
        for at in sorted(chance.uniform(0.0, 20.0) for _ in range(60))
    ]
    assert predicted_ends(rates, begun) == pytest.approx(run_virtual(simulated_ends(rates, begun)))


# time of start, bytes, sender's way, receiver's way
Begun = Sequence[tuple[float, float, str, str]]


def predicted_ends(rates: Mapping[str, float], begun: Begun) -> list[float]:
    sharing = Sharing(rates)
    ends = [0.0] * len(begun)
    left = deque(enumerate(begun))
    while left or sharing.next_end() < math.inf:
        now = sharing.next_end()
        if left and left[0][1][0] <= now:
            number, (at, size, a, b) = left.popleft()
            sharing.start(Transfer(number, size, {a: 1, b: 1}, number), at)
            continue
        for transfer in sharing.ended(now):
            ends[transfer.who] = now
    return ends


async def simulated_ends(rates: Mapping[str, float], begun: Begun) -> list[float]:
    network = network_model.Sharing()
    ends = [0.0] * len(begun)
    loop = asyncio.get_running_loop()
    ways = {name: network_model.Way(rate) for name, rate in rates.items()}
    all_ended = asyncio.Event()

    def ended(number: int) -> None:
        ends[number] = loop.time()
        if all(ends):
            all_ended.set()

    for number, (at, size, a, b) in enumerate(begun):
        flow = network_model.Flow((ways[a], ways[b]), size, partial(ended, number))
        loop.call_at(at, network.add, flow)
    await all_ended.wait()
    return ends


def test_transfers_of_a_lane_leave_one_after_the_other() -> None:
    sharing = Sharing({"way": 10.0})
    for number in range(3):
        sharing.start(Transfer(number, 10.0, {"way": 1}, "lane"), 0.0)
    order = []
    ends = [0.0]
    while (now := sharing.next_end()) < math.inf:
        order += [transfer.who for transfer in sharing.ended(now)]
        ends.append(now)
    assert order == [0, 1, 2]
    assert [later - earlier for earlier, later in pairwise(ends)] == pytest.approx([1.0, 1.0, 1.0])


def test_pieces_that_wait_for_unknown_pieces_or_for_one_another_are_refused() -> None:
    with pytest.raises(ValueError, match="names outside of the cycle: \\['b'\\]"):
        evaluate([[Piece("a", ("b",))]], {})
    with pytest.raises(ValueError, match="wait for each other"):
        evaluate([[Piece("a", ("b",)), Piece("b", ("a",))]], {})


@pytest.mark.parametrize(("variation", "draws"), [(1e-4, 1), (4.0, 4)])
def test_where_the_times_of_several_groups_vary_the_mean_of_several_draws_is_returned(
    variation: float, draws: int
) -> None:
    cycles = [[Piece("a", station="x", seconds=1.0, variation=variation)] for _ in range(2)]
    found = evaluate(cycles, {})
    assert found.cycles == draws * 31 * 2  # ends of the later half of 64 cycles
    assert found.use == {"x": pytest.approx(1.0, rel=0.01)}


def test_groups_that_have_found_their_order_are_not_watched_to_the_end() -> None:
    """At one station every round takes as long as the last. With two stations of different paces no
    two rounds are alike."""
    alike = evaluate([[Piece("a", station="x", seconds=1.0)] for _ in range(2)], {})
    # the later half of 24 cycles, not of 64
    assert (alike.cycles, alike.seconds) == (11 * 2, pytest.approx(1.0))
    rare = [Piece("a", station="x", seconds=1.0)]
    often = [Piece("a", station="y", seconds=0.3)]
    assert evaluate([rare, often], {}).cycles == DRAWS * 31 * 2


def test_two_evaluations_with_one_seed_are_the_same() -> None:
    cycle = [Piece("a", station="x", seconds=1.0, variation=0.5)]
    assert evaluate([cycle], {}, 7) == evaluate([cycle], {}, 7) != evaluate([cycle], {}, 8)
