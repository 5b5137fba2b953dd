"""The benchmark of the queueing model: its parts at a small size, and its verdicts on figures that
miss their intervals."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks.helpers.report import Record
from benchmarks.tuning import prediction as tuning_prediction
from benchmarks.tuning import tuning
from benchmarks.tuning.kept import Kept
from benchmarks.tuning.prediction import CASES, Case, Cluster, Point
from roles.forecasting.prediction import Prediction
from runtime.queueing import work_graph
from runtime.queueing.estimates import Estimate


@pytest.mark.slow
def test_every_way_of_knowing_a_time_agrees() -> None:
    record = Record("r")
    tuning.formulas(record, cycles=4_000)
    assert (record.status, record.notes) == ("running", [])
    assert [len(table.rows) for table in record.tables] == [10, 10, 12]


def test_a_figure_outside_its_interval_is_reported_and_fails() -> None:
    record = Record("r")
    record.table("t")
    tuning.compare(record, "M/M/1", 0.5, 1.0, Estimate(1.01, 0.1))
    assert record.status == "running"
    tuning.compare(record, "M/M/1", 0.5, 1.0, Estimate(1.5, 0.1))
    assert record.status == "failed"
    assert record.notes == ["M/M/1 at 0.5: events 1.5 +- 0.1 s, textbook 1 s"]


@pytest.mark.few("[omnivore-4-2", "[singa-2-2", "[firecaffe")
@pytest.mark.parametrize(
    ("preset", "workers", "groups"),
    [("omnivore", 4, 1), ("omnivore", 4, 2), ("omnivore", 4, 4), ("singa", 2, 2), ("local-fc-shards", 4, 2),
     ("firecaffe", 4, 1), ("parameter-server", 4, 1)],
)  # fmt: skip
def test_small_clusters_take_as_long_as_predicted_within_a_tenth(
    preset: str, workers: int, groups: int, tmp_path: Path
) -> None:
    file = tmp_path / "kept.jsonl"
    runs = Cluster(tmp_path, Kept(file)).runs(CASES[0], preset, workers, groups)
    again = Cluster(tmp_path / "none", Kept(file))
    # the second call measures nothing again
    assert again.runs(CASES[0], preset, workers, groups) == runs
    found = Cluster(tmp_path, Kept()).point(CASES[0], preset, workers, groups, runs)
    assert abs(found.error) < 0.1


def test_the_measured_iterations_of_several_groups_are_the_predicted_ones() -> None:
    assert tuning_prediction.SEVERAL == (work_graph.MOST // 2, work_graph.MOST // 2)


@pytest.mark.parametrize(
    ("seconds", "known"),
    [
        ((1.0,), False),
        ((1.0, 1.02), True),
        ((1.0, 1.2), False),
        ((1.0, 1.06, 1.0, 1.06), False),  # the mean is known to 1.7 %
        ((1.0, 1.06, 1.0, 1.06, 1.03), True),
        ((1.0, 1.2, 1.1, 1.3, 1.2), False),  # the mean is known to 4.4 %
        ((1.0, 2.0) * 12, False),
        ((1.0, 2.0) * 12 + (1.0,), True),
    ],
)
def test_runs_by_chance_are_repeated_until_their_mean_is_known(
    seconds: Sequence[float], known: bool
) -> None:
    assert tuning_prediction.is_known(seconds) == known


def points(*errors: float) -> list[Point]:
    """Points for 1, 2, 4, ... groups. Each is twice as fast as the point before, and predicted with
    these errors."""
    return [
        Point(
            CASES[0], "omnivore", 8, 2**n, (0.5**n,), 0.1, Prediction(0.5**n * (1 + error), {}, "")
        )
        for n, error in enumerate(errors)
    ]


@pytest.mark.parametrize(
    ("errors", "missed"),
    [((0.01, -0.02, 0.03), []), ((0.06, 0.06, 0.06), ["median"]), ((0.0, 0.0, 0.11), ["median"]),
     ((0.0, -0.49, 0.0), ["median", "saturates"])],
)  # fmt: skip
def test_errors_and_another_saturation_point_are_reported_and_fail(
    errors: Sequence[float], missed: list[str]
) -> None:
    record = Record("r")
    tuning_prediction.judge(record, points(*errors))
    told = [note for note in record.notes if note.startswith("MISSED")]
    assert record.status == ("failed" if missed else "running")
    assert all(word in note for word, note in zip(missed, told, strict=True))


def curve(*runs: tuple[float, ...]) -> list[Point]:
    """Points for 1, 2, 4, ... groups, with these measured runs."""
    return [
        Point(CASES[0], "omnivore", 8, 2**n, each, 0.1, Prediction(1.0, {}, ""))
        for n, each in enumerate(runs)
    ]


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        (((2.0,), (1.2,), (1.0,)), (4, 4)),
        (((2.0,), (1.04, 1.08), (1.0, 1.0)), (2, 4)),  # 1.06 +- 0.04
        (((2.0,), (1.059, 1.061), (1.0, 1.0)), (4, 4)),
        (((2.0,), (1.039, 1.041), (1.0, 1.0)), (2, 2)),
        (((2.0,), (1.04, 1.04), (0.97, 1.03)), (2, 4)),
    ],
)
def test_the_saturation_point_is_as_certain_as_the_means_of_runs(
    runs: Sequence[tuple[float, ...]], expected: tuple[int, int]
) -> None:
    assert tuning_prediction.may_saturate(curve(*runs)) == expected


@pytest.mark.parametrize(
    "seconds",
    [
        {1: [2.0], 2: [1.04, 1.08, 1.06, 1.06], 4: [1.0, 1.0], 8: [1.2, 1.2]},
        {1: [1.06, 1.06], 2: [1.0, 1.0], 4: [1.2, 1.2], 8: [1.2, 1.2]},
    ],
)
def test_points_of_several_groups_and_points_that_decide_saturation_run_until_their_mean_is_known(
    seconds: dict[int, list[float]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(
        cluster: Cluster, case: Case, preset: str, workers: int, groups: int, seed: int
    ) -> float:
        return seconds[groups][seed - 1]

    monkeypatch.setattr(Cluster, "_run", run)
    monkeypatch.setattr(Cluster, "point", lambda cluster, *found: found[-1])
    made = list(tuning_prediction.curve(CASES[0], "omnivore", 8, Cluster(Path(), Kept())))
    assert made == [tuple(each) for each in seconds.values()]


def test_without_its_package_adaptdl_is_left_out_with_a_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "adaptdl.goodput", None)
    record = Record("r")
    tuning_prediction.beside_adaptdl(record, points(0.0))
    assert record.status == "running"
    assert "left out" in record.notes[0]
    assert "tuning-peers" in record.notes[0]
