"""Panels next to one another, drawn from plain data: the places of their parts, and differences
that can be seen without colours.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from runtime.drawing.panels import DASHES, WIDTH, Curve, Panel, panels

SVG = "{http://www.w3.org/2000/svg}"
POSITIVE = st.floats(1e-9, 1e9, allow_nan=False)

FAST = Panel(
    "hardware efficiency",
    "ms per iteration",
    (Curve("", ((1, 40.0), (2, 22.0), (4, 12.0), (8, 11.0))),),
)
GOOD = Panel(
    "statistical efficiency",
    "iterations",
    (Curve("", ((1, 500), (2, 520), (4, 640)), frozenset({2})),),
    {8: "diverged"},
)
BOTH = Panel(
    "their product",
    "s",
    (Curve("", ((1, 20.0), (2, 11.4), (4, 7.7))), Curve("auto", ((2, 9.0),), joined=False)),
    {8: "diverged"},
    4,
    "the fastest",
)


def drawn(*of: Panel, **more: str) -> ET.Element:
    return ET.fromstring(panels("LeNet to 98.5 %", of, "groups", **more))


def dots(root: ET.Element) -> list[tuple[float, float, str]]:
    """The x, y and tooltip of every dot."""
    found = [
        (float(of.get("cx", "")), float(of.get("cy", "")), of.findtext(f"{SVG}title"))
        for of in circles(root)
    ]
    return [(x, y, about) for x, y, about in found if about]


def circles(root: ET.Element) -> list[ET.Element]:
    return list(root.iter(f"{SVG}circle"))


def test_every_panel_has_its_title_its_unit_and_the_same_choices_below() -> None:
    texts = [of.text for of in drawn(FAST, GOOD, BOTH).iter(f"{SVG}text")]
    assert {
        "LeNet to 98.5 %",
        "hardware efficiency",
        "ms per iteration",
        "iterations",
        "s",
        "the fastest",
    } <= set(texts)
    assert [texts.count(choice) for choice in ("groups", "4", "8")] == [3, 3, 3]


def test_one_choice_stands_at_the_same_place_of_every_panel() -> None:
    places = {
        (about.partition(":")[0], round(x % WIDTH)) for x, _, about in dots(drawn(FAST, GOOD, BOTH))
    }
    assert [choice for choice, _ in sorted(places)] == ["1", "2", "4", "8"]


def test_a_choice_without_a_value_is_a_cross_with_the_reason_and_not_a_point_of_the_curve() -> None:
    root = drawn(FAST, GOOD, BOTH, lacking="not reached")
    crosses = [
        of.findtext(f"{SVG}title")
        for of in root.iter(f"{SVG}path")
        if of.find(f"{SVG}title") is not None
    ]
    assert crosses == ["8: diverged", "8: diverged"]
    alone = [of.text for of in drawn(GOOD).iter(f"{SVG}text")]
    assert alone.count("8") == 1  # a choice without a value in any panel also has its place
    assert "not reached" in [of.text for of in root.iter(f"{SVG}text")]
    assert "not reached" not in [
        of.text for of in drawn(FAST, lacking="not reached").iter(f"{SVG}text")
    ]


def test_an_open_dot_differs_from_a_full_one_and_is_explained() -> None:
    root = drawn(GOOD, opened="between two that were seen")
    kinds = {of.findtext(f"{SVG}title"): of.get("class") for of in circles(root) if len(of)}
    assert kinds == {
        "1: 500 iterations": "predicted",
        "2: 520 iterations": "measured",
        "4: 640 iterations": "predicted",
    }
    assert "between two that were seen" in [of.text for of in root.iter(f"{SVG}text")]


def test_curves_of_several_names_differ_without_colours_and_are_named_in_the_legend() -> None:
    several = tuple(Curve(f"{n} Gbit/s", ((1, 4.0 * n), (2, 2.0 * n))) for n in (1, 10, 100))
    root = drawn(Panel("fast", "s", (*several, Curve("auto", ((2, 3.0),), joined=False))))
    lines = [
        of.get("stroke-dasharray") or ""
        for of in root.iter(f"{SVG}path")
        if of.get("class") == "curve"
    ]
    assert lines == [*DASHES[:3], *DASHES[:3]]  # in the panel and in the legend
    assert {"1 Gbit/s", "10 Gbit/s", "100 Gbit/s", "auto"} <= {
        of.text for of in root.iter(f"{SVG}text")
    }
    text = ET.tostring(root, "unicode")
    assert set(re.findall(r"(?:fill|stroke): ?(#\w+)", text)) <= {
        "#1e293b",
        "#475569",
        "#e2e8f0",
        "#ffffff",
    }
    assert re.findall(r"href|url\(|@import|<script|<image", text) == []


@given(values=st.lists(POSITIVE, min_size=1, max_size=6))
@example(values=[999999999.9999999])  # its logarithm is rounded to 9
def test_larger_values_are_higher_and_no_dot_leaves_its_panel(values: list[float]) -> None:
    points = tuple((2.0**n, value) for n, value in enumerate(values))
    found = dots(drawn(FAST, Panel("of anything", "s", (Curve("", points),))))[4:]
    assert all(WIDTH < x < 2 * WIDTH and 60 < y < 300 for x, y, _ in found)
    ranked = sorted(zip(values, (y for _, y, _ in found), strict=True))
    # pixels, rounded to 0.1
    assert all(low >= high - 0.11 for (_, low), (_, high) in pairwise(ranked))


@pytest.mark.parametrize("points", [(), ((1, 0.0),), ((1, 2.0), (2, -1.0))])
def test_a_panel_without_a_positive_value_is_refused_by_its_title(
    points: tuple[tuple[float, float], ...],
) -> None:
    with pytest.raises(ValueError, match="there is no curve to draw: empty"):
        drawn(FAST, Panel("empty", "s", (Curve("", points),)))
