"""Whole files that are written in one step: their mode, and what stays after a failure."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from nets.files.binary import replacing


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600)])
def test_a_written_file_has_the_mode_of_any_new_file(tmp_path: Path, umask: int, mode: int) -> None:
    before = os.umask(umask)
    try:
        with replacing(tmp_path / "features.csv") as temporary:
            temporary.write_text("1\n")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "features.csv").stat().st_mode) == mode


def test_a_failure_leaves_the_file_that_was_there_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "features.csv"
    path.write_text("old\n")
    with pytest.raises(RuntimeError), replacing(path) as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert path.read_text() == "old\n"
    assert [each.name for each in tmp_path.iterdir()] == ["features.csv"]
