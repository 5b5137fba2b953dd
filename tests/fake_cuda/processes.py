"""Processes in which CuPy runs on the stand-in: their environment, scripts, runs of `up`, the
sanitizers."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from ops.cache import cache_folder
from ops.cpu.codegen.store import VARIABLE
from tests.fake_cuda.build import COMPILER, Unavailable, built, site
from tests.helpers.support import ROOT, environment

TIMEOUT = 300  # seconds


def here(*, build: bool) -> Path:
    """Return the stand-in's folder. Skips the test, with the reason, if the stand-in cannot be
    built here. If `build` is false, also skips when it is not built yet, since a build takes a
    minute."""
    if (made := built()) is not None:
        return made
    if not build:
        pytest.skip("CuPy without a GPU is not built here (a minute): python -m tests.fake_cuda")
    try:
        return site()
    except Unavailable as missing:
        pytest.skip(f"no CuPy without a GPU: {missing}")


def on_fake_cuda(folder: Path, **settings: object) -> dict[str, str]:
    """The environment of a process on the stand-in. Settings: devices=2, memory_gb=0.5,
    pinned_gb=0, start_seconds=5, driver=12040, vanish_after=100, seed=1 (of the order of queued
    work)."""
    found = environment()
    path = os.pathsep.join([str(folder), found["PYTHONPATH"]])
    chosen = {f"FAKE_CUDA_{name.upper()}": str(value) for name, value in settings.items()}
    # the driver must be found before cupy is imported, and kernels need the headers
    places = {"LD_LIBRARY_PATH": folder / "fake_cuda", "CUDA_PATH": folder / "nvidia" / "cu13"}
    # choices of cuDNN are kept there: those of one test are not for another, compiled kernels are
    caches = {
        VARIABLE: os.environ.get(VARIABLE) or str(cache_folder("kernels")),
        "XDG_CACHE_HOME": tempfile.mkdtemp(),
    }
    return (
        found
        | chosen
        | caches
        | {name: str(place) for name, place in places.items()}
        | {"PYTHONPATH": path}
    )


def with_cudnn(folder: Path, env: dict[str, str], fault: str = "") -> dict[str, str]:
    """The same environment with a cuDNN that NVIDIA's frontend finds. `fault` is a fault to
    simulate; `tests.fake_cudnn` lists them."""
    libraries = os.pathsep.join([str(folder / "fake_cudnn"), env["LD_LIBRARY_PATH"]])
    return env | {"LD_LIBRARY_PATH": libraries, "FAKE_CUDNN": fault}


def sanitized(env: dict[str, str]) -> dict[str, str]:
    """The same environment with sanitizers for our kernels. Their libraries must be the first that
    the process loads."""
    found = [_said(COMPILER, f"-print-file-name=lib{name}.so") for name in ("asan", "ubsan")]
    if not all(map(os.path.isabs, found)):
        pytest.skip(f"{COMPILER} has no address or no undefined behaviour sanitizer")
    # Python itself leaks, and the sanitizers do not recognise a fiber's stack
    options = "detect_leaks=0:detect_stack_use_after_return=0"
    return env | {"FAKE_CUDA_SANITIZE": "1", "LD_PRELOAD": " ".join(found), "ASAN_OPTIONS": options}


def script(code: str, env: dict[str, str], *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run Python code to its end."""
    return command(["-c", code, *map(str, arguments)], env)


def command(
    arguments: list[str], env: dict[str, str], cwd: Path = ROOT
) -> subprocess.CompletedProcess[str]:
    """Run Python with these arguments to its end."""
    words = [sys.executable, *arguments]
    return subprocess.run(
        words, cwd=cwd, env=env, capture_output=True, text=True, timeout=TIMEOUT, check=False
    )


def _said(*words: str) -> str:
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
