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


@pytest.mark.few("[26]", "[34]")
@pytest.mark.parametrize("most", range(24, 36, 2))
def test_a_run_that_cannot_begin_with_so_few_descriptors_is_one_line(
    tmp_path: Path, most: int
) -> None:
    ended = up(configure(tmp_path, "single", iterations=1), most)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == (
        f"open files: `up` needs 36 for 2 processes, and this user may have {most}; raise it with "
        "`ulimit -n`\n"
    )
    assert not (tmp_path / "runs").exists()


def test_the_soft_limit_is_raised_to_what_a_run_needs(tmp_path: Path) -> None:
    command = f'ulimit -S -n 30; exec "{sys.executable}" -m runtime up cluster.toml'
    configure(tmp_path, "single", iterations=1)
    ended = subprocess.run(
        ["sh", "-c", command], capture_output=True, text=True, timeout=90, cwd=tmp_path, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize("transport", ["auto", "tcp"])
def test_a_run_trains_and_saves_with_256_descriptors_for_each_process(
    tmp_path: Path, transport: str
) -> None:
    more = f'[links]\ntransport = "{transport}"\n'
    ended = up(configure(tmp_path, "sync", workers=2, iterations=3, more=more), 256)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert list(tmp_path.rglob("checkpoint-*.safetensors"))
