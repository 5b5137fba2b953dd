"""The helper `terminal`: a command on it never waits for the test."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.helpers.terminal import PATIENCE, terminal


def test_a_command_never_waits_for_the_test_to_read_its_terminal(tmp_path: Path) -> None:
    # more than a terminal holds
    command = [sys.executable, "-c", "for number in range(10_000): print(number)"]
    with terminal(command, 80, 24, tmp_path) as screen:
        assert screen.process.wait(PATIENCE) == 0
        assert screen.end() == 0
        assert "9999" in screen.shown()
