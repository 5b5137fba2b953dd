"""`python -m benchmarks.fuzz --seconds 60`: does whatever reads bytes that anybody may have written say so in words?

Each reader gets, in a process of its own, what a fuzzer makes of inputs that are right, guided by the lines that they
reach. It may raise the errors that its docstring declares, no other; it may not end the process, hang, or take more
memory than its bytes are worth. A reader that does is a failure, and the input is kept beside the results.
`--only` chooses among them; `benchmarks.fuzz_targets` says what they are. Needs the extra `fuzz`.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from base64 import b64encode
from pathlib import Path

from benchmarks.fuzz_targets import MOST_MEMORY, TARGETS
from benchmarks.report import ROOT, Record, machine, missing, write

BEGIN_SECONDS = 120  # to import everything, its branches counted, on a machine that does other things too
SHORT = 96  # bytes of an input that is told instead of kept
MEMORY_FILES = Path("/dev/shm")  # each input of a reader of files is written there


def main(arguments: list[str] | None = None) -> int:
    """Do all that is asked for; 1 if something failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fuzz", description="Bytes that nobody has meant.")
    parser.add_argument("--seconds", type=int, default=60, help="of each reader")
    parser.add_argument("--only", default=",".join(TARGETS), help="readers, with commas between them")
    parser.add_argument("--results", type=Path, default=Path(__file__).with_name("results"))
    said = parser.parse_args(arguments)
    wanted = said.only.split(",")
    if unknown := [name for name in wanted if name not in TARGETS]:
        parser.error(f"--only: no reader is called {', '.join(unknown)}; there are {', '.join(TARGETS)}")
    records = {name: run(name, said.seconds, said.results) for name in wanted}
    for path in write(said.results, "fuzz", machine(), records):
        print(path)
    return 1 if any(record.status == "failed" for record in records.values()) else 0


def run(name: str, seconds: int, results: Path) -> Record:
    """One reader."""
    record = Record((TARGETS[name].__doc__ or name).partition("\n")[0], facts={"seconds": seconds})
    print(f"{name}: {record.title}", flush=True)
    if missing({"atheris": "atheris"}):
        record.status = "skipped"
        record.note("skipped: atheris is not installed: pip install 'convoy-runtime[fuzz]'")
        return record
    home = MEMORY_FILES if MEMORY_FILES.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="convoy-fuzz-", dir=home) as folder:
        command = [sys.executable, "-m", "benchmarks.fuzz_targets", name, folder, "--seconds", str(seconds)]
        try:
            done = subprocess.run(
                command, cwd=ROOT, capture_output=True, text=True, errors="replace", timeout=seconds + BEGIN_SECONDS
            )
        except subprocess.TimeoutExpired:
            record.fail(f"it did not end within {seconds + BEGIN_SECONDS} s")
            return record
        told(record, done.stdout, done.stderr, Path(folder))
        kept(record, done.stdout, Path(folder) / "failures", results / "fuzz-inputs", name)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        record.fail(f"exit code {done.returncode}: {last}")
    if record.status == "running":
        record.status = "passed"
    return record


def told(record: Record, said: str, log: str, folder: Path) -> None:
    """Put down how much was tried, what it reached, and the memory it took."""
    numbers = {name: int(number) for name, number in re.findall(r"^stat::(\w+):\s+(\d+)$", log, re.MULTILINE)}
    base = re.search(r"^base (\d+)$", said, re.MULTILINE)
    if not base or not numbers.get("number_of_executed_units"):
        record.fail("nothing was tried")
        return
    reached = re.findall(r"cov: (\d+) ft: (\d+)", log)
    inputs = [path.name for path in (folder / "corpus").iterdir()]
    record.facts |= {
        "executions": numbers["number_of_executed_units"],
        "executions a second": numbers["average_exec_per_sec"],
        "branches reached": int(reached[-1][0]) if reached else 0,
        "features reached": int(reached[-1][1]) if reached else 0,
        "inputs at first": sum(name.startswith("seed-") for name in inputs),
        "inputs in the end": len(inputs),
        "base MiB": int(base[1]),
    }
    record.judge("peak memory over base, MiB", numbers["peak_rss_mb"] - int(base[1]), most=MOST_MEMORY)


def kept(record: Record, said: str, failures: Path, keep: Path, name: str) -> None:
    """Tell of each failure, with its input, or where that is kept."""
    texts = dict(re.findall(r"^failed (\w+) (.*)$", said, re.MULTILINE))
    found = sorted(failures.iterdir()) if failures.is_dir() else []
    record.facts["failures"] = len(found)
    for path in found:
        data, place = path.read_bytes(), keep / f"{name}-{path.name}"
        if len(data) > SHORT:
            keep.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data)
        where = f"base64 {b64encode(data).decode()}" if len(data) <= SHORT else f"{place.parent.name}/{place.name}"
        record.fail(f"{texts.get(path.name, path.name)} ({where})")


if __name__ == "__main__":
    sys.exit(main())
