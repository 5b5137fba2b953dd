"""The headlines of the papers: every row of docs/papers.md has a figure or a reason, and figures
come from the newest kept results. `tests/test_house_lists.py` compares the tables of the page."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from benchmarks.helpers.report import Record
from benchmarks.papers import gpu_memory, papers, studies
from benchmarks.papers.firecaffe import NIN, ONE
from benchmarks.papers.headline import GPU_MEMORY, PLAN, Headline, Source, cell, shown, table_of
from benchmarks.papers.page import UNMEASURED, row
from benchmarks.papers.planned import Case, planned
from benchmarks.papers.results import newest

HEADLINES = [
    pytest.param(each, id=f"{paper.key}, {each.where}, {each.claim}")
    for paper in papers.PAPERS
    for each in paper.headlines
]
STUDIES = {"rate-batch", "steady", "schedule", "fc-phase", "lazy-pull"}


def kept(folder: Path, width: str, date: str, status: str = "passed", **facts: float) -> None:
    """Write a result of the benchmark `b` with the part `p`."""
    machine = {"date": date, "commit": "abc"}
    record = Record("r", status=status, facts=facts, machine=machine)
    content = {"parts": {"p": record.content()}}
    (folder / f"b-{width}.json").write_text(json.dumps(content))


@pytest.mark.parametrize("headline", HEADLINES)
def test_each_headline_has_a_figure_or_a_reason_or_names_a_command(headline: Headline) -> None:
    where, claim, theirs, figure, how, differs = row(headline)
    assert all((where, claim, theirs, figure, differs))
    if headline.ours is None:
        assert (figure, how) == ("none", "")
        assert len(differs.split()) > 5
    elif figure == UNMEASURED:
        assert f"`{headline.ours.command}`" in how
        assert headline.ours.part in STUDIES or headline.ours.part in papers.PARTS
    else:
        assert "benchmarks/results/" in how


def test_every_plan_of_a_headline_is_in_the_kept_result() -> None:
    found = newest("papers", PLAN)
    assert found is not None
    table = table_of(found.record, "Predicted iterations")
    assert [case.name for case in papers.cases()] == [name for name, *_ in table.rows]


@pytest.mark.parametrize("case", [NIN[256], ONE[256]], ids=["32 workers", "one"])
def test_the_planner_still_predicts_the_seconds_of_the_kept_result(case: Case) -> None:
    found = newest("papers", PLAN)
    assert found is not None
    told = cell(
        table_of(found.record, "Predicted iterations"), {"plan": case.name}, "ms an iteration"
    )
    assert 1e3 * planned(case).seconds == pytest.approx(told, rel=0.01)


def test_of_two_results_of_a_part_the_later_one_counts(tmp_path: Path) -> None:
    kept(tmp_path, "avx2", "2026-01-02", speed=2.0)
    kept(tmp_path, "avx512", "2026-01-01", speed=1.0)
    found = newest("b", "p", tmp_path)
    assert found is not None
    assert (found.file, found.record.facts) == ("b-avx2", {"speed": 2.0})
    assert newest("b", "q", tmp_path) is None
    assert newest("c", "p", tmp_path) is None


def test_a_part_that_was_skipped_has_no_figure(tmp_path: Path) -> None:
    kept(tmp_path, "avx2", "2026-01-02", status="skipped")
    assert newest("b", "p", tmp_path) is None


def test_a_missing_result_shows_the_command_that_measures_it(tmp_path: Path) -> None:
    source = Source("b", "p", lambda record: shown(record.facts["speed"]))
    headline = Headline("1", "fast", "2", "run", source, "smaller")
    told = ("1", "fast", "2", UNMEASURED, "run: `python -m benchmarks.b --parts p`", "smaller")
    assert row(headline, tmp_path) == told
    kept(tmp_path, "avx2", "2026-01-02", speed=2.0)
    *_, figure, how, _ = row(headline, tmp_path)
    assert figure == "2"
    assert how == ("run ([b-avx2](../benchmarks/results/b-avx2.md), `p`, 2026-01-02, `abc`)")


def test_a_figure_that_the_result_lacks_is_an_error_that_names_the_table() -> None:
    record = Record("r")
    record.table("Speeds of all", "net", "speed")
    with pytest.raises(LookupError, match=r"'Speeds of all' has no row with .*'lenet'"):
        cell(table_of(record, "Speeds"), {"net": "lenet"}, "speed")
    with pytest.raises(LookupError, match=r"'r' has no table 'Times\.\.\.'"):
        table_of(record, "Times")


def test_figures_have_three_digits() -> None:
    assert [shown(number) for number in (1.2345, 12.345, 1234.5, math.inf)] == [
        "1.23",
        "12.3",
        "1234",
        "not reached",
    ]


def test_the_command_writes_a_part_and_lists_the_missing_figures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert papers.main(["--parts", "volumes", "--results", str(tmp_path)]) == 0
    (found,) = tmp_path.glob("papers-*.json")
    rows = json.loads(found.read_text())["parts"]["volumes"]["tables"][0]["rows"]
    assert [name for name, *_ in rows] == ["nin", "alexnet", "googlenet", "vgg19", "alexnet_owt"]
    out = capsys.readouterr().out
    assert "results:" in out
    assert "python -m tests.house --write" in out


def test_figures_of_studies_are_read_from_their_tables() -> None:
    record = Record("r")
    columns = (
        "groups, FC phase",
        "momentum",
        "base_lr",
        "ms an iteration",
        "iterations",
        "seconds",
    )
    record.table("LeNet to a loss", *columns)
    for name, seconds in (("1, merged", 3.0), ("1, unmerged", 9.0), ("8, merged", 2.0)):
        record.row(name, 0.9, 0.01, 1.0, 100, seconds)
    record.row("8, unmerged", 0.9, 0.01, 1.0, "1 of 2 diverged", "1 of 2 diverged")
    record.table("Unmerged / merged", "groups", "ms an iteration", "iterations", "seconds")
    record.row(1, 2.0, 1.0, 2.0)
    record.row(8, 3.0, 1.5, 4.5)
    record.table("The best rate of each batch", "batch", "base_lr", "passes over the data")
    record.row(32, 0.01, 2.0)
    record.row(1024, 0.08, 3.0)
    record.table("Whole / layer by layer", "stale", "iterations", "ms an iteration")
    record.row("all layers", 1.25, 1.0)
    record.table("Seconds to a mean loss of 1.2", "published", "tuner")
    record.row(3.0, 2.0)
    record.table("Iterations, times those of one group", "groups", "cold", "warm")
    record.row(8, 2.0, 1.1)
    found = {name: source.read(record) for name, source in vars(studies).items() if name.isupper()}
    assert found == {
        "FC_PHASE": "3, 1.5, 4.5",
        "SINGA": "4.5",
        "PASSES": "1.5",
        "RATES": "8 times the rate at 32 times the batch",
        "LAZY": "all layers: 20 %",
        "SCHEDULE": "1.5",
        "STEADY": "8 groups: 1.1 times those of one; from a cold start 2",
    }


def test_a_result_without_the_figure_leaves_the_word_to_an_older_one(tmp_path: Path) -> None:
    source = Source("b", "p", lambda record: shown(record.facts["speed"]))
    headline = Headline("1", "fast", "2", "run", source, "smaller")
    kept(tmp_path, "avx2", "2026-01-02", other=2.0)
    with pytest.raises(LookupError):
        row(headline, tmp_path)
    kept(tmp_path, "avx512", "2026-01-01", speed=1.0)
    assert row(headline, tmp_path)[3] == "1"
    assert "b-avx512" in row(headline, tmp_path)[4]


def test_a_gpu_that_sends_its_gradients_away_has_room_for_more_images(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def held(rows: int) -> dict[str, int]:
        mib = 1 << 20
        away = {"gradients in host memory": 500 * mib, "sums in host memory": 500 * mib}
        return {"activations": 100 * rows * mib, "gradients": 400 * mib, **away}

    monkeypatch.setattr(gpu_memory, "held", held)
    record = Record("r")
    gpu_memory.measure(record)
    images = {place: images for place, *_, images in record.tables[0].rows}
    assert images == {gpu_memory.ON_HOST: 159, gpu_memory.ON_GPU: 153}
    headlines = [each for paper in papers.PAPERS for each in paper.headlines]
    (ours,) = (each.ours for each in headlines if each.ours and each.ours.part == GPU_MEMORY)
    assert ours.read(record) == "3.92 %"
