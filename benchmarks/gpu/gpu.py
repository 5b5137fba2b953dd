"""`python -m benchmarks.gpu`: everything a GPU must show, in under nine minutes, into
benchmarks/results.

This file has the parts, the packages that they need and their time budgets. Each part has its own
process: one that fails, hangs or runs out of time does not stop the others, and the results are
written after each. Packages that a machine without a registry lacks come from `benchmarks/wheels`,
a folder that is copied with the tree (`python -m benchmarks.gpu_wheels` fills it). Exit codes: 0
everything that ran passed, 1 something failed, 3 no GPU. `--rehearse` runs small sizes on a GPU, on
its stand-in, or on NumPy, whichever the machine has.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from benchmarks import gpu_wheels
from benchmarks.helpers.command_line import parser_of
from benchmarks.helpers.report import ROOT, Record, machine, missing, write, written

NET = {
    "google.protobuf": "protobuf>=6.31",
    "safetensors": "safetensors",
    "msgpack": "msgpack",
    "msgspec": "msgspec",
}
RUNTIME = NET | {
    "zmq": "pyzmq",
    "prometheus_client": "prometheus-client",
    "pydantic": "pydantic",
    "cyclopts": "cyclopts>=5",
    "rich": "rich",
    "threadpoolctl": "threadpoolctl",
}
NO_GPU = 3
START_SECONDS = 20  # of driver and libraries, before the parts


@dataclass(frozen=True)
class Plan:
    """A part's title, its budget in seconds, the packages that it needs as {module: distribution},
    and the place of its function."""

    title: str
    seconds: int
    needs: dict[str, str]
    where: str  # module of this folder:function
    usual: bool = True  # false: only if it is named


PLANS = {
    "facts": Plan("Machine, and the driver's start", 30, {}, "parts:facts"),
    "runs": Plan("Training through `up`, twice each", 65, RUNTIME, "runs:runs"),
    "two-workers": Plan("Two workers on one card", 110, RUNTIME, "two_workers:two_workers"),
    "convolutions": Plan("Every convolution of five nets", 60, NET, "convolutions:convolutions"),
    "speed": Plan("Images a second beside PyTorch", 160, RUNTIME, "steps:speed"),
    "replays": Plan("Training steps, replayed and as graphs", 30, RUNTIME, "replays:replays"),
    "compiled": Plan("Beside torch.compile", 150, RUNTIME, "steps:compiled", usual=False),
    "growth": Plan("No growth over 2 000 steps", 15, RUNTIME, "steps:growth"),
    "contract": Plan("Contract of array backends", 45, {"pytest": "pytest"}, "parts:contract"),
}  # 515 seconds in all, without `compiled`
USUAL = [name for name, plan in PLANS.items() if plan.usual]


def main(arguments: list[str] | None = None) -> int:
    """Run every part, or the one in `--part`. Returns the exit code."""
    parser = parser_of("gpu", __doc__)
    parser.add_argument(
        "--rehearse",
        action="store_true",
        help=("small sizes, also without a GPU, to test this command"),
    )
    parser.add_argument(
        "--results",
        type=Path,
        default=ROOT / "benchmarks" / "results",
        help="folder of the results",
    )
    parser.add_argument("--only", choices=PLANS, nargs="+", help="only these parts")
    parser.add_argument(
        "--go-on",
        action="store_true",
        help="leave out the parts that the results have as passed, from this commit",
    )
    parser.add_argument("--part", choices=PLANS, help=argparse.SUPPRESS)
    parser.add_argument("--into", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if absent := missing({"numpy": "numpy"}):
        print(
            f"missing: {', '.join(absent)}; install it with: python -m pip install {' '.join(absent)}"
        )
        return 1
    if given.part:
        return run_here(given.part, given.into, rehearse=given.rehearse)
    with tempfile.TemporaryDirectory(prefix="convoy-wheels-", ignore_cleanup_errors=True) as folder:
        note = gpu_wheels.unpack(Path(folder))
        if note:
            print(note)
        if not given.rehearse and (reason := without_gpu()):
            print(
                f"no GPU: {reason} (python -m benchmarks.gpu --rehearse tests the command "
                "without one)"
            )
            return NO_GPU
        name = "rehearsal" if given.rehearse else "gpu"
        parts = given.only or USUAL
        if given.go_on:
            parts = [part for part in parts if part not in passed(given.results, name)]
        return run_all(parts, given.results, name, rehearse=given.rehearse)


def without_gpu() -> str | None:
    """The reason why the CuPy backend cannot run here, or None. The driver is started in another
    process, so that `facts` can time its start in its own."""
    code = "from ops import get_backend; get_backend('cupy')"
    command = [sys.executable, "-c", code]
    try:
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=START_SECONDS
        )
    except subprocess.TimeoutExpired:
        return f"the driver or its libraries have not started within {START_SECONDS} s"
    return (
        None
        if done.returncode == 0
        else (done.stderr.strip().splitlines() or ["?"])[-1].rpartition("OpsError: ")[2]
    )


def passed(directory: Path, name: str) -> set[str]:
    """The parts that the results in a folder have as passed, from this commit."""
    known = machine()
    return {
        part
        for part, record in written(directory, name, known).items()
        if record.status == "passed" and record.machine.get("commit") == known["commit"]
    }


def run_all(names: list[str], directory: Path, name: str, *, rehearse: bool) -> int:
    """Run the parts one after the other and write the results, of this name, after each."""
    known = machine()
    records = {}
    began = time.monotonic()
    with tempfile.TemporaryDirectory(
        prefix="convoy-benchmark-", ignore_cleanup_errors=True
    ) as folder:
        for part in names:
            records[part] = run_apart(part, Path(folder, f"{part}.json"), rehearse=rehearse)
            known["seconds"] = round(time.monotonic() - began, 1)
            print("results:", *write(directory, name, known, records))
    for part, record in records.items():
        print(f"{record.status:8} {PLANS[part].title}")
    print(f"{len(records)} parts ({known.get('seconds', 0)} s)")
    return int(any(record.status == "failed" for record in records.values()))


def run_apart(part: str, path: Path, *, rehearse: bool) -> Record:
    """Run a part in its own process within its budget. Returns its record."""
    plan = PLANS[part]
    print(f"{plan.title} (at most {plan.seconds} s)", flush=True)
    Record(plan.title, path=path).save()
    if absent := missing(plan.needs):
        record = Record(plan.title, "skipped", path=path)
        named = " ".join(f"'{name}'" for name in absent)
        record.note(f"missing: {', '.join(absent)}; install with: python -m pip install {named}")
        return record
    command = [sys.executable, "-m", "benchmarks.gpu", "--part", part, "--into", str(path)]
    process = subprocess.Popen(
        command + ["--rehearse"] * rehearse, cwd=ROOT, start_new_session=True
    )
    began = time.monotonic()
    try:
        process.wait(plan.seconds)
        ended = f"ended with {process.returncode}"
    except subprocess.TimeoutExpired:
        ended = f"out of time after {plan.seconds} s; the results until then are kept"
    finally:
        _end(process)
    record = Record.load(path)
    record.path = path
    record.facts["seconds"] = round(time.monotonic() - began, 1)
    if record.status == "running":
        if part == "contract" and path.with_suffix(".log").is_file():
            from benchmarks.gpu.parts import counted

            counted(record, path.with_suffix(".log"))
        record.fail(ended)
    return record


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a part and its children: with SIGTERM first, so that a run can end its own processes."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            break
        try:
            process.wait(3)
        except subprocess.TimeoutExpired:
            continue
    process.wait()


def run_here(part: str, path: Path, *, rehearse: bool) -> int:
    """Run a part in this process. An exception is noted in its record."""
    record = Record.load(path)
    record.path = path
    try:
        from benchmarks.gpu.sizes import WHOLE, rehearsal

        module, _, name = PLANS[part].where.partition(":")
        measure = getattr(import_module(f"benchmarks.gpu.{module}"), name)
        measure(record, rehearsal() if rehearse else WHOLE)
    except Exception:
        record.fail(f"```\n{traceback.format_exc()[-3000:]}```")
    if record.status == "running":
        record.status = "passed"
    record.save()
    return int(record.status == "failed")
