"""The contents of the live table and of `top`, tested without a terminal."""

from __future__ import annotations

from typing import Any

import pytest

from runtime.cli.watch.bottleneck import bottleneck
from runtime.cli.watch.rates import Row, rows
from runtime.cli.watch.run_sampling import Look
from runtime.cli.watch.top_lines import sheet
from runtime.report.columns import Column, bar, clock, cut, sparkline, table
from runtime.report.run_state import MOST_POINTS, Curve, RunState
from runtime.report.screen import final, height_of, screen
from tests.helpers.beats import beat, status


def picture(actors: int = 3) -> RunState:
    return RunState({f"w{number}": "p1" for number in range(actors)})


def test_the_remaining_time_follows_the_pace_of_the_last_reports_and_shrinks_between_them() -> None:
    made = picture()
    made.event("began", {}, 1.0)
    assert made.remaining(1.0) is None
    made.event("progress", {"iteration": "100/400"}, 10.0)
    made.event("progress", {"iteration": 200, "max_iter": 400}, 20.0)
    assert made.remaining(20.0) == pytest.approx(20.0)
    assert made.remaining(23.0) == pytest.approx(17.0)
    assert "about 0:17 left" in screen(made, 23.0, 100, 24)[0]


def test_the_table_shows_the_progress_of_the_preparation() -> None:
    made = picture()
    assert screen(made, 0.0, 80, 24)[0].startswith("starting: 0 of 1 processes are up")
    made.beat(beat("p1", w0=status(doing="build")))
    made.event(
        "preparing", {"process": "p1", "what": "compiling kernels", "done": 12, "total": 31}, 2.0
    )
    assert screen(made, 2.0, 80, 24)[0] == "preparing: compiling kernels: 12 of 31   elapsed 0:02"
    made.event("began", {}, 3.0)
    assert screen(made, 3.0, 80, 24)[0] == "running   elapsed 0:03"


def test_the_height_is_the_same_from_the_first_moment_on() -> None:
    made = picture(50)
    first = len(screen(made, 0.0, 80, 24))
    made.event("progress", {"iteration": "1/2", "loss": 1.0}, 1.0)
    made.event("prediction", {"text": "predicted"}, 1.0)
    made.beat(beat("p1", **{f"w{number}": status(inbox=number) for number in range(50)}))
    assert first == len(screen(made, 1.0, 80, 24)) == height_of(made, 24) == 22


def test_a_busy_actor_is_shown_before_idle_ones() -> None:
    made = picture(50)
    for _ in range(5):
        made.beat(
            beat("p1", **{f"w{number}": status(inbox=9 * (number == 33)) for number in range(50)})
        )
    assert "w33" in made.chosen(2)
    assert made.others(made.chosen(2)) == "and 48 more: 48 idle"


def test_at_the_end_its_last_values_stay() -> None:
    made = picture()
    made.event("progress", {"iteration": "380/400", "loss": 0.25}, 10.0)
    made.event("finished", {"iterations": 400}, 11.0)
    lines = final(made, 11.0, 100)
    assert lines[0].startswith("iteration 400/400 (100%)") and lines[0].endswith("finished")
    assert lines[1].split()[:2] == ["loss", "0.25"]
    assert not any("w0" in line for line in lines)


def test_an_accuracy_that_every_report_repeats_is_one_point() -> None:
    made = picture()
    for number in range(4):
        made.event("progress", {"iteration": f"{number}/9", "loss": 1.0, "accuracy": 0.5}, 0.0)
    assert (len(made.curves["loss"].values), made.curves["accuracy"].values) == (4, [0.5])


def test_a_long_curve_keeps_its_shape_in_bounded_memory() -> None:
    curve = Curve()
    for number in range(100_000):
        curve.add(float(number))
    assert len(curve.values) <= MOST_POINTS + 1 and curve.last == 99_999
    assert curve.values == sorted(curve.values) and curve.values[-1] > 99_000


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ([1, 2, 3, 4, 5, 6, 7, 8], "▁▂▃▄▅▆▇█"),
        ([5, 5, 5], "▁▁▁"),
        ([], ""),
        ([1, float("nan"), 2], "▁█"),
        ([7], "▁"),
    ],
)
def test_a_sparkline_goes_from_the_lowest_to_the_highest(values: list[float], line: str) -> None:
    assert sparkline(values, 8) == line


def test_cells_are_counted_as_a_terminal_draws_them() -> None:
    assert cut("图像图像", 5) == "图像…"
    lines = table(
        (Column("a", name=True), Column("b", right=True)),
        [("worker-图像-1", "7"), ("worker-图像-2", "8")],
        14,
    )
    assert lines[1] != lines[2] and lines[1].endswith("7") and "…" in lines[1]
    assert (bar(0.5, 4), clock(59.6), clock(3661)) == ("━━╌╌", "1:00", "1:01:01")


def state(now: float, **actors: dict[str, Any]) -> dict[str, Any]:
    blank = {
        "role": "r",
        "handling": "",
        "computing": None,
        "asks": [],
        "sends": [],
        "inbox": 0,
        "oldest": None,
        "sent": 0,
        "received": 0,
        "bytes": 0,
        "busy": 0.0,
        "handled": 0,
        "waited": {},
    }
    return {"now": now, "actors": {name: blank | actor for name, actor in actors.items()}}


def test_shares_and_rates_cover_the_time_between_two_looks() -> None:
    before = Look(
        0.0,
        {
            "p": state(
                10.0, a={"busy": 1.0, "waited": {"b": 2.0}, "sent": 5, "received": 5, "bytes": 100}
            )
        },
    )
    asks = {
        "busy": 2.5,
        "waited": {"b": 2.2},
        "asks": [["b", "Ask", 0.3]],
        "sent": 9,
        "received": 11,
        "bytes": 2100,
    }
    after = Look(2.0, {"p": state(12.0, a=asks)})
    (row,) = rows(before, after, {"a": "p"}, {"a": 0.5})
    assert (row.computing, row.waits, row.messages, row.bytes) == (
        0.75,
        {"b": pytest.approx(0.25)},
        5.0,
        1000.0,
    )
    assert (row.state, row.predicted) == ("waits for b (Ask) for 300 ms", 0.5)


def test_waits_for_data_are_no_computing_and_make_the_reader_the_bottleneck() -> None:
    before, after = (
        Look(at, {"p": state(at, a={"busy": at, "waited": {"its data": waited}})})
        for at, waited in ((5.0, 4.0), (7.0, 5.2))
    )
    (row,) = rows(before, after, {"a": "p"}, {})
    assert (row.computing, row.waits) == (pytest.approx(0.4), {"its data": pytest.approx(0.6)})
    assert bottleneck([row, Row("b", "p", computing=0.9)]).startswith(
        "the reader is the bottleneck: a waits for its data 60% of the time"
    )
    little = Row("a", "p", computing=0.9, waits={"its data": 0.05})
    assert bottleneck([little]) == "a is the bottleneck: it computes 90% of the time"


def test_the_bottleneck_is_the_busiest_actor_or_the_end_of_the_longest_waits() -> None:
    busy = [Row("a", "p", computing=0.1, waits={"b": 0.8}), Row("b", "p", computing=0.9)]
    assert bottleneck(busy).startswith(
        "b is the bottleneck: it computes 90% of the time; the others wait for it 0.8 s"
    )
    chain = [
        Row("a", "p", computing=0.1, waits={"b": 0.8}),
        Row("b", "p", computing=0.2, waits={"c": 0.7}),
        Row("c", "p", computing=0.6),
    ]
    assert bottleneck(chain).startswith(
        "the others wait for b -> c, which computes 60% of the time"
    )
    circle = [
        Row("a", "p", computing=0.0, waits={"b": 0.9}),
        Row("b", "p", computing=0.0, waits={"a": 0.9}),
    ]
    assert "no actor computes half of the time" in bottleneck(circle)
    assert bottleneck([Row("a", "p", computing=0.3)]) == (
        "no actor holds up others: a computes most, 30% of the time"
    )
    assert bottleneck([Row("a", "p1", state="no answer for 3 s")]).startswith(
        "process p1 does not answer"
    )


def test_a_sheet_fits_its_terminal_and_says_how_many_it_leaves_out() -> None:
    many = [
        Row(f"worker-{number:03}", "p", "r", "idle", 0.5, {"fc": 0.5}, 1, 0.1, 3.0, 4e6, 0.5)
        for number in range(90)
    ]
    for width, height in ((80, 24), (60, 20), (120, 40)):
        lines = sheet("run", {}, many, width, height)
        assert len(lines) <= height and max(map(len, lines)) <= width
        assert lines[-1].startswith("and ") and "--once shows all" in lines[-1]
    assert len(sheet("run", {}, many, 80, 0)) == 90 + 6


def test_a_sheet_of_80_columns_wraps_the_bottleneck_and_leaves_out_whole_columns() -> None:
    waits = {"fc_server": 0.3, "conv_model": 0.2}
    rows = [
        Row("conv-0-0", "a", "r", "waits for fc_server", 0.41, waits, 0, 0.1, 509.0, 15e6, 0.4),
        Row("fc_server", "b", "r", "idle", 0.21, {}, 0, None, 214.0, 11e6, 0.22),
    ]
    progress = {"iteration": 5, "max_iter": 10, "exposed_seconds": 0.01} | {
        f"score_of_the_net_{at}": 0.5 for at in range(4)
    }
    narrow = sheet("run", {"progress": progress}, rows, 80, 24)
    wide = sheet("run", {"progress": progress}, rows, 1000, 0)
    assert max(map(len, narrow)) <= 80 and not any(line.endswith("…") for line in narrow[:5])
    sentence = bottleneck(rows)
    assert len(sentence) > 80 and sentence in wide
    assert sentence in " ".join(narrow), "the sentence must be whole"
    assert narrow[1].startswith("iteration 5/10   score") and "exposed" not in narrow[1]
    assert "exposed s 0.01" in wide[1]
    (titles,) = [line for line in narrow if line.startswith("actor")]
    assert titles.split()[-1] == "inbox" and "waited for" in titles
    (row,) = [line for line in narrow if line.startswith("conv-0-0")]
    assert "fc_server 30%, conv_mo" in row
