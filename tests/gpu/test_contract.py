"""The contract of array backends on real CuPy, with the stand-in for CUDA: once as it is, once with
sanitizers for our kernels."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.fake_cuda.processes import on_fake_cuda, sanitized
from tests.helpers.support import ROOT

FILES = ("tests/contracts/test_backends.py", "tests/contracts/test_bfloat16_images.py")


def contract(
    which: str, env: dict[str, str], *options: str, files: Sequence[str] = FILES
) -> tuple[int, int, str]:
    """Run the contract's tests. Returns how many passed, how many had another outcome, and pytest's
    output."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        *files,
        "-k",
        which,
        "-m",
        "",
        *options,
    ]
    command += ["-n", "2", "--dist", "load", "--color=no", "--timeout=300", "-p", "no:randomly"]
    done = subprocess.run(
        command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=580, check=False
    )
    counts = {
        word: int(number)
        for number, word in re.findall((r"(\d+) " r"(passed|failed|skipped|errors?)"), done.stdout)
    }
    passed = counts.pop("passed", 0)
    return (
        passed,
        sum(counts.values()) + (done.returncode != 0),
        done.stdout[-3000:] + done.stderr[-2000:],
    )


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_cupy_fulfils_the_whole_contract_without_a_skip(stand_in: Path) -> None:
    passed, others, said = contract("cupy", on_fake_cuda(stand_in))
    assert passed > 500 and others == 0, said


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_our_kernels_touch_nothing_but_their_arrays(stand_in: Path) -> None:
    which = "cupy and (convolution or depthwise or pool or lrn or embed or gelu)"
    passed, others, said = contract(
        which, sanitized(on_fake_cuda(stand_in)), "-p", "fake_cuda.unpooled", files=FILES[:1]
    )
    assert passed > 100 and others == 0, said
