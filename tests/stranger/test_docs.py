"""The examples of docs/extending.md are the code that the tests run: their code is in the
stranger's files, and their entry points name it."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import pytest

from tests.house.source import OURS

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "extending.md").read_text("utf-8")
OTHER = (ROOT / "docs" / "prediction.md").read_text("utf-8")
EXCERPT = re.compile(r"```python\n# (\S+)\n(.*?)```", re.DOTALL)
BLOCKS = [*EXCERPT.findall(PAGE), *EXCERPT.findall(OTHER)]
ENTRY_POINTS = tomllib.loads(re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)[0])["project"][
    "entry-points"
]


@pytest.mark.parametrize(("name", "code"), BLOCKS, ids=[name for name, _ in BLOCKS])
def test_each_piece_of_an_example_stands_in_its_file_in_this_order(name: str, code: str) -> None:
    source = (ROOT / name).read_text("utf-8")
    at = 0
    for piece in code.removesuffix("...\n").split("\n...\n"):
        found = source.find(piece.rstrip("\n") + "\n", at)
        assert found >= 0, f"{name} lacks this piece after the pieces before it:\n{piece}"
        at = found + len(piece.rstrip("\n")) + 1
    rest = source[at:].lstrip("\n")
    whole = not rest.startswith(" ") or code.endswith("\n...\n")
    assert whole, f"the example ends before {rest.splitlines()[0]!r}: end it with a line of ..."


def test_every_entry_point_names_something_that_its_file_defines() -> None:
    for places in ENTRY_POINTS.values():
        for place in places.values():
            module, _, name = place.partition(":")
            tree = ast.parse(
                (ROOT / module.replace(".", "/")).with_suffix(".py").read_text("utf-8")
            )
            classes = [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
            assigned = [
                ast.unparse(node.targets[0]) for node in tree.body if isinstance(node, ast.Assign)
            ]
            assert name in classes + assigned, place


def test_there_is_an_example_of_every_group_and_a_group_of_every_example() -> None:
    groups = set(re.findall(r"\| `(convoy\.\w+)` \|", PAGE))
    searched = {
        group
        for name in OURS
        for group in re.findall(r'"(convoy\.\w+s)"', (ROOT / name).read_text("utf-8"))
    }
    assert searched <= groups == set(ENTRY_POINTS)
    modules = {
        place.partition(":")[0] for places in ENTRY_POINTS.values() for place in places.values()
    }
    shown = {name.removesuffix(".py").replace("/", ".") for name, _ in BLOCKS}
    assert {name for name in shown if name.startswith("tests.")} == modules


def test_every_example_names_its_file() -> None:
    found = EXCERPT.findall(PAGE)
    assert len(found) == PAGE.count("```python\n"), "begin each example with `# its/file.py`"
