"""Code that is written twice, since `nets` and `ops` may not import `runtime`: the twins are
equal.
"""

from __future__ import annotations

import ast

import pytest

from tests.house.source import ROOT, tree_of

WHOLE = ()
# file, its twin, and the names that are twins
TWINS = [
    ("ops/cpu/codegen/owned.py", "runtime/machine/owned.py", WHOLE),
    ("nets/counting.py", "runtime/counting.py", WHOLE),
    ("nets/parent.py", "runtime/machine/parent.py", WHOLE),
    ("nets/siblings.py", "roles/siblings.py", WHOLE),
    ("nets/reasons.py", "runtime/reasons.py", ("reason_of", "reason")),
    (
        "nets/regular.py",
        "runtime/regular.py",
        ("KINDS", "opened", "read_bytes", "decoded", "is_file", "is_folder", "is_there", "_check"),
    ),
]


def text_of(name: str, twin: str) -> str:
    """The source of a function or a constant of this file."""
    text = (ROOT / name).read_text("utf-8")
    for node in tree_of(name).body:
        targets = node.targets if isinstance(node, ast.Assign) else [node]
        names = [getattr(target, "name", getattr(target, "id", "")) for target in targets]
        if twin in names:
            return ast.get_source_segment(text, node) or ""
    raise AssertionError(f"{name} has no {twin}")


@pytest.mark.parametrize(("here", "there", "names"), TWINS)
def test_the_twins_are_equal(here: str, there: str, names: tuple[str, ...]) -> None:
    for name in names:
        assert text_of(here, name) == text_of(there, name)
    if names == WHOLE:
        assert (ROOT / here).read_text("utf-8") == (ROOT / there).read_text("utf-8")
