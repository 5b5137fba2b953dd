"""Names in the docs: every file, module and attribute that a page names exists."""

from __future__ import annotations

import importlib
import re

import pytest

from tests.house.source import PACKAGES, ROOT

PAGES = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md", ROOT / "CHANGELOG.md"]
FILE = re.compile(rf"`((?:{'|'.join(PACKAGES)}|tests|benchmarks|examples|docs)/[\w./-]+)`")
NAME = re.compile(rf"`((?:{'|'.join(PACKAGES)})(?:\.\w+)+)\b")


def text_of(page: str) -> str:
    return (ROOT / page).read_text("utf-8")


@pytest.mark.parametrize("page", [str(page.relative_to(ROOT)) for page in PAGES])
def test_every_file_that_a_page_names_exists(page: str) -> None:
    missing = [name for name in FILE.findall(text_of(page)) if not (ROOT / name).exists()]
    assert missing == [], f"{page} names files that do not exist: correct the page"


@pytest.mark.parametrize("page", [str(page.relative_to(ROOT)) for page in PAGES])
def test_every_module_that_a_page_names_can_be_imported(page: str) -> None:
    missing = [name for name in sorted(set(NAME.findall(text_of(page)))) if not _is_there(name)]
    assert missing == [], f"{page} names code that does not exist: correct the page"


def _is_there(name: str) -> bool:
    """Return whether the name is a module or an attribute of a module."""
    module = name
    rest = []
    while True:
        try:
            found = importlib.import_module(module)
        except ModuleNotFoundError:
            module, _, last = module.rpartition(".")
            rest.insert(0, last)
            if not module:
                return False
        else:
            break
    for part in rest:
        if not hasattr(found, part):
            return False
        found = getattr(found, part)
    return True
