"""The Python examples of the docs: each one is imported as a module.

An example with `await` outside a function stands for a cell of a notebook and is only compiled. Of
an example that needs a checkpoint or a profile only the imports are done. tests/stranger compares
the examples that name their file with that file.
"""

from __future__ import annotations

import ast
import re
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import runtime
from tests.helpers.support import ROOT, events

PAGES = ("layers.md", "programs.md", "scripting.md")
NEED_FILES = ("predict.md", "prediction.md", "weights.md")
IS_CELL = 0x80  # CO_COROUTINE: the code awaits outside a function


def examples(*pages: str) -> list[Any]:
    """Every example of these pages that does not name its file, with its place as the id."""
    return [
        pytest.param(found[1], id=f"{page} line {text.count(chr(10), 0, found.start()) + 1}")
        for page in pages
        for text in [(ROOT / "docs" / page).read_text("utf-8")]
        for found in re.finditer(r"```python\n(?!# \S+\.py\n)(.*?)```", text, re.DOTALL)
    ]


@pytest.mark.parametrize("example", examples(*PAGES))
def test_an_example_in_the_documentation_can_be_imported(
    example: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    if compile(example, "example", "exec", flags=flags).co_flags & IS_CELL:
        return
    monkeypatch.chdir(tmp_path)
    (tmp_path / "example.py").write_text(example, "utf-8")
    runpy.run_path("example.py", run_name="example")


async def test_the_net_of_todays_layers_trains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (example,) = examples("layers.md")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "example.py").write_text(example.values[0], "utf-8")
    topology = runpy.run_path("example.py", run_name="example")["topology"]
    async with runtime.launch(topology, directory=tmp_path, processes="here") as run:
        result = await run.result()
    assert result["iterations"] == 20
    losses = [event["loss"] for event in events(run.directory, "progress")]
    assert losses and np.isfinite(losses).all()


@pytest.mark.parametrize("example", examples(*NEED_FILES))
def test_the_names_that_an_example_imports_exist(example: str) -> None:
    tree = ast.parse(example)
    tree.body = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    assert tree.body
    exec(compile(tree, "example", "exec"), {})


@pytest.mark.parametrize("page", [*PAGES, *NEED_FILES])
def test_each_of_these_pages_has_examples(page: str) -> None:
    assert examples(page)


def test_no_other_page_has_an_example_that_no_test_reads() -> None:
    pages = {
        path.name
        for path in (ROOT / "docs").glob("*.md")
        if "```python\n" in path.read_text("utf-8")
    }
    assert pages <= {*PAGES, *NEED_FILES, "extending.md"}, "add the page to PAGES"
