"""Benchmarks with narrowed vectors: all sides are narrowed, and the results say so in files of
their own."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.helpers.narrowing import LIBRARIES, narrowed, narrowing
from benchmarks.helpers.report import ROOT, Record, machine, write
from ops.cpu.codegen.target import host


def output_of(code: str, bits: int) -> str:
    """The output of Python code in a process whose vectors are narrowed."""
    command = [sys.executable, "-c", code]
    environment = {**os.environ, **narrowing(bits)}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.mark.parametrize("bits", LIBRARIES)
def test_kernels_have_no_wider_vectors_than_the_narrowed_process_may_use(bits: int) -> None:
    code = "from ops.cpu.codegen.target import host; print(host().bits)"
    assert int(output_of(code, bits)) <= bits


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs PyTorch")
def test_pytorch_reports_the_instructions_that_are_left_to_it() -> None:
    code = "import torch; print(torch.backends.cpu.get_cpu_capability())"
    assert output_of(code, 256) in ("AVX2", "DEFAULT")
    assert output_of(code, 128) == "DEFAULT"


def test_results_of_a_narrowed_machine_leave_those_of_machines_of_that_width(
    tmp_path: Path,
) -> None:
    own, wide = ({**machine(), "vectors": f"{bits} bits"} for bits in (256, 512))
    kept = [path.read_bytes() for path in write(tmp_path, "training", own, {"a": Record("a")})]
    as_json, as_text = write(tmp_path, "training", narrowed(wide, 256), {"a": Record("a")})
    assert as_json.name == "training-narrowed-to-256-bits.json"
    assert "vectors narrowed to 256 bits" in as_text.read_text()
    assert [
        tmp_path.joinpath(f"training-avx2.{kind}").read_bytes() for kind in ("json", "md")
    ] == kept


@pytest.mark.parametrize("bits", [256, 512])
def test_a_machine_whose_vectors_are_no_wider_is_not_called_narrowed(bits: int) -> None:
    found = {"vectors": "256 bits"}
    assert narrowed(found, bits) == found


@pytest.mark.slow  # compiles kernels for other vectors
@pytest.mark.skipif(host().bits == 128, reason="this processor has no wider vectors")
def test_a_narrowed_benchmark_of_training_writes_its_results_under_their_own_name(
    tmp_path: Path,
) -> None:
    command = [sys.executable, "-m", "benchmarks.training", "--beside", "numpy", "--nets", "lenet"]
    command += ["--threads", "1", "--seconds", "0.1", "--vector-bits", "128"]
    subprocess.run([*command, "--results", str(tmp_path)], cwd=ROOT, check=False)
    (as_text,) = tmp_path.glob("*.md")
    assert as_text.name == "training-fast-beside-numpy-narrowed-to-128-bits.md"
    assert as_text.name == "training-fast-beside-numpy-narrowed-to-128-bits.md"
    assert "bits of a vector: 128" in as_text.read_text()
