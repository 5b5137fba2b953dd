"""The parts of a page that are generated from the code, between two HTML comments.

<!-- written: NAME -->
<!-- end of NAME -->
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.house.source import ROOT

DOCS = ROOT / "docs"


def page(name: str, parts: Mapping[str, Callable[[], str]]) -> str:
    """The text of a page of docs/ with its parts, each made by its function."""
    text = (DOCS / name).read_text("utf-8")
    for part, made in parts.items():
        text = replaced(text, part, made(), DOCS / name)
    return text


def replaced(text: str, name: str, made: str, where: Path) -> str:
    """Replace the text between the comments of this name. Raises LookupError if the page lacks
    them.
    """
    opening = f"<!-- written: {name} -->\n"
    closing = f"<!-- end of {name} -->"
    before, found, rest = text.partition(opening)
    _, ended, after = rest.partition(closing)
    if not (found and ended):
        raise LookupError(f"{where}: expected the lines {opening.strip()} and {closing}")
    return f"{before}{opening}{made}{closing}{after}"


def table(titles: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """A table in Markdown."""
    lines = [titles, tuple("---" for _ in titles), *rows]
    return "".join(f"| {' | '.join(line)} |\n".replace("|  |", "| |") for line in lines)


def linked(text: str) -> str:
    """Prepare a text of the code for a page in docs/. Names of pages and of results become links. A
    bar is escaped, so that it does not end a cell.
    """
    text = re.sub(r"(?<!`)(\|)", r"\\\1", text)
    text = re.sub(r"\bdocs/([\w-]+\.md)(#[\w-]+)?", r"[\1](\1\2)", text)
    return re.sub(r"\bbenchmarks/results/([\w-]+)\.md", r"[\1](../benchmarks/results/\1.md)", text)
