"""HE(g) in closed form: Omnivore's figures, agreement with the event model without spread, and the
ways by which gradients travel.
"""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.queueing.efficiency import (
    Phases,
    by_binomial_tree,
    by_collective,
    by_host,
    by_server,
    by_servers,
    by_tree,
    conv_seconds,
    fc_seconds,
    iteration_seconds,
    penalty,
    saturating_groups,
)
from runtime.queueing.event_simulation import Delay, Model, Together, Visit
from runtime.queueing.mean_values import Station, solve

TIMES = st.floats(0.01, 10.0)


@settings(max_examples=60, deadline=None)
@given(g=st.integers(1, 12), conv=TIMES, fc=TIMES)
def test_without_spread_the_event_model_takes_exactly_the_time_of_the_formula(
    g: int, conv: float, fc: float
) -> None:
    model = Model()
    server = model.station("fc")
    for _ in range(g):
        model.job((Delay(conv), Visit(server, fc)))
    found = model.run(20 * g, warm=5 * g)  # whole rounds
    assert found.cycle_seconds == pytest.approx(iteration_seconds(g, conv, fc), rel=1e-9)


@settings(max_examples=60, deadline=None)
@given(g=st.integers(1, 12), conv=TIMES, fc=TIMES)
def test_spread_only_ever_costs_time(g: int, conv: float, fc: float) -> None:
    solved = solve([Station("conv", servers=None), Station("fc")], {"conv": conv, "fc": fc}, g)
    assert solved.cycle_seconds >= iteration_seconds(g, conv, fc) * (1 - 1e-12)
    # the worst case: each job waits for all others
    assert solved.cycle_seconds <= (conv + g * fc) / g * (1 + 1e-12)


def test_a_pipelined_group_hides_its_fc_phase_and_several_fc_servers_share_the_groups() -> None:
    assert iteration_seconds(4, conv=8.0, fc=1.0) == 9.0 / 4
    assert iteration_seconds(4, conv=8.0, fc=1.0, pipelined=True) == 8.0 / 4
    assert iteration_seconds(4, conv=1.0, fc=1.0) == 1.0
    assert iteration_seconds(4, conv=1.0, fc=1.0, fc_servers=2) == 0.5


def test_two_jobs_per_group_model_pipelining() -> None:
    """The devices of a group are then a station: they compute one batch while the other batch is in
    its FC phase.
    """
    model = Model()
    fc = model.station("fc")
    for _ in range(3):
        devices = model.station("devices")
        for _ in range(2):
            model.job((Visit(devices, 6.0), Visit(fc, 1.0)))
    found = model.run(60, warm=12)
    assert found.cycle_seconds == pytest.approx(
        iteration_seconds(3, conv=6.0, fc=1.0, pipelined=True), rel=1e-9
    )


@pytest.mark.parametrize(
    ("copies", "at"),
    [
        (by_server, {1: 1, 2: 2, 32: 32}),  # D.4.1
        (by_servers(4), {1: 1, 4: 1, 32: 8}),
        (by_tree(2), {1: 1, 2: 2, 8: 6, 32: 10}),  # FireCaffe 6.2: 2 log2 p
        (by_tree(32), {32: 32}),  # one level is a server
        (by_binomial_tree, {1: 1, 2: 1, 8: 3, 32: 5}),
        (by_collective, {1: 0, 2: 0.5, 4: 0.75}),
        (by_host(0.25), {1: 1, 4: 1, 8: 2}),
    ],
)
def test_how_many_copies_pass_the_busiest_link(copies, at: dict[int, float]) -> None:
    assert {k: copies(k) for k in at} == at


def test_a_server_is_a_station_that_all_copies_pass() -> None:
    """One group of k workers pulls, computes and pushes. The link is the bottleneck, as in
    D.4.1.
    """
    phases = Phases(compute=0.8, network=0.2, fc=0.0)
    k = 8
    model = Model()
    link = model.station("link")
    model.job(
        (
            Together(
                tuple(
                    (Visit(link, 0.1), Delay(phases.compute / k), Visit(link, 0.1))
                    for _ in range(k)
                )
            ),
        )
    )
    found = model.run(20, warm=2)
    assert found.cycle_seconds == pytest.approx(conv_seconds(phases, k), rel=0.1)
    assert link.busy / found.seconds == pytest.approx(1.0, rel=0.1)


def test_the_conv_phase_overlaps_computing_with_its_network_unless_it_does_not() -> None:
    phases = Phases(compute=8.0, network=1.0, fc=0.5)
    assert conv_seconds(phases, 2) == 4.0
    assert conv_seconds(phases, 4) == 4.0
    assert conv_seconds(phases, 2, overlapped=False) == 6.0
    assert conv_seconds(phases, 8, by_tree(2)) == 6.0


def test_an_fc_phase_in_shards_computes_less_and_exchanges_more() -> None:
    assert fc_seconds(1.0, 0.1, shards=1, exchange=0.2) == 1.1
    assert fc_seconds(1.0, 0.1, shards=4, exchange=0.2) == pytest.approx(0.55)


def test_the_fc_phase_of_33_machines_saturates_at_four_groups_as_in_figure_20() -> None:
    """CaffeNet on 32 + 1 machines (Figures 5 and 20): a single group is bound by the network, and
    four groups saturate the FC phase.
    """
    phases = Phases(compute=12.0, network=0.1, fc=0.6)
    choices = [1, 2, 4, 8, 16, 32]
    conv = lambda k: conv_seconds(phases, k)  # noqa: E731
    assert saturating_groups(choices, conv, phases.fc, devices=32) == 4
    slow_down = [penalty(g, conv, phases.fc, devices=32) for g in choices]
    assert slow_down[0] == 1.0
    assert slow_down == sorted(slow_down, reverse=True)
    assert slow_down[2] == slow_down[-1]  # further groups do not help
    assert saturating_groups([1, 2], conv, phases.fc, devices=32) is None


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -1.0])
def test_times_that_are_negative_or_not_finite_are_refused(wrong: float) -> None:
    with pytest.raises(
        ValueError, match=(r"network: found .*, expected a finite number of " r"seconds >= 0")
    ):
        Phases(compute=1.0, network=wrong, fc=1.0)
