"""Code and pages name the thing: words that replace a noun are rare."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.house.prose import SIGNS, above, counted, passages
from tests.house.source import GENERATED, PACKAGES, ROOT

FOLDERS = (*PACKAGES, "docs", "benchmarks", "tests", "examples")
PAGES = ("README.md", "CHANGELOG.md")
RESULTS = ROOT / "benchmarks" / "results"


def texts_of(folder: str) -> list[Path]:
    """The Python files and pages of a folder that people write. Tools write the results of
    benchmarks and the classes of Caffe's messages."""
    return sorted(
        path
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".py", ".md")
        and str(path.relative_to(ROOT)) not in GENERATED
        and path.parent != RESULTS
    )


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_texts_of_a_folder_name_the_thing(folder: str) -> None:
    found = [passage for path in texts_of(folder) for passage in passages(path)]
    assert above(found) == []


@pytest.mark.parametrize("page", PAGES)
def test_each_page_for_newcomers_has_two_hits_of_a_sign_at_most(page: str) -> None:
    found = counted([*passages(ROOT / page)])
    assert {name: hits for name, (hits, _) in found.items() if hits > 2} == {}


def test_the_counter_reads_docstrings_comments_and_texts_for_users(tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    file.write_text(
        '"""What nobody knows."""\n'
        "x = 1  # whoever `what` reads it\n"
        'y = f"{x} is no number that a net takes beside others"\n'
        'z = "what is"\n'
    )
    found = {name: hits for name, (hits, _) in counted([*passages(file)]).items()}
    assert found == {"what": 1, "who": 1, "nobody": 1, "is no": 1, "anew": 1, "that of": 0}


def test_the_counter_leaves_out_questions_and_code_of_a_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("What is a group? It is `what` waits.\n\n```\nnobody who\n```\n\nWhat waits.\n")
    found = counted([*passages(page)])
    assert found["what"][0] == 1
    assert found["nobody"][0] == found["who"][0] == 0


def test_a_sign_that_stands_too_often_is_named_with_its_place(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("Nobody waits.\n\nSomebody asks everybody.\n\nNobody answers.\n")
    (line,) = above([*passages(page)])
    assert line.startswith('"nobody" stands')
    assert f"{page}:3" in line


def test_the_limits_are_those_of_code_that_people_like_to_read() -> None:
    assert {name: sign.most for name, sign in SIGNS.items()} == {
        "what": 3.0,
        "who": 0.5,
        "nobody": 0.3,
        "is no": 1.0,
        "anew": 1.5,
        "that of": 2.0,
    }
