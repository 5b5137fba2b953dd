"""Two parts of the GPU benchmark: facts about the machine, and the contract of array backends."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.gpu.sizes import Sizes
from benchmarks.helpers.report import ROOT, Record, missing
from ops import get_backend


def facts(record: Record, sizes: Sizes) -> None:
    """Record the GPU, its driver and the libraries, and the seconds until they have started. One
    product checks that they work."""
    if sizes.backend == "cupy":
        _timed(record, "import of cupy, seconds", _import_cupy)
    backend = _timed(
        record, "start of driver and context, seconds", lambda: get_backend(sizes.backend)
    )
    if sizes.backend == "cupy":
        record.facts |= _gpu_facts(backend.xp)
    ones = backend.asarray(np.ones((256, 256), np.float32))
    total = _timed(
        record,
        "first product and sum, with cuBLAS's start and a compilation, seconds",
        lambda: float(backend.to_host(backend.xp.sum(backend.xp.matmul(ones, ones)))),
    )
    if total != 256.0**3:
        record.fail(f"a product of ones sums to {total}, expected {256.0**3}")


def _import_cupy() -> None:
    import cupy  # type: ignore[import-not-found,unused-ignore]  # noqa: F401


def _timed(record: Record, what: str, work: Any) -> Any:
    start = time.perf_counter()
    found = work()
    record.facts[what] = round(time.perf_counter() - start, 3)
    record.save()
    return found


def contract(record: Record, sizes: Sizes) -> None:
    """Run the contract of array backends on this backend, with pytest. If time runs out, the
    outcomes so far are kept."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "tests/contracts/test_backends.py",
        "-k",
        sizes.contract,
        "-m",
        "",
    ]
    command += [*_pytest_options(sizes.processes), "-v", "--tb=short", "--maxfail=40", "--color=no"]
    assert record.path is not None
    log = record.path.with_suffix(".log")
    with log.open("w") as file:
        done = subprocess.run(command, cwd=ROOT, stdout=file, stderr=subprocess.STDOUT, check=False)
    counted(record, log)
    if done.returncode != 0:
        record.fail(f"pytest ended with {done.returncode}:\n\n```\n{log.read_text()[-3000:]}\n```")


OUTCOME = re.compile(
    r"^(?:\[gw\d+\] \[ *\d+%\] (?P<first>[A-Z]+) (?P<test>\S.*?)|(?P<name>\S.*?) "
    r"(?P<last>[A-Z]+)\b.*) *$"
)


def counted(record: Record, log: Path) -> None:
    """Count the outcomes in pytest's verbose output, from one process or several, and name the
    tests that failed. The log may be cut off."""
    outcomes = []
    for line in log.read_text().splitlines():
        if (found := OUTCOME.match(line)) and "::" in line:
            outcome = found["first"] or found["last"]
            if outcome in ("PASSED", "FAILED", "ERROR", "SKIPPED"):
                outcomes.append((found["test"] or found["name"], outcome))
    record.facts |= {
        name.lower(): sum(o == name for _, o in outcomes)
        for name in ("PASSED", "FAILED", "SKIPPED")
    }
    record.notes += [
        f"failed: {test.rpartition('::')[2]}" for test, o in outcomes if o in ("FAILED", "ERROR")
    ]
    if not record.facts["passed"] and record.status != "failed":
        record.fail("no test ran")
    record.save()


def _pytest_options(processes: int) -> list[str]:
    """The project's settings if their plugins are installed, else none: the contract needs only
    pytest."""
    # CuPy's warnings about speed are not failures
    options = ["-p", "no:cacheprovider", "-o", "filterwarnings=default"]
    if missing(dict.fromkeys(("pytest_asyncio", "pytest_timeout", "hypothesis"), "")):
        return [*options, "-c", os.devnull, "--rootdir", str(ROOT), "--noconftest"]
    several = (
        ["-n", str(processes), "--dist", "load"] if processes and not missing({"xdist": ""}) else []
    )
    return [*options, "-o", "addopts=", *several]


def _gpu_facts(cupy: Any) -> dict[str, Any]:
    runtime = cupy.cuda.runtime
    device = cupy.cuda.Device()
    properties = runtime.getDeviceProperties(device.id)
    name, (free, total) = properties["name"], device.mem_info
    return {
        "GPU": name.decode() if isinstance(name, bytes) else name,
        "memory, GiB (free, total)": (round(free / 2**30, 1), round(total / 2**30, 1)),
        "multiprocessors": properties["multiProcessorCount"],
        "compute capability": device.compute_capability,
        "CUDA of the driver": runtime.driverGetVersion(),
        "driver": _driver(),
        "CUDA runtime": runtime.runtimeGetVersion(),
        "CuPy": cupy.__version__,
        "cuBLAS": _cublas(),
        "PyTorch": _torch(),
    }


def _driver() -> str:
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        return subprocess.run(
            query, capture_output=True, text=True, timeout=10, check=True
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError) as error:
        return f"unknown ({type(error).__name__})"


def _cublas() -> str:
    """cuBLAS's version. It comes from private modules of CuPy, so an error is only recorded."""
    try:
        from cupy.cuda.device import get_cublas_handle  # type: ignore[import-not-found,unused-ignore]
        from cupy_backends.cuda.libs import cublas  # type: ignore[import-not-found,unused-ignore]

        return str(cublas.getVersion(get_cublas_handle()))
    except Exception as error:
        return f"unknown ({type(error).__name__}: {error})"


def _torch() -> str:
    if missing({"torch": ""}):
        return "not here"
    try:
        import torch
    except Exception as error:
        return f"cannot be imported ({type(error).__name__}: {error})"
    return (
        f"{torch.__version__}, cuDNN {torch.backends.cudnn.version()}, sees a GPU: "
        f"{torch.cuda.is_available()}"
    )
