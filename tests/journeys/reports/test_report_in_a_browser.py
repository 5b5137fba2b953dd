"""The controls of a report, driven by a script in a real browser."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from runtime.page.lineage import whole
from runtime.page.page import page
from tests.helpers.browser import BROWSER, probed
from tests.helpers.written_runs import BEGUN, ENDED, a_test, histograms, progress, run

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")


def trained(directory: Path, accuracy: float = 0.9777) -> Path:
    """A run of 100 iterations, 64 images of 640 each, with a test after every tenth."""
    said = [BEGUN]
    for n in range(1, 101):
        loss = 2 * math.exp(-n / 10) + 0.1 * (n % 2) + 0.05
        said.append(progress(0.5 * n, n, loss, epoch=n / 10))
        if n % 10 == 0:
            said.append(a_test(0.5 * n + 0.1, n, accuracy - 0.0001 * (100 - n)))
    return run(directory, [*said, ENDED])


def driven(
    tmp_path: Path, script: str, *directories: Path, width: int = 1280, **more: Any
) -> dict[str, Any]:
    """The findings of a script in the page of these runs, or else of one run."""
    found = directories or (trained(tmp_path / "a"),)
    text = page([whole(directory, lives=False) for directory in found], **more)
    told, console = probed(text, script, tmp_path, width)
    assert console == ""
    return told


def test_a_drag_zooms_a_chart_and_a_double_click_shows_all_of_it_again(tmp_path: Path) -> None:
    found = driven(
        tmp_path,
        """
        const { plot, figure } = plots.get("Accuracy of tests");
        await settled();
        const before = scales(plot);
        drag(figure, 0.5, 0.75);
        await settled();
        const zoomed = scales(plot), texts = plot.axes[1]._values;
        plots.get("Accuracy of tests").update();
        await settled();
        const updated = scales(plot);
        mouse(figure.querySelector(".u-over"), "dblclick", 5, 5);
        await settled();
        return { before, zoomed, updated, after: scales(plot), texts };
        """,
    )
    assert found["before"][:2] == [10, 100]
    assert found["zoomed"][:2] == pytest.approx([55, 77.5], rel=0.02)
    low, high = found["zoomed"][2:]
    assert 0.973 < low < high < 0.9765
    assert len(set(found["texts"])) == len(found["texts"]) >= 3
    assert found["updated"] == found["zoomed"]
    assert found["after"] == found["before"]


def test_a_drag_downwards_zooms_both_axes_and_new_points_leave_them(tmp_path: Path) -> None:
    found = driven(
        tmp_path,
        """
        await settled();
        const { plot, figure } = plots.get("Loss");
        const before = scales(plot);
        drag(figure, 0.1, 0.9, 0.5);
        await settled();
        const zoomed = scales(plot);
        addPoint(data.charts[0].curves[0], 101, 51, 9);
        plots.get("Loss").update();
        await settled();
        return { before, zoomed, updated: scales(plot), last: plot.data[0].at(-1) };
        """,
    )
    before, zoomed = found["before"], found["zoomed"]
    assert before[2] < zoomed[2] < zoomed[3] < before[3]
    assert zoomed[3] - zoomed[2] == pytest.approx(0.5 * (before[3] - before[2]), rel=0.05)
    assert (found["updated"], found["last"]) == (zoomed, 101)


def test_the_axis_of_values_is_logarithmic_or_linear_as_its_button_says(tmp_path: Path) -> None:
    found = driven(
        tmp_path,
        """
        const rate = plots.get("Learning rate"), loss = plots.get("Loss");
        const at = () => [rate, loss].map((one) => one.plot.scales.y.distr);
        const first = at();
        for (const one of [rate, loss]) one.logButton.click();
        return { first, second: at(), pressed: loss.logButton.getAttribute("aria-pressed") };
        """,
    )
    assert found == {"first": [3, 1], "second": [1, 3], "pressed": "true"}


def test_the_slider_smooths_losses_and_leaves_tests_as_they_are(tmp_path: Path) -> None:
    found = driven(
        tmp_path,
        """
        const slider = document.getElementById("smoothing");
        slider.value = 0.9;
        slider.dispatchEvent(new Event("input"));
        const { drawn } = plots.get("Loss");
        const rough = (ys) => Math.max(...ys.slice(80).map((y, at, all) => at && Math.abs(y - all[at - 1])));
        return {
          shown: drawn.map((one) => [one.curve.label, one.faint]),
          rough: drawn.slice(0, 2).map((one) => rough(one.ys)),
        };
        """,
    )
    assert found["shown"] == [["training", True], ["training", False], ["test", False]]
    raw, mean = found["rough"]
    assert raw == pytest.approx(0.1, rel=0.1)
    assert mean < raw / 5


def test_the_curves_are_shown_over_iterations_epochs_or_time(tmp_path: Path) -> None:
    found = driven(
        tmp_path,
        """
        const choice = document.getElementById("across"), found = {};
        for (const across of ["epochs", "time", "iterations"]) {
          choice.value = across;
          choice.dispatchEvent(new Event("change"));
          await settled();
          const { plot } = plots.get("Loss");
          found[across] = [plot.series[0].label, ...scales(plot).slice(0, 2)];
        }
        return found;
        """,
    )
    assert found == {
        "epochs": ["epoch", 0.1, 10],
        "time": ["seconds", 0.5, 50.1],
        "iterations": ["iteration", 1, 100],
    }


def test_a_click_on_a_name_in_the_legend_hides_its_curve(tmp_path: Path) -> None:
    found = driven(
        tmp_path,
        """
        const loss = plots.get("Loss"), shown = () => loss.plot.series.slice(1).map((one) => one.show);
        const name = loss.figure.querySelectorAll(".u-legend .u-series th")[2];
        const first = shown();
        name.click();
        const second = shown();
        loss.build();
        const built = shown();
        loss.figure.querySelectorAll(".u-legend .u-series th")[2].click();
        return { first, second, built, again: shown() };
        """,
    )
    assert found == {
        "first": [True, True],
        "second": [True, False],
        "built": [True, False],
        "again": [True, True],
    }


def test_the_texts_of_an_axis_tell_close_values_apart(tmp_path: Path) -> None:
    found = driven(
        tmp_path,
        """
        return {
          linear: [0.9777, 0.9833].map((value) => tickText(value, 0.0001)),
          quarter: tickText(0.975, 0.025),
          large: [12000000, 12000001].map((value) => tickText(value, 1)),
          small: [0.00002, 0.00003].map((value) => tickText(value, 0.00001)),
          zero: tickText(1e-19, 0.1),
          log: [logMarks(0.001, 10), logMarks(0.97, 0.985)],
          exact: [0.9777, 0.9833, 1 / 3, 0, 123456789].map(exact),
        };
        """,
    )
    assert found["linear"] == ["0.9777", "0.9833"]
    assert found["quarter"] == "0.975"
    assert len(set(found["large"])) == len(set(found["small"])) == 2
    assert found["zero"] == "0"
    assert found["log"][0] == [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10]
    assert len(found["log"][1]) >= 3
    assert found["exact"] == ["0.9777", "0.9833", "0.333333", "0", "1.23457e+8"]


@pytest.mark.parametrize("width", [420, 1400])
def test_a_page_fits_its_window(tmp_path: Path, width: int) -> None:
    found = driven(
        tmp_path,
        """
        const root = document.documentElement;
        const boxes = [...document.querySelectorAll("figure.chart canvas")];
        const sizes = boxes.map((one) => one.getBoundingClientRect());
        return { inner: innerWidth, scroll: root.scrollWidth, charts: boxes.length,
          least: Math.min(...sizes.map((one) => Math.min(one.width, one.height))),
          widest: Math.max(...sizes.map((one) => one.right)) };
        """,
        trained(tmp_path / "one"),
        trained(tmp_path / "two", 0.9833),
        width=width,
    )
    assert (found["inner"], found["scroll"]) == (width, width)
    assert found["charts"] == 4
    assert found["least"] > 150
    assert found["widest"] <= width


def test_the_table_of_runs_hides_the_curves_of_a_run_and_sorts_the_runs(tmp_path: Path) -> None:
    found = driven(
        tmp_path,
        """
        const names = () => [...document.querySelectorAll("#runs tbody tr a")].map((one) => one.textContent);
        const shown = () => plots.get("Loss").plot.series.slice(1).map((one) => one.show);
        document.querySelector("#runs [data-run='0']").click();
        const hidden = shown();
        plots.get("Loss").build();
        const built = shown();
        document.querySelector("#runs [data-run='0']").click();
        const heads = [...document.querySelectorAll("#runs th")];
        const best = heads.find((one) => one.textContent === "best accuracy");
        const orders = [names()];
        for (let click = 0; click < 2; click += 1) { best.click(); orders.push(names()); }
        return { hidden, built, again: shown(), orders };
        """,
        trained(tmp_path / "better", 0.9833),
        trained(tmp_path / "worse"),
    )
    assert found == {
        "hidden": [False, False, True, True],
        "built": [False, False, True, True],
        "again": [True, True, True, True],
        "orders": [["better", "worse"], ["worse", "better"], ["better", "worse"]],
    }


def test_the_page_is_light_or_dark_as_its_button_says(tmp_path: Path) -> None:
    found = driven(
        tmp_path,
        """
        const ground = () => getComputedStyle(document.body).backgroundColor;
        const first = ground();
        document.getElementById("theme").click();
        const second = ground(), axis = plots.get("Loss").plot.axes[0].stroke();
        document.getElementById("theme").click();
        return { first, second, axis, third: ground() };
        """,
    )
    assert found["first"] == found["third"] == "rgb(248, 250, 252)"
    assert (found["second"], found["axis"]) == ("rgb(15, 23, 42)", "#94a3b8")


@pytest.mark.parametrize("width", [1280, 420])
def test_a_confusion_matrix_fits_the_page(tmp_path: Path, width: int) -> None:
    counts = [[20 if a == b else (a + b) % 3 for a in range(12)] for b in range(12)]
    names = [f"class number {n}" for n in range(12)]
    fields = {"iteration": 100, "classes": names, "counts": counts}
    said = [BEGUN, progress(1.0, 100, 0.1), (2.0, "coordinator", "confusion", fields), ENDED]
    found = driven(
        tmp_path,
        """
        const svg = document.querySelector(".matrix"), box = svg.getBoundingClientRect();
        const inside = [...svg.querySelectorAll("text")].every((text) => {
          const at = text.getBoundingClientRect();
          return at.left >= box.left && at.top >= box.top && at.right <= box.right + 1;
        });
        const wide = document.documentElement.scrollWidth;
        return { inside, wide, cells: svg.querySelectorAll("g").length };
        """,
        run(tmp_path / "a", said),
        width=width,
    )
    assert found["inside"]
    assert found["wide"] <= width
    assert found["cells"] == sum(count > 0 for row in counts for count in row)


def test_histograms_are_drawn_for_the_chosen_layer_with_the_numbers_under_the_pointer(
    tmp_path: Path,
) -> None:
    found = driven(
        tmp_path,
        """
        const ink = (heat) => {
          const { width, height } = heat.canvas;
          const pixels = heat.canvas.getContext("2d").getImageData(70, 0, width - 70, height - 24);
          return pixels.data.filter((value, at) => at % 4 === 3 && value > 0).length;
        };
        await settled();
        const choice = document.getElementById("layer");
        const layers = [...choice.options].map((option) => option.value);
        choice.value = "ip1";
        choice.onchange();
        await settled();
        const last = heats[0].said.textContent;
        heats[0].tell(70);
        const first = heats[0].said.textContent;
        setHistograms(data);
        paint("dark");
        await settled();
        return { layers, first, last, chosen: choice.value, inked: heats.map(ink),
          texts: [0, 100, 0.0003, -1234.5].map(brief), shown: !document.getElementById("histograms").hidden };
        """,
        histograms(trained(tmp_path / "a"), [0, 50, 100], ["conv1", "ip1"]),
    )
    assert (found["layers"], found["chosen"]) == (["conv1", "ip1"], "ip1")
    assert found["shown"]
    assert found["texts"] == ["0", "100", "3e-4", "-1230"]
    assert found["last"].startswith("iteration 100: mean 0.5, deviation 0.25, from -101 to 101")
    assert found["first"].startswith("iteration 0: mean 0.5, deviation 0.25, from -1 to 1, 12.5 %")
    assert len(found["inked"]) == 2
    assert min(found["inked"]) > 1000


def test_a_run_without_histograms_has_no_section_of_them(tmp_path: Path) -> None:
    found = driven(tmp_path, 'return { hidden: document.getElementById("histograms").hidden };')
    assert found["hidden"]
