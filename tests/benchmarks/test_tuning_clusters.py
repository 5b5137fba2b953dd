"""The benchmark of `plan` for Omnivore's own clusters: a whole run, and the judge of its
findings."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.helpers.report import Record
from benchmarks.tuning import clusters as tuning_clusters
from benchmarks.tuning.clusters import CLUSTERS, SATURATED
from runtime.plan.prospects import Prospect, Prospects


@pytest.mark.slow
@pytest.mark.xfail(
    strict=True,
    reason="plan has the conv model on the machine of a worker, as up does, and their transfers "
    "share its link: no network rate explains both of the paper's observations any more",
)
def test_plan_agrees_with_the_findings_of_omnivores_authors_and_says_why_where_it_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # the benchmark has four more rates, at 4 s each
    monkeypatch.setattr(tuning_clusters, "RATES", (1, 2.5))
    monkeypatch.setattr(tuning_clusters, "PICTURE", tmp_path / "pictures" / "curve.svg")
    record = Record("r")
    tuning_clusters.clusters(record, cycles=0)
    assert record.status == "running", record.notes
    seconds, first, networks, asynchronous = record.tables
    assert [row[0] for row in asynchronous.rows] == [cluster.name for cluster in CLUSTERS[:2]]
    assert [row[2] for row in first.rows if row[3] == SATURATED] == [SATURATED]
    assert len(seconds.rows) == 4 + 4 + 6 + 6
    assert len(networks.rows) == 2
    assert (tmp_path / "pictures" / "curve.svg").read_text().startswith("<svg")


def test_by_the_formula_four_groups_saturate_the_large_cluster() -> None:
    formula = tuning_clusters._formula(CLUSTERS[2])
    assert tuning_clusters._first(formula) == SATURATED
    assert list(formula) == [1, 2, 4, 8, 16, 32]


@pytest.mark.parametrize(("number", "busy", "formula"), [(0, 0.97, 8), (2, 0.99, 8), (2, 0.5, 4)])
def test_a_finding_that_the_paper_does_not_have_fails(
    number: int, busy: float, formula: int
) -> None:
    record = Record("r")
    found = Prospects(choices=(Prospect("", 8, 1.0, {"fc_server": busy}, "fc_server"),))
    tuning_clusters._judge(record, CLUSTERS[number], found, formula)
    assert record.status == "failed"
    assert len(record.notes) == 1
