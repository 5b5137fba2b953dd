"""`check` says how GPUs multiply in a run that leaves the precision to the default."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.runs.checking import check
from tests.helpers.support import configure

CASES = {
    "default on a gpu": ('devices = { "*" = "cuda:0" }\n', True),
    "exact on a gpu": ('precision = "exact"\ndevices = { "*" = "cuda:0" }\n', False),
    "default on a cpu": ("", False),
}


@pytest.mark.parametrize("case", CASES)
def test_a_run_on_gpus_is_told_that_its_convolutions_use_tf32(case: str, tmp_path: Path) -> None:
    lines, expected = CASES[case]
    cluster = configure(tmp_path, "single")
    text = cluster.read_text().replace('precision = "exact"\n', "")
    cluster.write_text(text.replace("[train]\n", f"[train]\n{lines}"))
    notes = check(cluster, starts=False).notes
    assert any("TF32 in convolutions" in line for line in notes) is expected
