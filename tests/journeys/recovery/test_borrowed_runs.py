"""Run directories from other people: no command that looks at a run imports the program that it
names."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

import runtime
from runtime.cli.main import main
from tests.helpers.watched import Asked, Hello, watched

MODULE = """
from pathlib import Path
Path({marker!r}).touch()
ROLES = {{}}
def forecast(topology): raise ValueError("asked")
"""
LIVE = [
    "status RUN",
    "logs RUN",
    "top RUN --once",
    "top RUN --json",
    "stack RUN",
    "trace start RUN",
    "trace stop RUN",
    "events RUN",
    "report RUN",
    "scale RUN --workers 2",
    "down RUN",
]
OVER = [
    "status RUN",
    "logs RUN",
    "events RUN",
    "report RUN",
    "save RUN",
    "top RUN --once",
    "stack RUN",
    "down RUN",
]


@pytest.fixture
def marker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that appears when the module `borrowed`, next to the run directories, is imported."""
    marker = tmp_path / "imported"
    (tmp_path / "borrowed.py").write_text(MODULE.format(marker=str(marker)))
    monkeypatch.syspath_prepend(tmp_path)
    return marker


def was_imported(marker: Path) -> bool:
    return marker.exists()


def borrow(directory: Path, program: str = "borrowed") -> None:
    plan = json.loads((directory / "plan.json").read_text())
    plan["placement"]["topology"]["program"] = program
    (directory / "plan.json").write_text(json.dumps(plan))


def typed(directory: Path, commands: list[str]) -> dict[str, int]:
    """The exit code of each command."""
    found = {}
    for command in commands:
        found[command] = main(
            [str(directory) if word == "RUN" else word for word in command.split()]
        )
    return found


async def test_no_command_that_looks_at_a_run_imports_the_program_that_it_names(
    marker: Path, tmp_path: Path
) -> None:
    async with runtime.launch(
        watched(), directory=tmp_path / "runs", liveness={"missed": 400}
    ) as run:
        await run.ask("deaf", Asked(), Hello)
        borrow(run.directory)
        codes = await asyncio.to_thread(typed, run.directory, LIVE)
    assert not was_imported(marker)
    # `scale` is refused for a run of a script
    assert codes == {command: int(command.startswith("scale")) for command in LIVE}
    codes = await asyncio.to_thread(typed, run.directory, OVER)
    assert [codes[command] for command in OVER[:5]] == [0, 0, 0, 0, 1]
    assert not was_imported(marker)


def told(directory: Path, *more: str) -> str:
    assert main(["report", str(directory), *more]) == 0
    return (directory / "report.html").read_text()


async def test_a_report_imports_a_program_that_its_user_names_for_runs_of_that_program(
    marker: Path, tmp_path: Path
) -> None:
    async with runtime.launch(watched(), directory=tmp_path / "runs") as run:
        await run.end_now()
    borrow(run.directory)
    text = await asyncio.to_thread(told, run.directory, "--program=other")
    assert (
        "its program borrowed is not imported for a report, since a run directory may "
        "come from another person"
    ) in text
    assert not was_imported(marker)
    text = await asyncio.to_thread(told, run.directory, "--program=borrowed")
    assert "its program borrowed does not report the planned traffic" in text
    assert was_imported(marker)
