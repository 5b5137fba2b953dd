"""A placement as a text table and as SVG: the contents are right, and the SVG is well-formed and
needs no other file.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from runtime.cli.main import main
from runtime.drawing.svg import outline, svg
from runtime.plan.forecast import Forecast, shown
from runtime.plan.topology import ActorSpec, Placement, ProcessSpec, Topology

SVG = "{http://www.w3.org/2000/svg}"
TOPOLOGY = Topology(
    "p",
    (ActorSpec("lead", "lead"), ActorSpec("a<b>&c", "worker"), ActorSpec("w-2", "worker")),
    (("lead", "a<b>&c"), ("a<b>&c", "w-2")),
    "lead",
)
PLACEMENT = Placement(
    TOPOLOGY,
    (ProcessSpec("both", "left", ("lead", "w-2"), 2), ProcessSpec("a<b>&c", "right", ("a<b>&c",))),
)
FORECAST = Forecast(
    memory={"w-2": {"parameters": 2_000_000, "arrays": 500}},
    traffic={
        ("a<b>&c", "w-2"): {"Answer": 1_230_000, "Other": 70_000},
        ("w-2", "a<b>&c"): {"Question": None},
    },
    step="turn",
)


def test_the_outline_of_a_placement_lists_actors_by_process_and_the_messages_of_each_link() -> None:
    assert outline(PLACEMENT, FORECAST).splitlines() == [
        "process  machine  threads  actor   role    memory",
        "both     left     2        lead    lead",
        "                           w-2     worker  2 MB: parameters 2 MB, arrays 500 B",
        "a<b>&c   right    1        a<b>&c  worker",
        "",
        "from    to      bytes of arrays per turn",
        "a<b>&c  w-2     Answer                    1.23 MB",
        "a<b>&c  w-2     Other                     70 kB",
        "w-2     a<b>&c  Question                  ?",
        "",
        "links without arrays",
        "  lead – a<b>&c",
    ]
    assert outline(PLACEMENT).splitlines()[-3:] == ["links", "  lead – a<b>&c", "  a<b>&c – w-2"]


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"), (999, "999 B"), (1000, "1 kB"), (1234, "1.23 kB"), (99_949, "99.9 kB"), (999_499, "999 kB"),
        (999_600, "1 MB"), (123_456_789, "123 MB"), (10**14, "100 TB"), (None, "?"),
    ],
)  # fmt: skip
def test_bytes_are_shown_with_three_digits_and_a_decimal_unit(size: int | None, text: str) -> None:
    assert shown(size) == text


def test_the_drawing_is_well_formed_and_names_every_actor_process_machine_and_size() -> None:
    drawn = ET.fromstring(svg(PLACEMENT, FORECAST))
    assert drawn.tag == f"{SVG}svg"
    texts = [text.text for text in drawn.iter(f"{SVG}text")]
    assert {
        "lead",
        "a<b>&c",
        "w-2",
        "worker",
        "machine left",
        "machine right",
        "process both",
    } <= set(texts)
    labels = [text.text for text in drawn.iter(f"{SVG}text") if text.get("class") == "label"]
    assert labels == ["▲ 1.3 MB  ▼ ?"]
    tips = [tip.text or "" for tip in drawn.iter(f"{SVG}title")]
    assert (
        "a<b>&c → w-2: Answer 1.23 MB\na<b>&c → w-2: Other 70 kB\nw-2 → a<b>&c: Question ?"
    ) in tips
    assert "w-2 (worker)\nparameters 2 MB\narrays 500 B" in tips
    assert "lead (lead, leads)" in tips
    classes = [path.get("class") for path in drawn.iter(f"{SVG}path")]
    assert sorted(str(kind) for kind in classes) == ["link", "link bulk"]


def test_the_drawing_needs_no_other_file() -> None:
    text = svg(PLACEMENT, FORECAST)
    assert re.findall(r"href|url\(|@import|<script|<image|<!", text) == []
    assert text.count("http") == 1  # only in the name of the format


def test_plan_describes_any_program_and_draws_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("cluster.toml").write_text('program = "examples.wordcount"\nfiles = ["x"]\n')
    assert main(["plan", "cluster.toml", "--svg", "plan.svg"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0].split() == ["process", "machine", "threads", "actor", "role", "memory"]
    assert said[-2:] == ["  reader – mapper-0", "  reader – mapper-1"]
    assert "mapper-1" in [text.text for text in ET.parse("plan.svg").getroot().iter(f"{SVG}text")]
    assert main(["plan", "cluster.toml", "--svg", "no/such/folder.svg"]) == 2
    assert capsys.readouterr().err == (
        "--svg no/such/folder.svg: cannot be written: No such file or directory\n"
    )


def test_labels_of_links_and_long_titles_stay_inside_the_drawing() -> None:
    """A character is at most 7.3 px wide; labels are centred, titles begin at their x."""
    machine = "a-machine-with-a-very-long-name.example"
    narrow = Topology(
        "p", (ActorSpec("a", "x"), ActorSpec("b", "y"), ActorSpec("c", "z")), (("b", "a"),), "a"
    )
    placement = Placement(
        narrow, (ProcessSpec("p", machine, ("a", "c")), ProcessSpec("b", machine, ("b",)))
    )
    sizes = Forecast(traffic={("b", "a"): {"x": 123_456}, ("a", "b"): {"y": 123_000_000}})
    drawn = ET.fromstring(svg(placement, sizes))
    left, _, width, _ = map(float, drawn.attrib["viewBox"].split())
    assert float(drawn.attrib["width"]) == width
    found = 0
    for text in drawn.iter(f"{SVG}text"):
        if text.attrib["class"] in ("label", "title"):
            wide = 7.3 * len(text.text or "")
            x = float(text.attrib["x"]) - (wide / 2 if text.attrib["class"] == "label" else 0)
            assert left <= x
            assert x + wide <= left + width
            found += 1
    assert found == 3
    (ground,) = (each for each in drawn.iter(f"{SVG}rect") if each.get("width") == "100%")
    assert float(ground.attrib["x"]) == left
