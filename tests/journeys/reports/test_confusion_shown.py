"""The confusion matrix on the page of made-up runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.written_page import page_data, report
from tests.helpers.written_runs import BEGUN, ENDED, progress, run

COUNTS = [[8, 1, 0], [0, 9, 0], [2, 3, 0]]


def a_matrix(t: float, counts: Any, **more: Any) -> tuple[float, str, str, dict[str, Any]]:
    return t, "coordinator", "confusion", {"iteration": int(10 * t), "counts": counts, **more}


@pytest.mark.parametrize("static", [False, True])
def test_the_matrix_of_the_last_test_is_drawn_with_the_names_of_classes(
    tmp_path: Path, static: bool
) -> None:
    names = ["cat", "dog", "<i>"]
    said = [BEGUN, a_matrix(1.0, [[1]]), a_matrix(2.0, COUNTS, classes=names), ENDED]
    text = report(run(tmp_path / "a", said), static=static)
    assert "The test at iteration 20." in text
    told = re.findall(r"<title>([^<]*)</title>", text)[1:]
    assert told == [
        "cat: 8 (88.89 %) found as cat",
        "cat: 1 (11.11 %) found as dog",
        "dog: 9 (100.00 %) found as dog",
        "&lt;i&gt;: 2 (40.00 %) found as cat",
        "&lt;i&gt;: 3 (60.00 %) found as dog",
    ]
    worst = re.findall(r"<tr><td>([^<]*)</td><td>([^<]*)</td><td class=\"n\">(\d+)</td>", text)
    assert worst[0] == ("&lt;i&gt;", "dog", "3")
    if not static:
        (found,) = page_data(text)["runs"][0]["confusion"]
        assert found == {"net": "", "iteration": 20, "classes": names, "counts": COUNTS}


def test_each_test_net_has_its_matrix_and_damaged_ones_are_left_out(tmp_path: Path) -> None:
    said = [
        BEGUN,
        a_matrix(1.0, COUNTS, net="near"),
        a_matrix(2.0, [[1, 2]], net="far"),
        a_matrix(2.0, [[1, "2"], [3, 4]], net="x"),
        a_matrix(2.0, [[-1]], net="y"),
        a_matrix(2.0, {"a": 1}, net="z"),
        ENDED,
    ]
    found = page_data(report(run(tmp_path / "a", said)))["runs"][0]["confusion"]
    assert [(one["net"], one["classes"]) for one in found] == [("near", ["0", "1", "2"])]


def test_a_matrix_of_many_classes_is_drawn_without_numbers(tmp_path: Path) -> None:
    counts = [[int(a == b) for a in range(100)] for b in range(100)]
    text = report(run(tmp_path / "a", [BEGUN, a_matrix(1.0, counts), ENDED]), static=True)
    assert text.count('<g class="right">') == 100
    assert '<text x="' not in text.partition('<svg class="matrix"')[2].partition("</svg>")[0]
    assert "No class was taken for another." in text


def test_a_resumed_run_shows_the_matrix_of_the_run_before_until_its_first_test(
    tmp_path: Path,
) -> None:
    before = run(tmp_path / "a", [BEGUN, progress(1.0, 10, 0.5), a_matrix(1.0, COUNTS), ENDED])
    resumed = {"iteration": 10, "checkpoint": str(before / "checkpoint-0000010.safetensors")}
    said = [BEGUN, (0.2, "coordinator", "resumed", resumed), progress(1.0, 20, 0.4)]
    later = run(tmp_path / "b", said)
    assert page_data(report(later))["runs"][0]["confusion"][0]["counts"] == COUNTS
    run(tmp_path / "b", [*said, a_matrix(2.0, [[4]])])
    assert page_data(report(later))["runs"][0]["confusion"][0]["counts"] == [[4]]
