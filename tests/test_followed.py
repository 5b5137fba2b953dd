"""docs/architecture.md follows one message and one gradient: every step is there, and leads to the
next one.

A step is a numbered line that begins with a file and what to read in it: "1.
`runtime/actors/actor.py` `Actor.ask`". What is named there must mention what the next step names,
or the word that the step gives for it ("by `handlers`").
"""

from __future__ import annotations

import ast
import itertools
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.house.source import ROOT, tree_of

DOCS = ROOT / "docs"
STEP = re.compile(
    (r"^\d+\. `(?P<file>[\w/]+\.py)` `(?P<name>[\w.]+)`(?: by " r"`(?P<by>\w+)`)?"), re.MULTILINE
)
# section -> files at most, lines at most
JOURNEYS = {"One message, followed": (6, 1040), "One gradient, followed": (8, 1040)}


@dataclass(frozen=True)
class Step:
    """A function or class to read, and the word by which it leads on, where that is not the next
    one's name."""

    file: str
    name: str
    by: str | None

    def definition(self) -> ast.AST:
        """What is to be read; fails if the file has nothing of that name."""
        node: ast.AST = tree_of(self.file)
        for part in self.name.split("."):
            inner = [
                one
                for one in ast.walk(node)
                if getattr(one, "name", None) == part or _assigns(one, part)
            ]
            assert inner, f"{self.file} has no {self.name}"
            node = inner[0]
        return node

    def mentions(self) -> set[str]:
        """Every name and attribute that is used there."""
        nodes = list(ast.walk(self.definition()))
        names = {node.id for node in nodes if isinstance(node, ast.Name)}
        return names | {node.attr for node in nodes if isinstance(node, ast.Attribute)}


def _assigns(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Assign) and any(
        ast.unparse(target) == name for target in node.targets
    )


def steps_of(section: str, page: str = "architecture.md") -> list[Step]:
    text = (DOCS / page).read_text("utf-8").partition(f"## {section}\n")[2].partition("\n## ")[0]
    return [Step(found["file"], found["name"], found["by"]) for found in STEP.finditer(text)]


@pytest.mark.parametrize("section", JOURNEYS)
def test_it_is_followed_through_few_files_and_lines(section: str) -> None:
    most_files, most_lines = JOURNEYS[section]
    files = {step.file for step in steps_of(section)}
    lines = sum(len(Path(ROOT, file).read_text("utf-8").splitlines()) for file in files)
    assert 2 <= len(files) <= most_files, files
    assert lines <= most_lines, {
        file: len(Path(ROOT, file).read_text("utf-8").splitlines()) for file in files
    }


@pytest.mark.parametrize("section", JOURNEYS)
def test_each_step_names_the_next_one(section: str) -> None:
    steps = steps_of(section)
    astray = [
        f"{step.file} {step.name} does not mention {step.by or following.name}"
        for step, following in itertools.pairwise(steps)
        if (step.by or following.name.rpartition(".")[2]) not in step.mentions()
        and following.name.partition(".")[0] not in step.mentions()
    ]
    assert astray == []
    assert steps[-1].definition()


def test_the_walks_of_a_newcomer_lead_to_what_they_name() -> None:
    steps = steps_of("Finding your way", "contributing.md")
    assert len(steps) >= 6
    for step in steps:
        assert step.definition()
        assert step.by is None or step.by in step.mentions()
