"""docs/tutorial.md, typed line by line in one folder. The output is compared with the output that
the page shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.helpers.support import ROOT

PAGE = (ROOT / "docs" / "tutorial.md").read_text("utf-8")
BLOCKS = re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)
# the command as it is installed, even if it is not installed for this Python
CONVOY = (
    f"#!{sys.executable}\nimport sys\nfrom runtime.__main__ import command\nsys.exit(command())\n"
)
SECONDS = 90


@dataclass(frozen=True)
class Step:
    """A command of the page and its output; "..." stands for anything."""

    typed: str
    shown: str


def steps() -> list[Step]:
    found = []
    for block in BLOCKS:
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            typed, _, shown = part.partition("\n")
            found.append(Step(typed, shown))
    return found


def fits(shown: str, came: str) -> bool:
    """Whether the output matches the page, where "..." stands for anything."""
    pieces = [re.escape(piece.strip()) for piece in shown.strip().split("...")]
    return re.fullmatch("(?s)" + r"\s*.*?\s*".join(pieces) + r".*", came.strip()) is not None


@pytest.fixture
def behind() -> Iterator[list[subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []
    yield started
    for each in started:
        each.terminate()
        each.wait()
        assert each.stdout is not None
        each.stdout.close()


def test_the_page_may_leave_output_out_but_not_show_other_output() -> None:
    assert fits("wrote a\n...\nend 0.9...", "wrote a\nb\nc\nend 0.97 s\n")
    assert fits("...\nend", "end")
    assert not fits("wrote a\n...\nend", "wrote a\nb\n")
    assert not fits("wrote b", "wrote a")


def test_the_page_names_only_existing_commands() -> None:
    from runtime.cli.main import application

    known = set(application(["--help"], "convoy"))
    named = set(re.findall(r"\bconvoy ([a-z]+)", PAGE))
    assert named - known == set()
    assert {"init", "check", "up", "down", "test"} <= named


@pytest.mark.slow  # all of it takes 30 s
@pytest.mark.timeout(300)
def test_the_tutorial_can_be_typed_as_it_stands(
    tmp_path: Path, behind: list[subprocess.Popen[str]]
) -> None:
    commands = tmp_path / "bin"
    folder = tmp_path / "folder"
    for made in (commands, folder):
        made.mkdir()
    (commands / "convoy").write_text(CONVOY)
    (commands / "convoy").chmod(0o755)
    path = f"{commands}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PATH": path, "COLUMNS": "120"}
    for step in steps():
        typed = f"exec {step.typed.removesuffix('&')}" if step.typed.endswith("&") else step.typed
        process = subprocess.Popen(
            ["bash", "-c", typed],
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert process.stdout is not None
        if step.typed.endswith("&"):
            behind.append(process)
            came = ""
            end = time.monotonic() + SECONDS
            while not fits(step.shown, came):  # wait until each line has come
                line = process.stdout.readline()
                came += line
                assert line, f"$ {step.typed}\n{came}"
                assert time.monotonic() < end, f"$ {step.typed}\n{came}"
        else:
            came, _ = process.communicate(timeout=SECONDS)
            assert process.returncode == 0, f"$ {step.typed}\n{came}"
            assert fits(step.shown, came), f"$ {step.typed}\nshown:\n{step.shown}\ncame:\n{came}"
