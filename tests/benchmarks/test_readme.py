"""benchmarks/README.md: every command has a row, and every row has a command."""

from __future__ import annotations

import re

import pytest

from benchmarks.papers import papers
from benchmarks.tuning import tuning
from tests.house.source import ROOT

BENCHMARKS = ROOT / "benchmarks"
ROW = re.compile(r"^\| [^|]+ \| `(\w+)", re.MULTILINE)


def commands() -> set[str]:
    """The names of the commands: files at the top, and folders that `python -m` can run."""
    files = {path.stem for path in BENCHMARKS.glob("[a-z]*.py")}
    return files | {path.parent.name for path in BENCHMARKS.glob("*/__main__.py")}


def test_the_page_of_benchmarks_has_a_row_for_each_command_and_no_other() -> None:
    assert set(ROW.findall((BENCHMARKS / "README.md").read_text("utf-8"))) == commands()


def test_each_command_describes_itself_in_its_help() -> None:
    """Each command has its own parser: without one, asking for help would run everything."""
    for name in commands():
        folder = BENCHMARKS / name / f"{name}.py"
        text = (folder if folder.exists() else BENCHMARKS / f"{name}.py").read_text("utf-8")
        own = "argparse.ArgumentParser(" in text and f'prog="python -m benchmarks.{name}"' in text
        assert own or f'parser_of("{name}", __doc__)' in text, name


def test_the_help_of_a_command_has_each_part_on_a_line_of_its_own(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for module in (papers, tuning):
        with pytest.raises(SystemExit):
            module.main(["--help"])
        assert f"{module.__doc__}" in capsys.readouterr().out
