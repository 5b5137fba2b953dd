"""The overview of a report: the figures of a run, the table of several runs, and the keys in which
they differ."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

import pytest

from runtime.cli.main import main
from runtime.page.differing_keys import differing
from runtime.page.headline import headline, seconds_left
from runtime.page.lineage import whole
from tests.helpers.written_runs import BEGUN, ENDED, a_test, progress, run

TESTED = [a_test(2.5, 20, 0.9777), a_test(4.5, 40, 0.9833), a_test(5.5, 50, 0.9801)]
LOSSES = [progress(float(n), 10 * n, 1 / n, epoch=n / 4) for n in range(1, 6)]
SAID = [BEGUN, *sorted([*LOSSES, *TESTED], key=lambda one: one[0])]


def rows(text: str, table: str) -> list[list[str]]:
    """The texts of the cells of a table, row by row, with its head."""
    (found,) = re.findall(rf'<table id="{table}">(.*?)</table>', text, re.DOTALL)
    return [
        [
            html.unescape(re.sub("<[^>]*>", "", cell)).strip()
            for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL)
        ]
        for row in re.findall(r"<tr>(.*?)</tr>", found, re.DOTALL)
    ]


def test_a_card_shows_the_best_score_and_its_iteration_next_to_the_last(tmp_path: Path) -> None:
    found = {
        figure.key: figure
        for figure in headline(whole(run(tmp_path / "a", [*SAID, ENDED]), lives=False))
    }
    assert found["test accuracy"].text == "0.9801"
    assert (found["best accuracy"].text, found["best accuracy"].label) == (
        "0.9833",
        "best accuracy, iteration 40",
    )
    assert found["epoch"].text == "1.25"
    assert "left" not in found


def test_a_live_run_shows_the_time_left_at_its_recent_speed(tmp_path: Path) -> None:
    # ten iterations a second at first, then one a second: 50 of 100 iterations are left
    slow = [progress(5.0 + n, 50 + n, 0.1) for n in range(1, 31)]
    story = whole(run(tmp_path / "a", [*SAID, *slow]), lives=True)
    assert seconds_left(story) == pytest.approx(20.0)
    assert {figure.key: figure.text for figure in headline(story)}["left"] == "20 s"
    assert seconds_left(whole(run(tmp_path / "b", SAID[:2]), lives=True)) is None


def test_a_folder_of_runs_is_a_report_of_all_of_them_with_a_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "runs"
    for name in ("one", "two"):
        run(folder / name, [*SAID, ENDED])
    run(folder / "empty", [BEGUN])
    assert main(["report", str(folder)]) == 0
    assert f"report     {folder / 'report.html'}" in capsys.readouterr().out
    head, *found = rows((folder / "report.html").read_text(), "runs")
    assert head[:2] == ["run", "state"]
    assert head[head.index("best accuracy")] == "best accuracy"
    told = {row[0]: dict(zip(head, row, strict=True)) for row in found}
    assert set(told) == {"one", "two", "empty"}
    assert told["one"]["best accuracy"] == "0.9833"
    assert told["one"]["iterations"] == "50 of 100"
    assert (told["empty"]["state"], told["empty"]["best accuracy"]) == ("killed", "")


def test_of_a_folder_with_too_many_runs_the_newest_are_shown_and_the_others_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runtime.cli.report.MOST_RUNS", 2)
    for name in ("a", "b", "c"):
        run(tmp_path / name, [BEGUN])
    assert main(["report", str(tmp_path)]) == 0
    assert "found 3 runs; the newest 2 are shown" in capsys.readouterr().err


def test_the_keys_in_which_runs_differ_are_a_table(tmp_path: Path) -> None:
    for name, batch, strategy in (("one", 32, "workers = 1"), ("two", 64, 'note = "<b>"')):
        text = f'[run]\nname = "{name}"\n[train]\nnet = "lenet"\nbatch = {batch}\n'
        folder = run(tmp_path / name, [*SAID, ENDED])
        (folder / "config.toml").write_text(f"{text}[train.strategy]\n{strategy}\n")
    assert main(["report", str(tmp_path)]) == 0
    text = (tmp_path / "report.html").read_text()
    assert sorted(rows(text, "keys")[0]) == ["key", "one", "two"]
    one, two = (rows(text, "keys")[0].index(name) for name in ("one", "two"))
    found = {row[0]: (row[one], row[two]) for row in rows(text, "keys")[1:]}
    assert found == {
        "train.batch": ("32", "64"),
        "train.strategy.workers": ("1", ""),
        "train.strategy.note": ("", "<b>"),
    }


@pytest.mark.parametrize(
    ("configurations", "names"),
    [
        ([{"a": {"b": 1}}, {"a": {"b": 1}}], []),
        ([{"a": {"b": 1}}, {"a": {"b": 2}}, {}], ["a.b"]),
        ([{"machine": [{"name": "x"}]}, {"machine": [{"name": "y"}]}], ["machine.0.name"]),
        ([{"run": {"name": "x"}}, {"run": {"name": "y"}}], []),
        ([{"a": True}, {}], []),
    ],
)
def test_keys_differ_if_two_known_configurations_do(
    configurations: list[dict[str, Any]], names: list[str]
) -> None:
    assert [name for name, _ in differing(configurations)] == names
