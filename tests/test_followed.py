"""The walks of docs/architecture.md: each step of a message or a gradient calls the function of the
next step.

A step is a numbered line that begins with a file and a function in it: "1.
`runtime/actors/actor.py` `Actor.ask`". Each list begins with 1. The function of a step calls the
function of the next step, or passes it to a call as an argument. There are two other ways:

- "by `x`" after the function: it calls `x`, or passes `x` to a call, and `x` leads to the next
  function. `x` is a message that the next function handles, a queue that it empties, or another
  name for the function, which the product then passes on somewhere as a value.
- "back in" before the file: a return to a function that the list has named.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tests.house.source import OURS, ROOT, nodes_of, tree_of

DOCS = ROOT / "docs"
STEP = re.compile(
    r"^(?P<number>\d+)\. (?P<back>back in )?`(?P<file>[\w/]+\.py)` `(?P<name>[\w.]+)`"
    r"(?: by `(?P<by>\w+)`)?",
    re.MULTILINE,
)
TOO_LONG = (
    "move a part that the walk does not need out of one of these files (docs/contributing.md)"
)
# section -> the most files, the most lines
JOURNEYS = {"One message, followed": (10, 1500), "One gradient, followed": (12, 1800)}


@dataclass(frozen=True)
class Step:
    """A function or class to read. `by` is the word by which it leads on, if that is not the name
    of the next one. `back` is true if it was read before.
    """

    file: str
    name: str
    by: str | None = None
    back: bool = False

    @property
    def last(self) -> str:
        """The name under which the function is called; for `__call__`, the name of its class."""
        *before, last = self.name.split(".")
        return before[-1] if last == "__call__" else last

    def definition(self) -> ast.AST:
        """Return the function or class; fail if the file has none of that name."""
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


def _assigns(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Assign) and any(
        ast.unparse(target) == name for target in node.targets
    )


def _word(node: ast.AST) -> str:
    """The last name of `a.b.c`; "" for any other expression."""
    return getattr(node, "attr", None) or getattr(node, "id", None) or ""


def _words(node: ast.AST) -> set[str]:
    return {word for one in ast.walk(node) if (word := _word(one))}


def called_in(node: ast.AST) -> set[str]:
    """The names that are called in a node, called through (`queue` of `queue.append()`), or passed
    to a call as an argument.
    """
    found = set()
    for call in ast.walk(node):
        if not isinstance(call, ast.Call):
            continue
        found.add(_word(call.func))
        if isinstance(call.func, ast.Attribute):
            found.add(_word(call.func.value))
        found |= {_word(one) for one in call.args}
        found |= {_word(one.value) for one in call.keywords}
    return found - {""}


def _takes(node: ast.AST, message: str) -> bool:
    """Return whether the function has a parameter of that class."""
    found = getattr(node, "args", None)
    return isinstance(found, ast.arguments) and any(
        one.annotation is not None and message in _words(one.annotation) for one in found.args
    )


@cache
def handed_over() -> frozenset[str]:
    """Every name that the product uses as a value without a call, and every class of which it makes
    an object.
    """
    return frozenset(word for name in OURS for word in _handed_over_in(name))


def _handed_over_in(name: str) -> Iterator[str]:
    called = {id(node.func) for node in nodes_of(name) if isinstance(node, ast.Call)}
    for node in nodes_of(name):
        if not isinstance(node, ast.Name | ast.Attribute) or not isinstance(node.ctx, ast.Load):
            continue
        word = _word(node)
        if id(node) not in called or word[:1].isupper():
            yield word


def astray(step: Step, following: Step) -> str:
    """The reason why a step does not lead to the next one; "" if it does."""
    calls = called_in(step.definition())
    if step.by is None:
        if following.last in calls or following.name.partition(".")[0] in calls:
            return ""
        return f"{step.file} {step.name} does not call {following.last}"
    if step.by not in calls:
        return f"{step.file} {step.name} does not call {step.by}"
    there = following.definition()
    if _takes(there, step.by) or step.by in _words(there) or following.last in handed_over():
        return ""
    return f"{step.by} of {step.file} {step.name} does not lead to {following.name}"


def lists_of(section: str, page: str = "architecture.md") -> list[list[Step]]:
    """The numbered lists of a section."""
    text = (DOCS / page).read_text("utf-8").partition(f"## {section}\n")[2].partition("\n## ")[0]
    found: list[list[Step]] = []
    for step in STEP.finditer(text):
        if step["number"] == "1":
            found.append([])
        found[-1].append(Step(step["file"], step["name"], step["by"], bool(step["back"])))
    return found


@pytest.mark.parametrize("section", JOURNEYS)
def test_a_walk_takes_few_files_and_lines(section: str) -> None:
    most_files, most_lines = JOURNEYS[section]
    files = {step.file for steps in lists_of(section) for step in steps}
    lines = {file: len(Path(ROOT, file).read_text("utf-8").splitlines()) for file in files}
    assert 2 <= len(files) <= most_files, f"the walk names more files than {most_files}: {files}"
    total = sum(lines.values())
    assert total <= most_lines, f"{total} lines, at most {most_lines}: {TOO_LONG}: {lines}"


@pytest.mark.parametrize("section", JOURNEYS)
def test_each_step_calls_the_function_of_the_next(section: str) -> None:
    lists = lists_of(section)
    assert lists
    for steps in lists:
        wrong = [
            astray(step, following)
            for step, following in itertools.pairwise(steps)
            if not following.back
        ]
        assert [why for why in wrong if why] == []
        assert steps[-1].definition()


@pytest.mark.parametrize("section", JOURNEYS)
def test_a_step_goes_back_only_to_a_function_that_was_read(section: str) -> None:
    for steps in lists_of(section):
        read = [(step.file, step.name) for step in steps]
        unread = [
            step.name
            for number, step in enumerate(steps)
            if step.back and (step.file, step.name) not in read[:number]
        ]
        assert unread == []


def test_a_name_that_is_mentioned_but_not_called_is_not_a_step() -> None:
    tree = ast.parse(
        "def f(queue):\n    g = 1\n    g\n    queue.put(h)\n    k(l.m)\n    return n\n"
    )
    assert called_in(tree) == {"put", "queue", "h", "k", "m"}


def test_the_walks_of_a_newcomer_name_existing_code() -> None:
    lists = lists_of("Finding your way", "contributing.md")
    assert sum(map(len, lists)) >= 6
    for step in itertools.chain(*lists):
        node = step.definition()
        assert step.by is None or step.by in _words(node)
