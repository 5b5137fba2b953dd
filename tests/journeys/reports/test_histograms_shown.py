"""Histograms of parameters on the page of made-up runs."""

from __future__ import annotations

from pathlib import Path

from tests.helpers.written_page import page_data, report
from tests.helpers.written_runs import BEGUN, ENDED, a_test, histograms, progress, run

TRAINED = [BEGUN, progress(1.0, 10, 0.5), a_test(2.0, 10, 0.9), ENDED]


def test_histograms_are_data_of_the_page_with_shades_of_the_fullest_bin(tmp_path: Path) -> None:
    directory = histograms(run(tmp_path / "a", TRAINED), [0, 10, 20])
    first, second = page_data(report(directory))["runs"][0]["histograms"]
    assert (first["layer"], first["name"]) == ("conv1", "weight")
    assert (first["of"], second["of"]) == ("values", "gradients")
    assert (first["x"], first["low"], first["high"]) == ([0, 10, 20], [-1, -11, -21], [1, 11, 21])
    assert first["bins"] == [[0, 64, 255, 128]] * 3
    assert "in the page with a script" in report(directory, static=True)
    assert "in the page with a script" not in report(run(tmp_path / "b", TRAINED), static=True)


def test_histograms_of_many_layers_are_thinned_and_keep_the_first_and_the_last(
    tmp_path: Path,
) -> None:
    directory = run(tmp_path / "a", TRAINED)
    histograms(directory, range(0, 1000, 10), [f"conv{n}" for n in range(100)])
    found = page_data(report(directory))["runs"][0]["histograms"]
    assert len(found) == 200
    assert {len(one["x"]) for one in found} == {6000 // 200}
    assert all((one["x"][0], one["x"][-1]) == (0, 990) for one in found)


def test_a_run_that_went_back_replaces_its_histograms_and_damaged_lines_are_counted(
    tmp_path: Path,
) -> None:
    directory = histograms(run(tmp_path / "a", TRAINED), [0, 10, 20, 30, 10])
    with (directory / "histograms.jsonl").open("a") as file:
        file.write('{"iteration": 1, "layer": "x", "arrays": [{"counts": ["a"]}]}\nno JSON\n')
    text = report(directory)
    assert page_data(text)["runs"][0]["histograms"][0]["x"] == [0, 10]
    assert "histograms.jsonl: 2 damaged lines are left out" in text


def test_a_resumed_run_continues_the_histograms_of_the_run_before(tmp_path: Path) -> None:
    before = run(tmp_path / "a", [BEGUN, progress(1.0, 10, 0.5), ENDED])
    histograms(before, [0, 5, 10, 15])
    resumed = {"iteration": 10, "checkpoint": str(before / "checkpoint-0000010.safetensors")}
    later = run(tmp_path / "b", [BEGUN, (0.2, "coordinator", "resumed", resumed)])
    histograms(later, [12, 17])
    assert page_data(report(later))["runs"][0]["histograms"][0]["x"] == [0, 5, 10, 12, 17]
