"""The Python examples of the docs: each one is imported as a module.

An example with `await` outside a function stands for a cell of a notebook; those of scripting.md run
one after the other. A script of programs.md or scripting.md also runs as a script. Of an example
that needs a checkpoint or a profile only the imports are done. tests/stranger compares
the examples that name their file with that file.
"""

from __future__ import annotations

import ast
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import roles
import runtime
from roles.messages import GetState, State
from tests.helpers.support import ROOT, environment, events

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


SCRIPTS = [each for each in examples("programs.md", "scripting.md") if "__main__" in each.values[0]]
# the numbers that their comments promise
PROMISED = {
    "runtime.map(square": "[0, 1, 4, 9, 16, 25, 36, 49]\n",
    "runtime.run(topology(4))": "{'total': 328350}\n",
    "runtime.run(topology))  # {'total'": "{'total': 328350}\n",
}


@pytest.mark.few("programs.md")
@pytest.mark.parametrize("example", SCRIPTS)
def test_an_example_that_is_a_script_runs(example: str, tmp_path: Path) -> None:
    (tmp_path / "example.py").write_text(example, "utf-8")
    done = subprocess.run(
        [sys.executable, "example.py"],
        cwd=tmp_path,
        env={**environment(), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout
    for call, promised in PROMISED.items():
        assert call not in example or done.stdout == promised


CELLS = [each.values[0] for each in examples("scripting.md") if "__main__" not in each.values[0]]


async def ran(cell: str, names: dict[str, Any]) -> None:
    """Run a cell of a notebook, whose names are `names`."""
    code = compile(cell, "cell", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    waited = eval(code, names)
    if code.co_flags & IS_CELL:
        await waited


@pytest.mark.slow
async def test_the_cells_of_the_notebook_run_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    first = next(number for number, cell in enumerate(CELLS) if "one cell" in cell)
    names: dict[str, Any] = {}
    for cell in CELLS[first : first + 3]:
        await ran(cell, names)
    assert "accuracy" in names["result"]
    assert "progress" in capsys.readouterr().out


@pytest.mark.slow
async def test_the_cell_that_attaches_runs_next_to_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (cell,) = (cell for cell in CELLS if "runtime.attach(" in cell)
    strategy = {"preset": "sync", "workers": 2}
    topology = roles.training({"max_iter": 300, "strategy": strategy})
    async with runtime.launch(topology) as run:
        await run.ask("conv_model", GetState(), State)  # all actors have begun
        await ran(cell.replace("runs/20260101-120000-lenet", str(run.directory)), {})
    assert "progress" in capsys.readouterr().out


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
