"""The examples in the pages for authors of programs and scripts: each one is imported as a module.

An example with `await` outside a function stands for a cell of a notebook and is only compiled.
tests/stranger compares the examples of docs/extending.md with the files that they name.
"""

from __future__ import annotations

import ast
import re
import runpy
from pathlib import Path

import pytest

from tests.helpers.support import ROOT

PAGES = ("programs.md", "scripting.md")
EXAMPLES = [
    pytest.param(example, id=f"{page} line {text.count(chr(10), 0, found.start()) + 1}")
    for page in PAGES
    for text in [(ROOT / "docs" / page).read_text("utf-8")]
    for found in re.finditer(r"```python\n(.*?)```", text, re.DOTALL)
    for example in [found[1]]
]
IS_CELL = 0x80  # CO_COROUTINE: the code awaits outside a function


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_in_the_documentation_can_be_imported(
    example: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    if compile(example, "example", "exec", flags=flags).co_flags & IS_CELL:
        return
    monkeypatch.chdir(tmp_path)
    (tmp_path / "example.py").write_text(example, "utf-8")
    runpy.run_path("example.py", run_name="example")


def test_there_are_examples_in_each_page() -> None:
    assert {str(each.id).partition(" ")[0] for each in EXAMPLES} == {*PAGES}
