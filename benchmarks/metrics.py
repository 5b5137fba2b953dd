"""`python -m benchmarks.metrics`: what operation costs: how long a scrape takes while a run is busy, images a second.

Both parts train LeNet on the digits with two workers, in processes. `scrape` reads every page once a second over kept
connections, as Prometheus does, and counts their series. `training` compares runs as they are by default, and runs
whose pages are read once a second, with runs that are not observed at all (`run.observe = false`) or with runs of
another checkout (`--against`, as one from before a change), round by round.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from operator import truediv
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.report import ROOT, Record, machine, write

SCRAPE_MOST = 0.020  # seconds, 99 of 100
IMAGES_LEAST = 0.99  # of those of a run that is not observed
BATCH = 64
WARM = 3.0  # seconds of a run that do not count
CLUSTER = """program = "roles"
[train]
net = "lenet"
solver = "solver.prototxt"
seed = 1
batch = 64
[train.data]
train = { format = "digits", split = "train" }
[train.strategy]
preset = "omnivore"
workers = 2
"""
UNOBSERVED = "[run]\nobserve = false\n"
SERIES_MOST = 200  # of a role's page
SOLVER = 'base_lr: 0.01 momentum: 0.9 lr_policy: "fixed" max_iter: 100000000 display: 20 snapshot: 0\n'


def main(arguments: list[str] | None = None) -> int:
    """Run the parts and write the results. 1: a bar is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.metrics", description=__doc__)
    parser.add_argument("--parts", nargs="+", choices=("scrape", "training"), default=["scrape", "training"])
    parser.add_argument("--seconds", type=float, default=30.0, help="of the scrapes, and of each run of a round")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--against", type=Path, help="another checkout, whose runs nobody reads")
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results")
    given = parser.parse_args(arguments)
    records = {}
    if "scrape" in given.parts:
        records["scrape"] = Record("A scrape of a busy run")
        scrape(records["scrape"], given.seconds)
    if "training" in given.parts:
        records["training"] = Record("Images a second, observed, read, and neither")
        training(records["training"], given.rounds, given.seconds, given.against)
    print("results:", *write(given.results, "metrics", machine(), records))
    return int(any(record.status == "failed" for record in records.values()))


def scrape(record: Record, seconds: float) -> None:
    """Every page once a second, while two workers train."""
    times_of = ("median", "99 of 100", "most")
    record.table("Milliseconds of a scrape at 1 Hz", "page", "bytes", "series", "scrapes", *times_of)
    with up(ROOT) as run:
        time.sleep(WARM)
        taken, last = read_pages(run, seconds)
    series = {page: sum(not line.startswith(b"#") for line in text.splitlines()) for page, text in last.items()}
    together = [each for times in taken.values() for each in times]
    for page, times in {**taken, "all": together}.items():
        counted = (len(last[page]), series[page]) if page in last else ("", "")
        record.row(page, *counted, len(times), *(1e3 * share(times, part) for part in (0.5, 0.99, 1.0)))
    judged(record, "p99 of a scrape, seconds", share(together, 0.99), most=SCRAPE_MOST)
    judged(record, "series of a role's page", max(series[page] for page in series if page != "up"), most=SERIES_MOST)


def training(record: Record, rounds: int, seconds: float, against: Path | None) -> None:
    """Runs in turns; each ratio is the median of the rounds' ratios. What is on by default has the bar: who reads the
    pages works on the same cores, and is told beside."""
    other = f"of {against.name}" if against else "not observed"
    kinds: dict[str, dict[str, Any]] = {
        other: {"checkout": against or ROOT, "more": "" if against else UNOBSERVED},
        "observed": {},
        "read at 1 Hz": {"is_read": True},
    }
    record.table("Images a second", "round", *kinds, "observed ratio", "read ratio")
    found: dict[str, list[float]] = {kind: [] for kind in kinds}
    for number in range(rounds):
        names = list(kinds)
        for kind in names[number % 3 :] + names[: number % 3]:
            found[kind].append(images_a_second(seconds, **kinds[kind]))
        paces = [found[kind][-1] for kind in kinds]
        record.row(number + 1, *paces, paces[1] / paces[0], paces[2] / paces[0])
    ratios = {kind: median(map(truediv, paces, found[other])) for kind, paces in found.items()}
    record.facts[f"images a second, read at 1 Hz, of those {other}"] = ratios["read at 1 Hz"]
    judged(record, f"images a second, observed, of those {other}", ratios["observed"], least=IMAGES_LEAST)


class Up:
    """A live run: its folder, and the list of its pages."""

    def __init__(self, process: subprocess.Popen[str], folder: Path, url: str) -> None:
        self.process, self.folder, self.url = process, folder, url

    def pages(self) -> dict[str, str]:
        """Process -> host:port."""
        with urllib.request.urlopen(self.url, timeout=10) as answer:
            return {entry["labels"]["process"]: entry["targets"][0] for entry in json.load(answer)}


@contextmanager
def up(checkout: Path, more: str = "") -> Iterator[Up]:
    """A run of a checkout that has begun to train; it is wound down at the end."""
    with tempfile.TemporaryDirectory(prefix="convoy-benchmark-") as name:
        folder = Path(name)
        (folder / "cluster.toml").write_text(CLUSTER + more)
        (folder / "solver.prototxt").write_text(SOLVER)
        command = [sys.executable, "-m", "runtime", "up"]
        environ = {**os.environ, "PYTHONPATH": str(checkout)}
        with subprocess.Popen(command, cwd=folder, env=environ, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            url = ""
            for line in process.stdout:
                url = url or "".join(re.findall(r"http://\S+/sd", line))
                if line.startswith("progress"):
                    break
            try:
                yield Up(process, folder, url)
            finally:
                process.send_signal(signal.SIGINT)
                process.communicate()


def read_pages(run: Up, seconds: float) -> tuple[dict[str, list[float]], dict[str, bytes]]:
    """Seconds of each scrape of each page, and what the last was; the pages are read one after the other."""
    connections = {page: http.client.HTTPConnection(target, timeout=10) for page, target in run.pages().items()}
    taken: dict[str, list[float]] = {page: [] for page in connections}
    last = {}
    began = time.perf_counter()
    for number in range(max(1, round(seconds))):
        time.sleep(max(0.0, began + number - time.perf_counter()))
        for page, connection in connections.items():
            start = time.perf_counter()
            connection.request("GET", "/metrics")
            last[page] = connection.getresponse().read()
            taken[page].append(time.perf_counter() - start)
    for connection in connections.values():
        connection.close()
    return taken, last


def images_a_second(seconds: float, *, checkout: Path = ROOT, is_read: bool = False, more: str = "") -> float:
    """Of one run, by its journal, without its first seconds."""
    with up(checkout, more) as run:
        time.sleep(WARM)
        if is_read:
            read_pages(run, seconds)
        else:
            time.sleep(seconds)
        (journal,) = (run.folder / "runs").glob("*/events.jsonl")
        lines = [json.loads(line) for line in journal.read_text().splitlines() if line.endswith("}")]
    told = [(line["t"], int(str(line["iteration"]).split("/")[0])) for line in lines if line["event"] == "progress"]
    counted = [(at, done) for at, done in told if at > told[0][0] + WARM]
    (first, before), (last, after) = counted[0], counted[-1]
    return BATCH * (after - before) / (last - first)


def share(times: list[float], part: float) -> float:
    """The least value that so large a part of all does not exceed."""
    return sorted(times)[max(0, -int(-part * len(times) // 1) - 1)]


def judged(record: Record, what: str, value: float, *, least: float = 0.0, most: float = float("inf")) -> None:
    """Beside its bar."""
    record.facts[what] = value
    bar = f"at least {least:g}" if least else f"at most {most:g}"
    record.status = record.status if record.status == "failed" else "passed"
    if not least <= value <= most:
        record.fail(f"{what}: {value:.4g}, expected {bar}")
    else:
        print(f"  {what}: {value:.4g} ({bar})", flush=True)


if __name__ == "__main__":
    sys.exit(main())
