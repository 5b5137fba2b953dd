"""`python -m benchmarks.fuzz --seconds 60`: do readers of bytes from outside report bad bytes as
errors?

Each reader runs in its own process and gets inputs that a fuzzer derives from correct ones, guided
by the lines that they reach. It may raise only the errors that its docstring declares. It may not
end the process, hang, or take more memory than its bytes justify. Anything else is a failure, and
its input is kept next to the results. `--only` chooses readers, which are functions in
`benchmarks.fuzz.targets`. Needs the extra `fuzz`.
"""

from __future__ import annotations

import argparse
import re
import resource
import subprocess
import sys
import tempfile
import traceback
from base64 import b64encode
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from benchmarks.fuzz.targets import TARGETS, Target
from benchmarks.helpers.report import ROOT, Record, machine, missing, write

OURS = ["runtime", "roles", "nets", "ops"]
MOST_MEMORY = 64  # MiB over the memory after the first input
ADDRESSES = 8 << 30  # bytes: more raises MemoryError
INPUT_SECONDS = 10  # for one input; a reader that takes longer hangs
# to import everything with counted branches, on a machine with other load
BEGIN_SECONDS = 120
SHORT = 96  # bytes of an input that is printed instead of kept as a file
MEMORY_FILES = Path("/dev/shm")  # each input of a reader of files is written there


def main(arguments: list[str] | None = None) -> int:
    """Run the readers that are asked for. Returns 1 if one of them failed."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.fuzz", description="Readers of bytes, fed by a fuzzer."
    )
    parser.add_argument("--seconds", type=int, default=60, help="time for each reader")
    parser.add_argument(
        "--only", default=",".join(TARGETS), help="names of readers, separated by commas"
    )
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results")
    # the folder of the only reader in this process
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    said = parser.parse_args(arguments)
    wanted = said.only.split(",")
    if unknown := [name for name in wanted if name not in TARGETS]:
        parser.error(
            f"--only: there is no reader {', '.join(unknown)}; the readers are {', '.join(TARGETS)}"
        )
    if said.inside is not None:
        feed(said.only, said.inside, said.seconds)
    records = {name: run(name, said.seconds, said.results) for name in wanted}
    for path in write(said.results, "fuzz", machine(), records):
        print(path)
    return 1 if any(record.status == "failed" for record in records.values()) else 0


def run(name: str, seconds: int, results: Path) -> Record:
    """Run one reader in its own process. Returns its record."""
    record = Record((TARGETS[name].__doc__ or name).partition("\n")[0], facts={"seconds": seconds})
    print(f"{name}: {record.title}", flush=True)
    if missing({"atheris": "atheris"}):
        record.status = "skipped"
        record.note("skipped: atheris is not installed: pip install 'convoy-runtime[fuzz]'")
        return record
    home = MEMORY_FILES if MEMORY_FILES.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="fuzz-convoy-", dir=home) as folder:
        command = [
            sys.executable,
            "-m",
            "benchmarks.fuzz",
            "--only",
            name,
            "--seconds",
            str(seconds),
            "--inside",
            folder,
        ]
        try:
            done = subprocess.run(
                command,
                cwd=ROOT,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=seconds + BEGIN_SECONDS,
            )
        except subprocess.TimeoutExpired:
            record.fail(f"the reader did not end within {seconds + BEGIN_SECONDS} s")
            return record
        told(record, done.stdout, done.stderr, Path(folder))
        kept(record, done.stdout, Path(folder) / "failures", results / "fuzz-inputs", name)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it printed nothing"])[-1]
        record.fail(f"exit code {done.returncode}: {last}")
    if record.status == "running":
        record.status = "passed"
    return record


def told(record: Record, said: str, log: str, folder: Path) -> None:
    """Record how many inputs were tried, the branches that they reached, and the memory that they
    took."""
    numbers = {
        name: int(number)
        for name, number in re.findall(r"^stat::(\w+):\s+(\d+)$", log, re.MULTILINE)
    }
    base = re.search(r"^base (\d+)$", said, re.MULTILINE)
    if not base or not numbers.get("number_of_executed_units"):
        record.fail("no input was tried")
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
    record.judge(
        "peak memory over base, MiB", numbers["peak_rss_mb"] - int(base[1]), most=MOST_MEMORY
    )


def kept(record: Record, said: str, failures: Path, keep: Path, name: str) -> None:
    """Record each failure with its input, or with the file that holds it."""
    texts = dict(re.findall(r"^failed (\w+) (.*)$", said, re.MULTILINE))
    found = sorted(failures.iterdir()) if failures.is_dir() else []
    record.facts["failures"] = len(found)
    for path in found:
        data = path.read_bytes()
        place = keep / f"{name}-{path.name}"
        if len(data) > SHORT:
            keep.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data)
        where = (
            f"base64 {b64encode(data).decode()}"
            if len(data) <= SHORT
            else f"{place.parent.name}/{place.name}"
        )
        record.fail(f"{texts.get(path.name, path.name)} ({where})")


# -- in the process of one reader


def feed(name: str, folder: Path, seconds: int) -> None:
    """Give a reader correct inputs and the fuzzer's changes of them. Does not return: libFuzzer
    ends the process."""
    import atheris

    with atheris.instrument_imports(include=OURS):
        target = TARGETS[name](folder)
        for seed in target.seeds:  # late imports happen here
            with suppress(*target.declared):
                target.take(seed)
    corpus = folder / "corpus"
    failures = folder / "failures"
    corpus.mkdir()
    for number, seed in enumerate(target.seeds):
        (corpus / f"seed-{number}").write_bytes(seed)
    options = {
        "max_total_time": seconds,
        "timeout": INPUT_SECONDS,
        "max_len": max(4096, *map(len, target.seeds)),
        "print_final_stats": 1,
        "artifact_prefix": f"{failures}/",
    }
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES))
    written = [f"-{key}={value}" for key, value in options.items()]
    atheris.Setup([name, str(corpus), *written], Guard(target, failures))
    atheris.Fuzz()


class Guard:
    """Gives inputs to a target, and continues after every error. An error that is not declared, or
    too much memory, is printed in a line. The first input of each kind is kept in the folder."""

    def __init__(self, target: Target, folder: Path) -> None:
        self._target = target
        self._folder = folder
        folder.mkdir(exist_ok=True)
        self._known: set[str] = set()
        self._base = 0  # MiB after the first input

    def __call__(self, data: bytes) -> None:
        """Take one input."""
        try:
            self._target.take(data)
        except self._target.declared:
            pass
        except Exception as error:  # the fuzzer continues after any error
            frame = traceback.extract_tb(error.__traceback__)[-1]
            kind = f"{type(error).__name__} in {Path(frame.filename).name}:{frame.lineno}"
            self._tell(kind, f"{kind}: {error}", data)
        most = peak()
        if not self._base:
            self._base = most
            print(f"base {most}", flush=True)
        elif most - self._base > MOST_MEMORY:
            self._tell("memory", f"{most - self._base} MiB over base", data)

    def _tell(self, kind: str, text: str, data: bytes) -> None:
        if kind not in self._known:
            self._known.add(kind)
            name = sha256(data).hexdigest()[:16]
            (self._folder / name).write_bytes(data)
            print(f"failed {name} {' '.join(text.split())[:200]}", flush=True)


def peak() -> int:
    """The largest resident memory of this process so far, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
