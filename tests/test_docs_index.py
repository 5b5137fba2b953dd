"""docs/README.md is the index of all pages by reader, and docs/decisions/README.md that of the
decisions. Every link of a page leads to an existing file and heading.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.house.source import ROOT

DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.MULTILINE | re.DOTALL)
ROW = re.compile(r"^\| \[[^\]]*\]\(([^)]+)\) \| (.*?) \|$", re.MULTILINE)
READERS = (
    "You train nets",
    "You operate runs",
    "You write roles and programs",
    "You work on Convoy",
)
ARCHITECTURE_WORDS = 3000
DECISIONS = [page for page in sorted((DOCS / "decisions").glob("*.md")) if page.stem != "README"]


def links_of(page: Path) -> list[tuple[Path, str]]:
    """The file and the anchor of every link of a page to a file of this repository."""
    found = []
    text = re.sub(
        r"^```.*?^```|`[^`\n]*`", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL
    )
    for target in LINK.findall(text):
        path, _, anchor = target.partition("#")
        if "://" not in target:
            found.append(((page.parent / path).resolve() if path else page, anchor))
    return found


def anchors_of(page: Path) -> set[str]:
    """The anchors of a page's headings, as Git hosts make them."""
    titles = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def rows_of(page: Path) -> list[tuple[str, str]]:
    """The target and the text of each table row that begins with a link."""
    rows = re.findall(
        r"^\| \[[^\]]*\]\(([^)]+)\) \| (.*?) \|$", page.read_text("utf-8"), re.MULTILINE
    )
    return [(target, text.strip()) for target, text in rows]


@pytest.mark.parametrize(
    "page",
    [*PAGES, ROOT / "README.md", ROOT / "CHANGELOG.md"],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_the_targets_of_a_pages_links_exist(page: Path) -> None:
    assert [
        f"{path.name}#{anchor}"
        for path, anchor in links_of(page)
        if not path.exists() or (anchor and path.suffix == ".md" and anchor not in anchors_of(path))
    ] == []


def test_every_page_is_in_the_index_with_its_questions() -> None:
    index = rows_of(DOCS / "README.md")
    listed = {(DOCS / target).resolve() for target, _ in index}
    below = {
        (DOCS / "decisions" / target).resolve()
        for target, _ in rows_of(DOCS / "decisions/README.md")
    }
    assert [page for page in PAGES if page not in {*listed, *below, DOCS / "README.md"}] == []
    assert [target for target, text in index if len(text.split()) < 4] == []
    assert len(index) == len(listed)


def test_the_index_is_by_reader_and_the_readme_leads_to_it() -> None:
    text = (DOCS / "README.md").read_text("utf-8")
    assert tuple(re.findall(r"^## (.+)$", text, re.MULTILINE)) == READERS
    assert (DOCS / "README.md", "") in links_of(ROOT / "README.md")


def test_the_page_of_the_architecture_is_short() -> None:
    words = (DOCS / "architecture.md").read_text("utf-8").split()
    assert len(words) <= ARCHITECTURE_WORDS


@pytest.mark.parametrize("page", DECISIONS, ids=lambda page: page.stem)
def test_a_page_of_decisions_is_named_by_a_file_that_it_binds(page: Path) -> None:
    name = str(page.relative_to(ROOT))
    packages = [*(ROOT / folder for folder in ("ops", "nets", "roles", "runtime", "benchmarks"))]
    assert any(
        f"See {name}." in file.read_text("utf-8")
        for package in packages
        for file in package.rglob("*.py")
    ), f"no docstring says 'See {name}.'"


def test_every_feature_of_the_changelog_is_one_line_with_a_link() -> None:
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    features = re.findall(r"^- .*$", text.partition("\n## 0.1.0")[2], re.MULTILINE)
    assert len(features) > 50
    assert [line for line in features if "](docs/" not in line] == []


def test_the_changelog_begins_with_the_unreleased_changes() -> None:
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert re.findall(r"^## (.+)$", text, re.MULTILINE)[0] == "Unreleased"
