"""The predicted times of a plan, as text and as a chart, from plain data."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest

from runtime.drawing.chart import chart
from runtime.drawing.prospect_text import busiest, outline
from runtime.plan.prospects import Needed, Prospect, Prospects

SVG = "{http://www.w3.org/2000/svg}"
SECONDS = {1: 4.0, 2: 2.0, 4: 0.52, 8: 0.5}


def found(seconds: dict[int, float] = SECONDS, **more: object) -> Prospects:
    choices = tuple(
        Prospect(
            f"{g} groups of {8 // g}",
            g,
            value,
            {"fc": 0.5 / value, "conv-0": 0.201, "conv-1": 0.2},
            "fc",
        )
        for g, value in seconds.items()
    )
    told = {
        "basis": "two machines",
        "choices": choices,
        "varies": "groups",
        "chosen": 2,
        "step": "iteration",
    }
    told |= {"items": "images", "per_step": 64, "steps": 9000, "notes": ("this", "that")}
    return Prospects(**{**told, **more})  # type: ignore[arg-type]


def test_every_choice_is_a_line_and_the_configured_one_is_marked() -> None:
    assert outline(found()).splitlines() == [
        "predicted: two machines",
        "",
        "   groups         seconds per iteration  images/s  busiest station  others",
        "   1 groups of 8  4                      16        fc 12 %          conv-* 20 %",
        "*  2 groups of 4  2                      32        fc 25 %          conv-* 20 %",
        "   4 groups of 2  0.52                   123.1     fc 96 %          conv-* 20 %",
        "   8 groups of 1  0.5                    128       fc 100 %         conv-* 20 %",
        "",
        "from 4 groups of 2 on, more groups gain 10 % at most: fc 100 %",
        "9000 iterations as configured (*) take 5 h 0 min",
        "not in these figures:",
        "  this",
        "  that",
    ]


def test_no_choice_is_called_saturated_if_the_last_one_still_pays() -> None:
    rising = found({1: 4.0, 2: 2.0, 4: 1.0})
    assert rising.saturated is None
    assert "every doubling of the groups still pays" in outline(rising)


def test_one_choice_has_no_curve_and_no_mark() -> None:
    alone = found({2: 2.0})
    assert "9000 iterations as configured take 5 h 0 min" in outline(alone)
    assert "groups gain" not in outline(alone)
    with pytest.raises(ValueError, match="no curve"):
        chart(alone)


def test_the_cost_is_the_time_multiplied_by_the_price_of_all_machines() -> None:
    prices = ((3, "large", 2.0), (1, "small", 0.5))
    assert found(prices=prices).price_per_hour() == 6.5
    assert ("take 5 h 0 min and cost 32.50 (3 x large at 2, 1 x small at 0.5 an hour)") in outline(
        found(prices=prices)
    )


def test_without_the_price_of_every_machine_no_cost_is_shown() -> None:
    assert "cost" not in outline(found(prices=((3, "large", 2.0), (1, "small", None))))
    assert "cost" not in outline(found())


def test_without_predictions_only_the_notes_are_shown() -> None:
    assert outline(Prospects(notes=("how to get one",))) == "how to get one"


def test_stations_that_are_busy_to_different_degrees_have_separate_figures() -> None:
    use = {"conv-0 out": 0.9, "conv-1 out": 0.1, "conv-2 out": 0.12, "idle": 0.001}
    assert busiest(Prospect("", 1, 1.0, use, "conv-0 out")) == [
        "conv-0 out 90 %",
        "conv-2 out 12 %",
        "conv-1 out 10 %",
    ]


def test_the_chart_has_axes_with_units_a_curve_measured_points_and_needs_no_colours() -> None:
    text = chart(found(measured=((2, 2.2),)))
    drawn = ET.fromstring(text)
    texts = [of.text for of in drawn.iter(f"{SVG}text")]
    assert {
        "seconds per iteration: two machines",
        "groups",
        "s",
        "1",
        "2",
        "4",
        "8",
        "predicted",
        "measured",
    } <= set(texts)
    assert "from 4 on more gain 10 % at most" in texts
    dots = [of for of in drawn.iter(f"{SVG}circle") if of.find(f"{SVG}title") is not None]
    squares = [of for of in drawn.iter(f"{SVG}rect") if of.get("class") == "measured"]
    assert len(dots) == 4
    assert [of.findtext(f"{SVG}title") for of in squares if of.findtext(f"{SVG}title")] == [
        "2: 2.2 s measured"
    ]
    assert set(re.findall(r"(?:fill|stroke): ?(#\w+|none)", text)) <= {
        "#1e293b",
        "#475569",
        "#e2e8f0",
        "#ffffff",
        "none",
    }
    assert re.findall(r"href|url\(|@import|<script|<image|<!", text) == []


def test_higher_on_the_chart_is_slower_and_further_right_is_more() -> None:
    drawn = ET.fromstring(chart(found()))
    dots = [
        (float(of.get("cx", "")), float(of.get("cy", "")))
        for of in drawn.iter(f"{SVG}circle")
        if len(of)
    ]
    assert dots == sorted(dots, key=lambda dot: dot[0])
    assert [y for _, y in dots] == sorted(y for _, y in dots)
    assert all(78 < x < 616 and 48 <= y <= 344 for x, y in dots)


def with_target(
    needed: dict[int, Needed], hourly: float | None = 36.0, **more: object
) -> Prospects:
    choices = tuple(
        replace(choice, needed=needed.get(choice.number, Needed()), hourly=hourly)
        for choice in found().choices
    )
    return found(choices=choices, target="accuracy 0.9", **more)


def test_a_target_adds_columns_and_marks_the_fastest_and_the_cheapest_row() -> None:
    needed = {1: Needed(100, seen=True), 2: Needed(150.4), 4: Needed(why="not reached")}
    head, one, two, four, eight = outline(with_target(needed)).splitlines()[2:7]
    assert "iterations   time to accuracy 0.9  cost" in head
    assert "  100          6 min 40 s            4 " in one
    assert "  ~150         5 min 1 s, fastest    3.01, cheapest  " in two
    assert "  not reached  " in four
    assert "  not known    " in eight
    said = "in seconds per iteration, from 4 groups of 2 on, more groups gain 10 % at most"
    assert said in outline(with_target(needed))  # more groups may not pay for the whole target


def test_without_a_price_a_target_has_no_cost() -> None:
    assert (
        " cost "
        not in outline(with_target({1: Needed(100, seen=True)}, hourly=None)).splitlines()[2]
    )


def test_the_runs_learnt_from_and_the_choices_not_predicted_stand_below_the_figures() -> None:
    learnt = (("run", "with", ""), ("runs/A", "1 group", "at iteration 100"))
    text = outline(
        with_target({1: Needed(100, seen=True)}, learnt=learnt, refused=("16 groups: why",))
    )
    assert "\nnot predicted:\n  16 groups: why\n" in text
    assert (
        "\nlearnt of accuracy 0.9:\n  run     with\n  runs/A  1 group  at iteration 100\n"
    ) in text


def test_several_kinds_of_machines_are_compared_by_their_best_choices() -> None:
    fast = with_target({1: Needed(100, seen=True), 2: Needed(100, seen=True)}, kind="large")
    slow = with_target({1: Needed(100, seen=True)}, hourly=9.0, kind="small")
    none = with_target({}, kind="other")
    text = outline(fast, slow, none).partition("compared:")[2].splitlines()
    assert re.fullmatch(
        (r"machine +groups +seconds per iteration +time to accuracy 0\.9 " r"+cost"), text[2]
    )
    assert re.fullmatch(r"large +2 groups of 4 +2 +3 min 20 s, fastest +2", text[3])
    assert re.fullmatch(r"small +1 groups of 8 +4 +6 min 40 s +1, cheapest", text[4])
    assert re.fullmatch(r"other +not known +not known", text[5])
    # a note that holds for all kinds is printed once
    assert outline(fast, slow, none).count("  this") == 1


def test_without_a_target_kinds_of_machines_are_compared_as_configured_to_the_end() -> None:
    cheap = found(kind="small", choices=tuple(replace(c, hourly=1.0) for c in found().choices))
    dear = found(
        kind="large",
        choices=tuple(replace(c, hourly=2.0, seconds=c.seconds / 4) for c in found().choices),
    )
    text = outline(cheap, dear).partition("compared:")[2].splitlines()
    assert re.search(r"time to the end, 9000 iterations", text[2])
    assert re.fullmatch(r"small +2 groups of 4 +2 +5 h 0 min +5", text[3])
    assert re.fullmatch(r"large +2 groups of 4 +0.5 +75 min 0 s, fastest +2.5, cheapest", text[4])
