"""Benchmarks of bfloat16 on a processor without fast products in it, which narrow vectors stand for,
and a measurement that did not end."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.helpers.report import Record
from benchmarks.helpers.rounding import no_bfloat16
from benchmarks.training import training

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = (
    "kernels.products",
    "kernels.sequences",
    "kernels --nets depthwise --precision fast bf16",
    "training --nets lenet --precision bf16",
)


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch, the peer")
@pytest.mark.parametrize("command", COMMANDS)
def test_a_benchmark_of_bfloat16_says_in_one_line_that_the_processor_lacks_it(
    command: str, tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *f"benchmarks.{command} --results".split(), str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "CONVOY_VECTOR_BITS": "256"},
        capture_output=True,
        text=True,
        check=False,
    )
    (line,) = done.stdout.splitlines()
    assert line.startswith("not measured: products in bfloat16: ")
    assert (done.returncode, done.stderr, list(tmp_path.iterdir())) == (1, "", [])


def test_vectors_that_the_user_narrowed_are_named_as_the_reason() -> None:
    assert "--vector-bits 256 excludes" in no_bfloat16(256)


def test_a_measurement_whose_process_died_counts_as_failed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(training, "run_apart", lambda *_: Record("1 threads"))  # still running
    arguments = ["--nets", "lenet", "--threads", "1", "--beside", "numpy"]
    assert training.main([*arguments, "--results", str(tmp_path)]) == 1
