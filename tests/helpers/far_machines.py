"""Machines that only ssh reaches, as benchmarks make them, and the files that runs leave on
them.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TypeVar

import pytest

from benchmarks.helpers.far_machines import Far, far_machines, program
from benchmarks.helpers.machines import Refused

__all__ = ["RECOVERING", "Far", "far_machines", "folders", "or_skip", "program"]

Made = TypeVar("Made")
RECOVERING = """
[recovery]
restarts = {restarts}
machines = "{machines}"
[launcher]
kind = "ssh"
[train]
solver = "solver.prototxt"
[train.strategy]
preset = "sync"
workers = 4
"""  # four workers on machines that ssh reaches; the machines' tables come before this text


def folders() -> list[str]:
    """The folders that ended runs have left in the temporary folder for good.

    Other tests kill runs at the same time. Their folders are removed when the next run begins, so
    this waits ten seconds.
    """
    deadline = time.monotonic() + 10
    while True:
        found = Path(tempfile.gettempdir()).glob("convoy-sockets-*")
        left = [str(path) for path in found if not Path("/proc", path.name.split("-")[2]).exists()]
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.1)


@contextmanager
def or_skip(made: AbstractContextManager[Made]) -> Iterator[Made]:
    """Enter the machines, or skip the test with the reason why this host cannot make them."""
    try:
        with made as found:
            yield found
    except Refused as why:
        pytest.skip(f"no machines here: {why}")
