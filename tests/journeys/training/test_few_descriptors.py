"""Runs with few file descriptors per process: they train if the number is sufficient, and end with
plain words if it is not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.support import configure


def up(cluster: Path, most: int) -> subprocess.CompletedProcess[str]:
    command = f'ulimit -n {most}; exec "{sys.executable}" -m runtime up "{cluster}"'
    return subprocess.run(
        ["sh", "-c", command], capture_output=True, text=True, timeout=90, cwd=cluster.parent
    )


def test_a_run_with_too_few_descriptors_ends_with_the_limit_and_advice(
    tmp_path: Path,
) -> None:
    ended = up(
        configure(tmp_path, "sync", workers=2, iterations=3, more='[links]\ntransport = "tcp"\n'),
        72,
    )
    assert ended.returncode == 3
    assert (
        "Too many open files: this process has reached its limit of 72; raise it with `ulimit -n`"
    ) in ended.stderr
    assert "Traceback" not in ended.stdout + ended.stderr


@pytest.mark.parametrize("transport", ["auto", "tcp"])
def test_a_run_trains_and_saves_with_256_descriptors_for_each_process(
    tmp_path: Path, transport: str
) -> None:
    more = f'[links]\ntransport = "{transport}"\n'
    ended = up(configure(tmp_path, "sync", workers=2, iterations=3, more=more), 256)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert list(tmp_path.rglob("checkpoint-*.safetensors"))
