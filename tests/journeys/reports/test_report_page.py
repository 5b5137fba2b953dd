"""The report of made-up runs: each number is checked by hand."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.cli.main import main
from runtime.page.gantt import gantt
from runtime.page.lineage import whole
from runtime.page.series import Series, thinned
from runtime.page.time_shares import times_of
from tests.helpers.written_page import page_data, report
from tests.helpers.written_runs import BEGUN, ENDED, FAILED, a_test, progress, run, usage

TRAINED = [
    BEGUN,
    *(progress(float(n), 10 * n, 1 / n) for n in range(1, 6)),
    a_test(5.5, 50, 0.9),
    ENDED,
]


def charts(text: str) -> list[dict[str, Any]]:
    """The data of every chart."""
    found: list[dict[str, Any]] = page_data(text)["charts"]
    return found


def titles(text: str) -> list[str]:
    return [chart["title"] for chart in charts(text)]


def drawings(text: str) -> list[str]:
    """The titles of the drawings of a page."""
    return re.findall(r'<svg role="img" aria-label="([^"]*)"', text)


def series(values: list[float]) -> Series:
    """One value an iteration, each of which takes two seconds."""
    found = Series()
    for number, value in enumerate(values):
        found.add(number, 2 * number, value)
    return found


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=3000))
def test_fewer_points_keep_the_least_and_the_greatest_and_both_ends(values: list[float]) -> None:
    xs, seconds, ys = thinned(series(values), 100)
    assert len(ys) <= 100 + 2
    assert [2 * x for x in xs] == seconds
    assert (min(ys), max(ys), ys[0], ys[-1]) == (min(values), max(values), values[0], values[-1])
    assert xs == sorted(xs)
    assert all(values[int(x)] == y for x, y in zip(xs, ys, strict=True))


def test_a_spike_of_one_iteration_in_ten_thousand_is_in_the_curve() -> None:
    values = [1.0] * 10_000
    values[7321] = 50.0
    values[123] = float("nan")
    xs, _, ys = thinned(series(values))
    assert (7321.0, 50.0) in zip(xs, ys, strict=True)
    assert len(xs) < 1000


def test_loss_and_accuracy_stand_over_iterations_and_over_time(tmp_path: Path) -> None:
    text = report(run(tmp_path / "a", TRAINED))
    assert titles(text)[:3] == ["Loss", "Accuracy of tests", "Learning rate"]
    loss, accuracy, rate = charts(text)[:3]
    training, test = loss["curves"]
    assert (training["label"], training["x"]) == ("training", [10, 20, 30, 40, 50])
    assert training["y"] == pytest.approx([1, 1 / 2, 1 / 3, 1 / 4, 1 / 5], rel=1e-6)
    assert training["t"] == [1, 2, 3, 4, 5]
    assert (test["label"], test["x"], test["t"], test["y"]) == ("test", [50], [5.5], [0.1])
    assert accuracy["curves"][0]["y"] == [0.9]
    assert (loss["log"], rate["log"], rate["steps"]) == (False, True, True)


def test_a_static_page_draws_losses_and_scores_over_both_axes_and_has_no_script(
    tmp_path: Path,
) -> None:
    text = report(run(tmp_path / "a", TRAINED), static=True)
    assert drawings(text)[:5] == [
        "Loss over iterations",
        "Loss over time",
        "Accuracy of tests over iterations",
        "Accuracy of tests over time",
        "Learning rate",
    ]
    assert "<script" not in text


def test_the_epochs_of_a_run_are_an_axis_and_not_a_curve(tmp_path: Path) -> None:
    said = [progress(float(n), 10 * n, 1 / n, epoch=n / 4) for n in range(1, 6)]
    text = report(run(tmp_path / "a", said))
    assert not [title for title in titles(text) if "poch" in title]
    assert '"epochs":[[10,20,30,40,50],[0.25,0.5,0.75,1,1.25]]' in text


def test_a_long_curve_has_fewer_points_in_the_page_which_says_so(tmp_path: Path) -> None:
    said = [progress(0.01 * n, n, 7.0 if n == 4321 else 1.0) for n in range(1, 10_001)]
    text = report(run(tmp_path / "a", said))
    (curve,) = charts(text)[0]["curves"]
    assert 900 < len(curve["x"]) <= 2000
    assert curve["y"][curve["x"].index(4321)] == 7.0
    assert "The longest curve has 10,000 points." in text


def test_several_runs_are_curves_of_the_same_charts_with_their_names(tmp_path: Path) -> None:
    text = report(run(tmp_path / "one", TRAINED), run(tmp_path / "two", TRAINED))
    labels = [curve["label"] for curve in charts(text)[0]["curves"]]
    assert labels == ["one training", "one test", "two training", "two test"]
    assert len({curve["colour"] for curve in charts(text)[0]["curves"]}) == 2


@pytest.mark.few("[said1-", "[said2-")
@pytest.mark.parametrize(
    ("said", "lives", "state"),
    [
        (TRAINED, False, "finished"),
        ([*TRAINED[:-1], FAILED], False, "failed"),
        (TRAINED[:-1], False, "killed"),
        (TRAINED[:-1], True, "running"),
        (TRAINED[:1], True, "running"),
        ([], True, "starting"),
        # the journal of an older version
        ([*TRAINED[:-1], (6.0, "coordinator", "finished", {"iterations": 50})], False, "finished"),
        ([BEGUN, (1.0, "coordinator", "stopping early", {"iteration": 40})], True, "stopping"),
    ],
)
def test_a_report_shows_the_state_of_a_run(
    tmp_path: Path, said: list[Any], lives: bool, state: str
) -> None:
    text = report(run(tmp_path / "a", said), lives=lives)
    assert f'<b class="state {state}">{state}</b>' in text
    assert ("was killed by SIGKILL" in text) is (state == "failed")


def test_damaged_lines_are_counted_and_the_first_is_shown(tmp_path: Path) -> None:
    directory = run(tmp_path / "a", TRAINED)
    file = directory / "events.jsonl"
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join([*lines[:2], '{"t": 1, "ev<b>\n', "\x00\x01\n", *lines[2:]]) + '{"half')
    text = report(directory)
    assert "events.jsonl: 2 damaged lines are left out: {&#34;t&#34;: 1, &#34;ev&lt;b&gt;" in text
    assert charts(text)[0]["curves"][0]["x"] == [10, 20, 30, 40, 50]


def test_a_resumed_run_continues_the_curves_of_earlier_runs_at_its_first_iteration(
    tmp_path: Path,
) -> None:
    first = run(tmp_path / "first", TRAINED[:-1])  # until iteration 50, after 5.5 s; then killed
    resumed = {"iteration": 30, "checkpoint": str(first / "checkpoint-0000030.safetensors")}
    again = [
        (0.2, "coordinator", "resumed", resumed),
        progress(1.0, 40, 0.01),
        progress(2.0, 50, 0.02),
    ]
    second = run(tmp_path / "second", again)
    # this run died before its first checkpoint
    after = {"after": "second", "count": "restart 1 of 3"}
    last = [
        (0.0, "supervisor", "restart", after),
        (0.1, "coordinator", "resumed", resumed),
        progress(1.5, 40, 0.5),
    ]
    text = report(run(tmp_path / "third", [*last, ENDED]))
    loss = charts(text)[0]["curves"][0]
    assert loss["x"] == [10, 20, 30, 40]
    assert loss["y"] == pytest.approx([1, 1 / 2, 1 / 3, 0.5], rel=1e-6)
    assert loss["t"] == [1, 2, 3, pytest.approx(1.5 + 5.5)]
    text = report(second)
    assert charts(text)[0]["curves"][0]["x"] == [10, 20, 30, 40, 50]
    assert "<dt>continues</dt><dd>first</dd>" in text


def test_a_run_that_was_scaled_is_continued_and_the_next_one_continues_its_curves(
    tmp_path: Path,
) -> None:
    handed = {"iterations": 50, "seconds": 5.0, "images_per_second": 4321.0, "checkpoint": "x"}
    left = [
        (5.5, "coordinator", "handed over", handed),
        (5.5, "supervisor", "continued", {"in": "b", "from": "50"}),
    ]
    first = run(tmp_path / "a", [*TRAINED[:-1], *left, (6.0, "supervisor", "ended", {})])
    begun: list[Any] = [(0.0, "supervisor", "scaled", {"after": "a", "workers": 3})]
    resumed = {"iteration": 50, "checkpoint": str(first / "checkpoint-0000050.safetensors")}
    second = run(
        tmp_path / "b", [*begun, (0.1, "coordinator", "resumed", resumed), progress(1.5, 60, 0.5)]
    )
    text = report(first)
    assert '<b class="state continued">continued</b>' in text
    assert "4,321" in text
    assert "workers 3" in (text := report(second))
    assert charts(text)[0]["curves"][0]["x"] == [10, 20, 30, 40, 50, 60]
    assert "<dt>continues</dt><dd>a</dd>" in report(run(tmp_path / "c", begun)), (
        "the earlier run must be named even before the iteration is known"
    )


def test_a_report_names_a_missing_earlier_run(tmp_path: Path) -> None:
    gone = {
        "iteration": 30,
        "checkpoint": str(tmp_path / "gone" / "checkpoint-0000030.safetensors"),
    }
    text = report(
        run(tmp_path / "a", [(0.2, "coordinator", "resumed", gone), progress(1.0, 40, 0.5)])
    )
    assert "it continues gone, whose directory is gone: its curves begin here" in text


def test_iterations_that_were_undone_are_not_in_the_curves(tmp_path: Path) -> None:
    said = [
        progress(1.0, 10, 1.0),
        progress(2.0, 20, 9.0),
        progress(3.0, 30, 99.0),
        progress(4.0, 20, 0.5),
    ]
    chart = charts(report(run(tmp_path / "a", said)))[0]["curves"][0]
    assert (chart["x"], chart["y"]) == ([10, 20], [1.0, 0.5])


def test_a_program_without_losses_has_a_report_too(tmp_path: Path) -> None:
    said = [BEGUN, (1.0, "counter", "counted", {"words": 120}), ENDED]
    text = report(run(tmp_path / "words", said))
    assert "No progress reports and no tests" in text
    assert "counted 1" in text


def test_messages_of_actors_are_text_not_html_or_a_formula(tmp_path: Path) -> None:
    warning = (2.0, "a", "warning", {"process": "p", "text": "<script>alert(1)</script> \x1b[31m"})
    odd = progress(1.0, 10, 1.0, **{"</script ><!--$x_{$": 3.0, "_hidden": 4.0})
    text = report(run(tmp_path / "<i>$a$", [odd, warning, ENDED]))
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt; \\x1b[31m" in text
    assert "<i>$a$" not in text
    assert text.count("</script") == 2
    assert "<!--" not in text
    drawn = report(run(tmp_path / "<i>$a$", [odd, warning, ENDED]), static=True)
    assert "<script" not in drawn
    assert "<i>$a$" not in drawn


ODD = (
    None,
    "x",
    [],
    [1],
    {},
    {"a": "b"},
    float("nan"),
    float("inf"),
    -1,
    True,
    10**400,
    -1e308,
    "1/x",
    "\x00",
)


def test_a_journal_of_odd_values_has_a_report_too(tmp_path: Path) -> None:
    said = [
        (float(n), actor, event, {**fields, name: odd})
        for n, odd in enumerate(ODD)
        for _, actor, event, fields in (
            progress(0.0, 10, 1.0),
            a_test(0.0, 10, 0.5),
            (0.0, "a", "resumed", {"iteration": 1, "checkpoint": "x"}),
            (0.0, "a", "prediction", {"predicted_seconds": 1.0, "measured_use": {"a": 0.5}}),
            (0.0, "a", "finished", {"seconds": 1.0}),
            (0.0, "a", "regrouped", {"iteration": 1, "groups": 2}),
            (0.0, "a", "restart", {"after": "x"}),
            (0.0, "a", "checkpoint", {"file": "x"}),
        )
        for name in ("unix_seconds", "t", "event", *fields)
    ]
    lines = [
        usage(5.0, "p", w={"role": "worker", "work": {"a": (1, 1.0)}}) | {"t": odd} for odd in ODD
    ]
    lines += [usage(5.0, "q") | {"actors": {"w": odd}} for odd in ODD]
    totals = {"role": "", "waited_seconds": {}, "received_bytes": {}}
    lines += [usage(5.0, "q") | {"actors": {"w": {**totals, "work": {"a": odd}}}} for odd in ODD]
    directory = run(tmp_path / "a", said, lines)
    for name in ("plan.json", "tuning.json", "config.toml", "trace.json"):
        (directory / name).write_text('{"placement": {"topology": []}, "choice": [')
    report(directory, static=True)
    text = report(directory)
    assert "damaged lines are left out" in text
    assert all(f"{name}: it is damaged: " in text for name in ("plan.json", "config.toml"))


def test_nothing_is_fetched_from_anywhere(tmp_path: Path) -> None:
    text = report(run(tmp_path / "a", TRAINED))
    fetched = re.findall(r"""(?:src|href)=["']?([^"'\s>]*)|url\(([^)]*)\)|@import""", text)
    assert {"".join(found).partition(":")[0].partition("#")[0] for found in fetched} <= {"data", ""}
    assert "The MIT License (MIT)" in text  # of the script that is part of the page


def test_the_time_of_an_iteration_is_split_into_work_waiting_and_the_rest(tmp_path: Path) -> None:
    worker = {"role": "worker", "waited": {"server": 1.0}, "received": {"server": 5000}}
    quick = {
        **worker,
        "work": {
            "forward a": (50, 0.5),
            "forward b": (50, 0.5),
            "test a": (9, 9.0),
            "build": (1, 8.0),
        },
    }
    slow = {**worker, "work": {"forward a": (50, 1.0), "forward b": (50, 1.0)}}
    lines = [
        usage(5.0, "p", **{"w-0": quick, "p/agent": {"role": ""}}),
        usage(5.0, "q", **{"w-1": slow}),
    ]
    times = times_of(whole(run(tmp_path / "a", TRAINED, lines), lives=False))
    assert times is not None
    first, second = times.shares  # 50 iterations in 5 s
    assert first.parts == {
        ("works", "forward"): pytest.approx(0.02),
        ("waits", "server"): pytest.approx(0.02),
    }
    assert (first.whole, first.rest) == (pytest.approx(0.1), pytest.approx(0.06))
    assert second.works == pytest.approx(0.04)
    assert times.stragglers == [
        ("w-1 works 1.33 times as long as the median of the 2 of role worker")
    ]
    assert times.received == {("server", "w-0"): 5000, ("server", "w-1"): 5000}
    text = report(tmp_path / "a")
    assert "20 ms work, 20 waiting, 60 rest" in text
    assert re.search(
        (r"<td>server</td><td>w-0</td>\s*<td class=\"n\"></td>\s*<td " r"class=\"n\">100 B</td>"),
        text,
    )


def test_of_a_long_run_the_first_seconds_are_left_out(tmp_path: Path) -> None:
    def at(t: float, seconds: float) -> dict[str, Any]:
        return usage(t, "p", w={"role": "worker", "work": {"forward a": (1, seconds)}})

    times = times_of(
        whole(run(tmp_path / "a", TRAINED, [at(1.0, 9.0), at(3.0, 9.2), at(5.0, 9.4)]), lives=False)
    )
    assert times is not None
    assert times.shares[0].works == pytest.approx(0.4 / 40)  # 40 iterations from 1 s to 5 s


def span(actor: str, cat: str, name: str, ts: float, dur: float, **more: Any) -> dict[str, Any]:
    return {
        "ph": "X",
        "cat": cat,
        "name": name,
        "ts": ts,
        "dur": dur,
        "args": {"actor": actor, **more},
    }


def spans(count: int) -> list[dict[str, Any]]:
    """Spans of two actors. Each computes for 0.6 ms of every millisecond and sends a message to the
    other."""
    found = list[dict[str, Any]]()
    for n in range(count):
        for actor in ("w-1", "w-2"):
            found.append(span(actor, "compute", "forward conv1", 1e6 + 1000 * n, 600, iteration=n))
            found.append(span(actor, "send", "Said", 1e6 + 1000 * n + 600, 10, iteration=n))
            found.append(span(actor, "handle", "Said", 1e6 + 1000 * n + 620, 10, iteration=n))
    return found


@pytest.mark.parametrize("end", ["\n]\n", "", ',\n{"ph": "X", "na'])
def test_ten_iterations_of_a_trace_are_a_gantt_chart_even_if_it_was_truncated(
    tmp_path: Path, end: str
) -> None:
    (tmp_path / "trace.json").write_text(
        "[\n" + ",\n".join(json.dumps(span) for span in spans(50)) + end
    )
    found = gantt(tmp_path)
    assert found is not None
    assert (found.actors, found.first, found.last, found.kinds) == (
        ["w-1", "w-2"],
        25,
        34,
        ["forward"],
    )
    assert len(found.spans) == 20, "messages and their handling must not be drawn"
    assert (found.spans[2].begin, found.spans[2].length) == (1.0, 0.6)  # milliseconds


def test_waits_are_shown_and_a_test_before_the_iterations_with_the_same_numbers_is_not(
    tmp_path: Path,
) -> None:
    tested = [span("w-1", "compute", "test conv1", 1000 * n, 600, iteration=n) for n in range(4)]
    waits = [
        # begins before the shown part and ends within it
        span("w-1", "wait", "Pull", 900_000, 100_100, peer="model"),
        span("w-2", "wait", "Pull", 1_000_600, 400, peer="model"),
        span("w-2", "wait", "Pull", 500, 400, peer="model"),
    ]
    (tmp_path / "trace.json").write_text(json.dumps([*tested, *spans(3), *waits]))
    found = gantt(tmp_path)
    assert found is not None
    assert [(each.actor, each.begin, each.length) for each in found.spans if not each.kind] == [
        ("w-1", 0.0, pytest.approx(0.1)), ("w-2", pytest.approx(0.6), pytest.approx(0.4)),
    ]  # fmt: skip
    assert found.kinds == ["forward"]


def test_a_chart_of_a_program_without_array_work_shows_the_handling_of_messages(
    tmp_path: Path,
) -> None:
    (tmp_path / "trace.json").write_text(
        json.dumps([each for each in spans(3) if each["cat"] != "compute"])
    )
    found = gantt(tmp_path)
    assert found is not None
    assert (found.kinds, len(found.spans)) == (["Said"], 6)


def test_a_trace_in_one_line_is_read_too_and_one_without_iterations_is_ignored(
    tmp_path: Path,
) -> None:
    (tmp_path / "trace.json").write_text(json.dumps(spans(3)))
    found = gantt(tmp_path)
    assert found is not None
    assert (found.first, found.last) == (0, 2)
    (tmp_path / "trace.json").write_text("[\n]")
    damaged: list[str] = []
    assert gantt(tmp_path, damaged.append) is None
    (tmp_path / "trace.json").write_text('[\n{"ph": "X"},\n{"ph"\nnull,\n{"half')
    assert gantt(tmp_path, damaged.append) is None
    assert damaged == ['{"ph"', "null,"]


def test_without_a_trace_the_report_names_the_command_that_makes_one(tmp_path: Path) -> None:
    directory = run(tmp_path / "a", TRAINED)
    assert "python -m runtime trace start a" in report(directory)
    (directory / "trace.json").write_text(json.dumps(spans(12)))
    assert "Gantt chart" in drawings(report(directory))


@pytest.mark.parametrize("library", ["jinja2", "matplotlib"])
def test_without_its_libraries_the_command_names_the_package_to_install(
    tmp_path: Path,
    library: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    assert main(["report", "--static", str(run(tmp_path / "a", TRAINED))]) == 1
    assert "which is not installed: pip install 'convoy-runtime[report]'" in capsys.readouterr().err


def test_a_folder_that_is_not_a_run_and_a_file_that_cannot_be_written_are_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(tmp_path)]) == 2
    assert (
        f"{tmp_path}: found no run.json and no events.jsonl in it, expected a run directory"
    ) in capsys.readouterr().err
    assert (
        main(["report", str(run(tmp_path / "a", TRAINED)), "-o", str(tmp_path / "no" / "x.html")])
        == 2
    )
    assert "cannot be written: No such file or directory" in capsys.readouterr().err
