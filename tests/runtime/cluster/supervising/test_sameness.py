"""The comparison of machines before a run begins: versions, sources, and the data that actors
read.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from runtime.cluster.supervising.sameness import UP, Sameness
from runtime.machine.versions import PACKAGES, checksum, identity

ALL = {
    "python": "3.12.4",
    "numpy": "2.1.3",
    "uvloop": "0.21.0",
    "convoy-runtime": "0.1.0",
    "program": "aa",
    "host": "x",
}


def compared(**machines: dict[str, str]) -> Sameness:
    made = Sameness()
    for name, versions in machines.items():
        made.runs(name, f"host-{name}", {**ALL, **versions})
    return made


def test_machines_with_the_same_versions_get_no_warning_about_other_differences() -> None:
    made = compared(
        a={"host": "x", "platform": "Linux"}, b={"host": "y", "platform": "macOS", "loop": "uvloop"}
    )
    assert (made.wrong_program(), made.warnings()) == ("", [])


def test_a_difference_names_the_odd_machine_and_both_sides() -> None:
    made = compared(a={}, b={}, c={"python": "3.11.9", "numpy": "1.26.4"}, d={})
    assert made.wrong_program() == (
        "machine 'c' (host host-c) has python 3.11.9, expected 3.12.4 as on machine 'a' "
        "(host host-a) and 2 more; "
        "numpy 1.26.4, expected 2.1.3 as on machine 'a' (host host-a) and 2 more: "
        "install the same versions and sources there"
    )
    assert made.warnings() == []


def test_of_two_machines_the_one_that_differs_from_up_is_named() -> None:
    made = compared(a={"program": "bb"}, up={})
    assert made.wrong_program().startswith(
        "machine 'a' (host host-a) has a program whose sources have the checksum bb, "
        "expected aa as on `up` (host host-up)"
    )
    assert (
        compared(up={"program": "bb"}, a={}, b={})
        .wrong_program()
        .startswith("`up` (host host-up) has a program")
    )
    assert UP == "up"


@pytest.mark.parametrize(
    ("name", "value", "weight"),
    [
        ("numpy", "2.1.9", "warning"),
        ("numpy", "2.1.3.post1", "warning"),
        ("numpy", "2.2.0", "error"),
        ("numpy", "3.1.3", "error"),
        ("numpy", "not installed", "error"),
        ("python", "3.12.5", "warning"),
        ("python", "3.13.0", "error"),
        ("convoy-runtime", "0.1.1", "error"),
        ("program", "ab", "error"),
        ("uvloop", "not installed", "warning"),
        ("host", "elsewhere", ""),
    ],
)
def test_a_difference_that_changes_no_interface_is_a_warning_and_any_other_ends_the_run(
    name: str, value: str, weight: str
) -> None:
    made = compared(a={}, b={}, c={name: value})
    told = {"error": made.wrong_program(), "warning": "\n".join(made.warnings())}
    assert [kind for kind, text in told.items() if text] == [weight] * bool(weight)
    assert all(value in text and "machine 'c'" in text for text in told.values() if text)


def test_of_many_odd_machines_three_are_named_and_the_others_are_counted() -> None:
    made = compared(
        **{f"good-{n}": {} for n in range(9)}, **{f"bad-{n}": {"program": str(n)} for n in range(5)}
    )
    lines = made.wrong_program().splitlines()
    assert [line.split("'")[1] for line in lines[:3]] == ["bad-0", "bad-1", "bad-2"]
    assert lines[3:] == ["and 2 more machines differ"]


def test_data_that_actors_read_must_be_the_same_on_every_machine() -> None:
    made = compared(a={}, b={}, c={})
    made.reads("a", {"data of TRAIN": "10 samples", "the net": "x"})
    made.reads("b", {"the net": "x"})
    assert made.wrong_data() == ""
    made.reads("b", {"data of TRAIN": "12 samples"})
    assert made.wrong_data() == (
        "machine 'b' (host host-b) has data of TRAIN 12 samples, expected 10 samples as on "
        "machine 'a' (host host-a): "
        "give every machine the same data and files"
    )


# -- the checksum of sources


def written(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_a_checksum_depends_on_the_text_of_sources_and_not_on_their_place(tmp_path: Path) -> None:
    sources = {"main.py": "import helper\nfrom tools import x\n", "helper.py": "import deeper\n"}
    sources |= {"deeper.py": "A = 1\n", "tools/__init__.py": "", "tools/x.py": "B = 2\n"}
    for place in ("a", "b"):
        written(tmp_path / place, {**sources, "stray.py": f"print('{place}')"})
    script = str(tmp_path / "a" / "main.py")
    assert checksum(script) == checksum(str(tmp_path / "b" / "main.py"))
    for changed in sources:
        before = checksum(script)
        written(tmp_path / "a", {changed: f"{sources[changed]}# another\n"})
        assert checksum(script) != before, changed


def test_a_checksum_covers_all_modules_of_a_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path, {"given/__init__.py": "", "given/deep/part.py": "A = 1\n"})
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    before = checksum("given")
    written(tmp_path, {"given/deep/part.py": "A = 2\n"})
    assert checksum("given") != before


def test_the_identity_of_a_process_names_every_package_that_counts() -> None:
    found = identity("roles")
    assert {*PACKAGES, "python", "platform", "program"} == found.keys()
    assert found["program"] == checksum("roles") != checksum("tests.helpers.support")
