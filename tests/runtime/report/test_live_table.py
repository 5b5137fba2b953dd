"""The live table on a real terminal: it fits, it stays in its place, and it leaves its last
values.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.helpers.support import ROOT, environment
from tests.helpers.terminal import Terminal, terminal

TITLE = "actor"


def table_of(lines: list[str]) -> list[str]:
    """The lines from the headline of the table to the last line."""
    first = next(
        at
        for at, line in enumerate(lines)
        if line.startswith(("iteration", "starting", "preparing"))
    )
    return lines[first:]


def is_last(line: str) -> bool:
    """Return whether the line is the last one of a complete table."""
    return line.startswith("and ")


def step(screen: Terminal, number: int) -> list[str]:
    """The table after so many steps."""
    screen.type(b"\n")
    begins = f"iteration {10 * number}/"
    return table_of(
        screen.until(
            lambda lines: any(line.startswith(begins) for line in lines) and is_last(lines[-1])
        )
    )


@pytest.mark.parametrize(("columns", "lines"), [(80, 24), (120, 40), (60, 20)])
def test_the_table_of_two_hundred_actors_fits_and_keeps_its_height_and_nothing_scrolls(
    columns: int, lines: int
) -> None:
    command = [sys.executable, "-m", "tests.helpers.told_table"]
    with terminal(command, columns, lines, ROOT, environment(), echo=False) as screen:
        start = table_of(screen.until(lambda shown: any(map(is_last, shown))))
        shown = [step(screen, number) for number in range(1, 5)]
        heights = {max(at for at, line in enumerate(each) if line) for each in (start, *shown)}
        assert heights == {lines - 3}, "the table does not leave two lines for other output"
        last = shown[-1]
        assert last[0].startswith("iteration 40/400 (10%)") and "elapsed 1:05" in last[0]
        assert last[1].split()[:2] == ["loss", "0.575"] and last[2].split()[0] == "accuracy"
        assert "▁" in last[1] and "█" in last[1] and "█" in last[2], "a sparkline is missing"
        assert "images/s 5123" in last[3] and "learning rate 0.01" in last[3]
        assert last[4].startswith("predicted 12.1 ms, measured 12.3 ms")
        assert last[5] == "" and last[6].startswith(TITLE)
        rows = [line for line in last[7:] if line and not line.startswith("and ")]
        assert len(rows) == lines - 2 - 6 - 1 - 1
        assert len({row.split()[0] for row in rows}) == len(rows), "a row is in two lines"
        assert {"conv_model", "fc_server"} <= {row.split()[0] for row in rows}, "a role has no row"
        (more,) = [line for line in last if line.startswith("and ")]
        assert more.split(":")[0] == f"and {202 - len(rows)} more"
        assert not any(len(line) > columns - 2 for line in last), "no room for ^C"
        told = ("run directory", "began", "test ")
        assert [line for line in screen.scrolled() if not line.startswith(told)] == [], (
            "a part of the table has scrolled"
        )
        screen.type(b"\x04")
        assert screen.end() == 0
        ended = [line for line in screen.shown() if line]
        assert (
            ended[-1] == "the end"
            and "iteration 400/400 (100%)" in ended[-6]
            and ended[-6].endswith("finished")
        )
        assert not any(line.startswith((TITLE, "conv-worker")) for line in ended), (
            "the rows of actors are still there at the end"
        )
        assert sum(line.startswith("iteration") for line in [*screen.scrolled(), *ended]) == 1


SHOWN = """
from runtime.report.console import RunConsole
shown = RunConsole()
shown.event("coordinator", "progress", {"iteration": 1, "iterations": 4, "loss": 2.0})
shown.close()
"""


@pytest.mark.parametrize("where", ["foreground", "background"])
def test_a_command_has_the_table_in_the_foreground_and_plain_lines_in_the_background(
    where: str, tmp_path: Path
) -> None:
    words = {"foreground": 'exec "$@"', "background": 'set -m; "$@" & wait'}[where]
    command = ["bash", "-c", words, "bash", sys.executable, "-c", SHOWN]
    with terminal(command, 100, 20, tmp_path, environment()) as shown:
        assert shown.end() == 0
    assert (b"\x1b[" in shown.raw) == (where == "foreground")
    assert (b"progress   iteration 1  iterations 4  loss 2" in shown.raw) == (where == "background")
