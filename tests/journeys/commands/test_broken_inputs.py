"""300 broken inputs and the answers of `check`: no traceback, no long wait, no unlimited memory,
and no control characters for the terminal. Inputs that `check` accepts are run by `up`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("h5py")
pytest.importorskip("lmdb")
pytest.importorskip("PIL.Image")

from tests.helpers.broken_inputs import KINDS
from tests.helpers.support import ROOT, environment

EACH = 15  # inputs of each of 20 kinds; 300 in all
SECONDS = 5.0  # the promised limit, in processor time
MEGABYTES = 1000.0
DIVERGED = 1


def examined(directory: Path, cases: list[str]) -> list[dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.helpers.checked", str(directory), *cases],
        cwd=ROOT, env=environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) == len(cases)
    return found


def complaints(found: dict[str, Any]) -> list[str]:
    """The faults in the answers to an input."""
    check = found["check"]
    up = found["up"]
    lines = check["said"].splitlines()
    rules = {
        "not refused, not passed": check["status"] not in (0, 2),
        "a traceback": "Traceback" in check["said"],
        "too slow": check["seconds"] > SECONDS,
        "too large": check["megabytes"] > MEGABYTES,
        "refused without a word": check["status"] == 2 and not check["said"].strip(),
        "an endless line": max(map(len, lines), default=0) > 2200,
        "a control character": not all(line.isprintable() for line in lines),
        "passed, and refused by up": up is not None
        and up["status"] != 0
        and "training diverged" not in up["said"],
        "a control character of up": up is not None
        and not all(line.isprintable() for line in up["said"].splitlines()),
    }
    return [rule for rule, broken in rules.items() if broken]


def judged(found: list[dict[str, Any]]) -> None:
    bad = {
        f"{one['kind']}:{one['number']}": (complaints(one), one) for one in found if complaints(one)
    }
    assert bad == {}
    refused = sum(one["check"]["status"] == 2 for one in found)
    assert refused >= len(found) // 2  # most of the inputs are really broken


def test_a_broken_input_of_each_kind_is_refused_in_words_or_run(tmp_path: Path) -> None:
    judged(examined(tmp_path, [f"{kind}:0" for kind in KINDS]))


@pytest.mark.slow
@pytest.mark.timeout(600)  # 300 checks and more than a hundred runs, one after the other
def test_300_broken_inputs_are_refused_in_words_or_run(tmp_path: Path) -> None:
    found = examined(tmp_path, [f"{kind}:{number}" for kind in KINDS for number in range(EACH)])
    assert len(found) == 300
    judged(found)
