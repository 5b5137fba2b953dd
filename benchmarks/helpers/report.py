"""Records of benchmarks: facts about the machine, medians, results that are saved while they grow,
JSON and tables.

A result is named by its benchmark and the width of the processor's vectors, as in `messages-avx2`.
A new run replaces the parts that it measured. The other parts stay, each with the day, the commit
and the machine of its own run.
"""

from __future__ import annotations

import importlib.util
import json
import math
import os
import platform
import re
import subprocess
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SETTLE = 0.02  # seconds
WIDTHS = {"512 bits": "avx512", "256 bits": "avx2"}
VERSIONS = (
    "numpy",
    "cupy-cuda13x",
    "cupy-cuda12x",
    "torch",
    "pyzmq",
    "msgpack",
    "protobuf",
    "safetensors",
    "pydantic",
)


@dataclass
class Table:
    """Rows under headers; cells are numbers or text."""

    title: str
    headers: list[str]
    rows: list[list[Any]] = field(default_factory=list)

    def markdown(self) -> str:
        """The table as Markdown, numbers with four digits."""
        lines = [
            self.headers,
            ["---"] * len(self.headers),
            *([shown(cell) for cell in row] for row in self.rows),
        ]
        return f"**{self.title}**\n\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines)


@dataclass
class Record:
    """The results of one part of a benchmark. `save` after every row, so that a part that is cut
    off leaves the rows that it has."""

    title: str
    status: str = "running"  # then passed, failed or skipped
    notes: list[str] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    tables: list[Table] = field(default_factory=list)
    path: Path | None = None
    machine: dict[str, Any] = field(default_factory=dict)  # where and when it was measured

    def content(self) -> dict[str, Any]:
        """The record as plain data, without its path."""
        return {key: value for key, value in asdict(self).items() if key != "path"}

    @staticmethod
    def of(content: dict[str, Any]) -> Record:
        """The record with this `content`."""
        return Record(**content | {"tables": [Table(**table) for table in content["tables"]]})

    def save(self) -> None:
        """Write the record to its path, if it has one."""
        if self.path is not None:
            self.path.write_text(json.dumps(self.content(), indent=1, default=str) + "\n")

    @staticmethod
    def load(path: Path) -> Record:
        """Read a record that `save` wrote."""
        return Record.of(json.loads(path.read_text()))

    def table(self, title: str, *headers: str) -> Table:
        """Begin a table."""
        self.tables.append(Table(title, list(headers)))
        return self.tables[-1]

    def row(self, *cells: Any) -> None:
        """Add a row to the last table, print it and save the record."""
        self.tables[-1].rows.append(list(cells))
        print("  " + "  ".join(shown(cell) for cell in cells), flush=True)
        self.save()

    def fail(self, note: str) -> None:
        """Mark the record as failed, with a note that says why."""
        self.status = "failed"
        self.note(note)

    def note(self, text: str) -> None:
        """Add a note to the record, print it and save the record."""
        self.notes.append(text)
        print("  " + text, flush=True)
        self.save()

    def judge(
        self, what: str, found: float, *, least: float = -math.inf, most: float = math.inf
    ) -> None:
        """Note whether `found` meets its bar, `least` or `most`. A missed bar fails the record."""
        bar = f"at least {least:g}" if math.isfinite(least) else f"at most {most:g}"
        if least <= found <= most:
            self.note(f"{what}: {found:.3g}, bar {bar}")
        else:
            self.fail(f"MISSED {what}: {found:.3g}, bar {bar}")

    def markdown(self) -> str:
        """A section of Markdown: title, status, machine and day, notes, facts, tables."""
        parts = [f"## {self.title}: {self.status}"]
        if self.machine:
            parts.append(
                "Measured: "
                + ", ".join(f"{key} {value}" for key, value in self.machine.items())
                + "."
            )
        parts += self.notes
        if self.facts:
            parts.append("\n".join(f"- {key}: {value}" for key, value in self.facts.items()))
        return "\n\n".join([*parts, *(table.markdown() for table in self.tables)])


def shown(cell: Any) -> str:
    """A number with four digits; any other cell as text, without the character that ends a cell."""
    text = f"{cell:.4g}" if isinstance(cell, float) else str(cell)
    return text.replace("|", "/")


def seconds_of(
    work: Callable[[], object],
    *,
    repeats: int,
    warmup: int = 1,
    synchronize: Callable[[], None] = lambda: None,
) -> float:
    """Median seconds of `work`; `synchronize` waits for the device before the clock is read."""
    for _ in range(warmup):
        work()
    taken = []
    for _ in range(repeats):
        synchronize()
        start = time.perf_counter()
        work()
        synchronize()
        taken.append(time.perf_counter() - start)
    return median(taken)


def rounds(
    sides: dict[str, Callable[[], object]], seconds: float, *, least: int, most: int
) -> dict[str, list[float]]:
    """The seconds of each side, one entry a round. A side's entry is the median of a few runs in a
    row; then the next side has its turn.

    Runs for `seconds`, with at least `least` and at most `most` rounds. Between turns nothing runs
    for SETTLE: OpenMP's threads wait spinning (2 to 4 ms measured), and with as many threads as
    cores the next side would share its cores with them.
    """
    taken: dict[str, list[float]] = {label: [] for label in sides}
    for work in sides.values():
        work()
    began = time.perf_counter()
    done = 0
    while done < least or (time.perf_counter() - began < seconds and done < most):
        done += 1
        for label, work in sides.items():
            time.sleep(SETTLE)
            runs = []
            for _ in range(_burst(taken[label])):
                start = time.perf_counter()
                work()
                runs.append(time.perf_counter() - start)
            taken[label].append(median(runs))
    return taken


def medians(taken: dict[str, list[float]]) -> dict[str, float]:
    """The median of each side's seconds."""
    return {label: median(times) for label, times in taken.items()}


def ratio(theirs: list[float], ours: list[float]) -> float:
    """How many times faster our side is: the median of the ratios of the rounds.

    A shared machine changes its speed by a third for seconds at a time. Both sides of one round are
    affected alike, but the two medians of all rounds need not come from the same time.
    """
    return median(their / our for their, our in zip(theirs, ours, strict=True))


def gain(taken: dict[str, list[float]], ours: str = "convoy") -> float:
    """How many times faster our side is than the best other side, by `ratio`."""
    times = medians({label: found for label, found in taken.items() if label != ours})
    return ratio(taken[min(times, key=times.__getitem__)], taken[ours])


def _burst(times: list[float]) -> int:
    """The number of runs in a row before the next side's turn: about 0.05 s, so that each side
    finds its own data in the caches."""
    return max(1, min(20, int(0.05 / median(times)))) if times else 1


def missing(modules: dict[str, str]) -> list[str]:
    """The distributions, of {module: distribution}, whose module is not installed."""
    return [name for module, name in modules.items() if not _installed(module)]


def machine() -> dict[str, Any]:
    """The day, and this machine's processor, width of vectors, system and versions. Does not touch
    a GPU."""
    found: dict[str, Any] = {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "processor": _processor(),
        "vectors": f"{_vector_bits()} bits",
        "cores": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "commit": commit_of(ROOT),
    }
    for name in VERSIONS:
        if version := _version(name):
            found[name] = version
    threads = {
        name: os.environ[name]
        for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")
        if name in os.environ
    }
    return found | threads


def commit_of(tree: Path) -> str:
    """The short hash of the commit that is checked out in `tree`."""
    return _output("git", "-C", str(tree), "rev-parse", "--short", "HEAD") or "unknown"


def write(
    directory: Path, benchmark: str, found: dict[str, Any], records: dict[str, Record]
) -> tuple[Path, Path]:
    """Write the records, measured on the machine `found`, to BENCHMARK-WIDTH.json and .md. Returns
    both paths.

    Parts of an earlier run stay if they are not among the records.
    """
    directory.mkdir(parents=True, exist_ok=True)
    as_json = _results(directory, benchmark, found)
    as_text = as_json.with_suffix(".md")
    parts = written(directory, benchmark, found) | records
    for record in records.values():
        record.machine = found
    content = {"parts": {key: record.content() for key, record in parts.items()}}
    as_json.write_text(json.dumps(content, indent=1, default=str) + "\n")
    as_text.write_text(
        "\n\n".join([f"# {as_json.stem}", *(record.markdown() for record in parts.values())]) + "\n"
    )
    return as_json, as_text


def written(directory: Path, benchmark: str, found: dict[str, Any]) -> dict[str, Record]:
    """The parts of a benchmark that a folder has for the machine `found`; none without results."""
    path = _results(directory, benchmark, found)
    parts = json.loads(path.read_text())["parts"] if path.exists() else {}
    return {key: Record.of(content) for key, content in parts.items()}


def _results(directory: Path, benchmark: str, found: dict[str, Any]) -> Path:
    width = WIDTHS.get(found["vectors"], found["vectors"].replace(" ", "-"))
    return directory / f"{benchmark}-{width}.json"


def _vector_bits() -> int:
    """The width of the vectors that kernels are compiled for; without the compiler, the width that
    the processor has."""
    try:
        from ops.cpu.codegen.target import host
    except ImportError:
        flags = re.search(r"^flags\s*:(.*)$", _cpuinfo(), re.MULTILINE)
        has = set(flags[1].split()) if flags else set()
        return 512 if "avx512f" in has else 256 if {"avx2", "fma"} <= has else 128
    return host().bits


def _installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False  # its parent package is missing


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _processor() -> str:
    lines = _cpuinfo().splitlines()
    return next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")),
        "unknown",
    )


def _cpuinfo() -> str:
    cpus = Path("/proc/cpuinfo")
    return cpus.read_text() if cpus.is_file() else ""


def _output(*command: str) -> str:
    """The output of a command; empty if the command fails or is not installed."""
    try:
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
