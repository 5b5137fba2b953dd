"""A second user on the same machine: he can neither end nor stall nor read a run, whichever door he
tries.

The run trains over TCP while another user without rights tries each door ten times. Its final
numbers equal those of an undisturbed run.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from textwrap import indent

import pytest

from benchmarks.helpers.strangers import listening
from benchmarks.second_user import ATTACKS, PREAMBLE
from tests.chaos.test_links import running, undisturbed
from tests.helpers.support import configure, events, run_directory

TRIES = 10
# attacks that wait for an answer and open few connections: all tries are made at once
WAITING = ("forged", "garbage")
TCP = '[links]\ntransport = "tcp"\n'


def as_nobody(attack: str, at_once: int, *arguments: str) -> str:
    """Run an attack TRIES times as another user, on each port in turn; return its output."""
    program = f"""
from concurrent.futures import ThreadPoolExecutor
{PREAMBLE}
def attempt(number):
    port = ports[number % len(ports)]
{indent(attack, "    ")}
with ThreadPoolExecutor({at_once}) as pool:
    list(pool.map(attempt, range({TRIES})))
"""
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user may enter."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
@pytest.mark.slow
def test_another_user_cannot_end_stall_or_read_a_run(tmp_path: Path, open_folder: Path) -> None:
    cluster = configure(
        open_folder / "run", "sync", workers=2, iterations=1_000_000, paced=True, more=TCP
    )
    with running(cluster) as run:
        (sockets,) = Path(tempfile.gettempdir()).glob(f"convoy-sockets-{run.process.pid}-*")
        pages = {entry["metrics_port"] for entry in events(run_directory(cluster), "process")}
        ports = sorted(listening([run.pids["coordinator"], run.pids["conv_model"]]) - pages)
        assert len(ports) == 4  # two lanes each
        for name, attack in ATTACKS.items():
            places = str(sockets), str(run_directory(cluster)), " ".join(map(str, pages))
            said = as_nobody(
                attack, TRIES if name in WAITING else 2, *map(str, ports), "conv-0-0/1.7", *places
            )
            assert (name, said) == (name, "")
            run.goes_on(1)
        code, errors = run.stop()
        assert (code, errors) == (130, "")
        losses = run.losses()
    calm = undisturbed(tmp_path / "calm", len(losses))
    assert [
        number for number, pair in enumerate(zip(losses, calm, strict=True)) if pair[0] != pair[1]
    ] == []
    assert events(run_directory(cluster), "finished")
