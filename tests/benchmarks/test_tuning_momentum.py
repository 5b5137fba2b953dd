"""The parts of the tuning benchmark about momentum, at a small size: measurements, verdicts,
pictures and counts."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections import Counter
from dataclasses import replace

import pytest

from benchmarks.helpers.report import Record
from benchmarks.tuning import learning as tuning_learning
from benchmarks.tuning import momentum as tuning_momentum
from benchmarks.tuning import nan as tuning_nan
from benchmarks.tuning.learning import Learning, Learnt
from roles.tuning.ratio import Measured

SMALL = Learning("lenet", "mxnet-async", momentum=0.0, rate=0.05, batch=8, decays=False)


@pytest.fixture(autouse=True)
def digits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Learning, "data", {"format": "digits", "split": "train"})


def test_one_group_has_no_implicit_momentum_and_no_staleness() -> None:
    found = tuning_momentum.measure(
        replace(SMALL, workers=1, iterations=68), tuning_momentum.EXPONENTIAL
    )
    assert found.measured == Measured(0.0, 0.0)
    assert found.staleness == 0.0


@pytest.mark.slow
def test_four_groups_have_the_momentum_of_theorem_1_with_real_gradients() -> None:
    found = tuning_momentum.measure(
        replace(SMALL, workers=4, iterations=400), tuning_momentum.EXPONENTIAL
    )
    assert found.measured is not None
    assert found.measured.value == pytest.approx(0.75, abs=max(0.1, 3 * found.measured.error))
    assert found.by_staleness == pytest.approx(0.75, abs=0.06)
    assert found.staleness == pytest.approx(3, abs=0.2)


def test_runs_are_added_until_their_momentum_is_known_and_a_noisy_one_counts_little() -> None:
    sharp = Measured(0.5, 0.03)
    noisy = Measured(0.8, 0.06)
    assert tuning_momentum.weighed([sharp]) == sharp
    together = tuning_momentum.weighed([sharp, noisy])
    # the noisy runs have a fifth of the weight
    assert together.value == pytest.approx(0.5 + 0.3 / 5)
    assert together.error == pytest.approx(0.03 * 0.8**0.5)
    assert not tuning_momentum.settled([], 1)
    assert not tuning_momentum.settled([sharp, noisy], 3)
    assert tuning_momentum.settled([sharp, noisy, noisy], 3)
    assert tuning_momentum.settled([], 2)


def test_a_momentum_that_is_far_from_theory_or_not_known_fails_under_exponential_times_only() -> (
    None
):
    record = Record("r")
    record.table("t")
    near, far = (
        tuning_momentum.Found(Measured(value, 0.01), 0.5, 1.0, None) for value in (0.45, 0.3)
    )
    tuning_momentum.judge(record, "net", "exponential", 2, near)
    tuning_momentum.judge(record, "net", "measured", 2, far)
    assert record.status == "running"
    tuning_momentum.judge(record, "net", "exponential", 2, far)
    tuning_momentum.judge(record, "net", "exponential", 2, replace(far, measured=None))
    assert record.notes == [
        "net, 2 groups: 0.300, theory 0.500, at most 0.1 apart",
        "net, 2 groups: too few updates to know the momentum",
    ]


def test_the_picture_has_a_panel_for_each_net_and_leaves_out_unknown_values() -> None:
    rows = [
        [
            net,
            law,
            g,
            1 - 1 / g,
            "" if (law, g) == ("measured", 2) else 1 - 1 / g,
            0.05,
            1,
            0.0,
            0.0,
            "",
            "",
        ]
        for net in ("A & B", "C")
        for law in ("exponential", "measured")
        for g in (1, 2, 4)
    ]
    root = ET.fromstring(tuning_momentum.chart(rows))  # the XML was written by the benchmark itself
    lines = [
        len(each.attrib["points"].split())
        for each in root.iter("{http://www.w3.org/2000/svg}polyline")
    ]
    assert lines == [3, 3, 2] * 2


def test_runs_that_end_in_nan_are_counted_and_bounded() -> None:
    def run(seed: int) -> Learnt:
        return Learnt(
            [2.3, 4.0 if seed < 3 else 1.0],
            "the loss is nan: training diverged" if seed == 1 else "",
        )

    found = tuning_nan.tried(run, 10)
    assert (found.runs, found.nans, found.high, found.last) == (10, 1, 2, 3)
    assert 0.1 < found.at_most() < 0.4
    assert tuning_nan.tried(lambda seed: Learnt([1.0]), 100).at_most() == pytest.approx(
        0.026, abs=0.001
    )


def test_the_same_seed_gives_the_same_run_and_a_rate_that_is_far_too_high_ends_in_nan() -> None:
    wanted = replace(SMALL, workers=2, momentum=0.9, iterations=30)
    one, other = (
        tuning_learning.virtual(wanted, tuning_momentum.EXPONENTIAL, 3, stop=6) for _ in range(2)
    )
    assert one == other
    assert len(one.losses) == 6
    assert tuning_learning.virtual(
        replace(wanted, rate=50.0), tuning_momentum.EXPONENTIAL, 3
    ).diverged


@pytest.mark.slow
def test_a_real_run_leaves_its_losses_and_service_times() -> None:
    found, times = tuning_learning.real(replace(SMALL, iterations=12), 1, record=True)
    assert len(found.losses) == 12
    assert not found.diverged
    assert len(times["conv_compute/backward conv2"]) == 12
    assert Counter(len(of) for of in times.values())[12] >= 8
