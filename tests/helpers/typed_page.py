"""A page of docs that is typed line by line in one folder. The output is compared with the output
that the page shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.helpers.support import ROOT

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


def steps(page: str) -> list[Step]:
    """The commands of a page's console blocks."""
    found = []
    for block in re.findall(r"```console\n(.*?)```", page, re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            typed, _, shown = part.partition("\n")
            found.append(Step(typed, shown))
    return found


def fits(shown: str, came: str) -> bool:
    """Whether the output matches the page, where "..." stands for anything."""
    pieces = [re.escape(piece.strip()) for piece in shown.strip().split("...")]
    return re.fullmatch("(?s)" + r"\s*.*?\s*".join(pieces) + r".*", came.strip()) is not None


def type_page(page: str, folder: Path, behind: list[subprocess.Popen[str]]) -> None:
    """Type all commands of a page in an empty or prepared `folder`. Processes that a page leaves
    running are added to `behind`."""
    commands = folder.parent / "bin"
    commands.mkdir()
    (commands / "convoy").write_text(CONVOY)
    (commands / "convoy").chmod(0o755)
    path = f"{commands}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PATH": path, "COLUMNS": "120"}
    for step in steps(page):
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


@contextmanager
def ended() -> Iterator[list[subprocess.Popen[str]]]:
    """Yield a list; its processes are ended afterwards."""
    started: list[subprocess.Popen[str]] = []
    try:
        yield started
    finally:
        for each in started:
            each.terminate()
            each.wait()
            assert each.stdout is not None
            each.stdout.close()
