"""`python -m benchmarks.metrics`: the cost of operation: the time of a scrape while a run is busy,
and images a second.

Both parts train LeNet on the digits with two workers, in processes. `scrape` reads every page once
a second over kept connections, as Prometheus does, and counts their series. `training` measures
runs with default settings, and runs whose pages are read once a second. It compares them, turn by
turn (`turns`), with runs that are not observed at all (`run.observe = false`), or with runs of
another checkout (`--against`), such as one from before a change.
"""

from __future__ import annotations

import http.client
import json
import re
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.helpers.command_line import parser_of
from benchmarks.helpers.report import ROOT, Record, machine, write
from benchmarks.helpers.survivor import Survivor
from benchmarks.helpers.turns import PARTS, WARM, Sleeper, taken

SCRAPE_MOST = 0.020  # seconds, of 99 in 100 scrapes
IMAGES_LEAST = 0.99  # relative to a run that is not observed
BATCH = 64
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
SOLVER = (
    'base_lr: 0.01 momentum: 0.9 lr_policy: "fixed" max_iter: 100000000 display: 10 snapshot: 0\n'
)


def main(arguments: list[str] | None = None) -> int:
    """Run the parts and write the results. Returns 1 if a bar is missed."""
    parser = parser_of("metrics", __doc__)
    parser.add_argument(
        "--parts", nargs="+", choices=("scrape", "training"), default=["scrape", "training"]
    )
    parser.add_argument("--seconds", type=float, default=30.0, help="duration of the scrapes")
    parser.add_argument("--rounds", type=int, default=60, help="turns of each run")
    parser.add_argument("--turn", type=float, default=2.0, help="seconds of a turn")
    parser.add_argument("--against", type=Path, help="another checkout, whose pages are not read")
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results")
    given = parser.parse_args(arguments)
    records = {}
    if "scrape" in given.parts:
        records["scrape"] = Record("A scrape of a busy run")
        scrape(records["scrape"], given.seconds)
    if "training" in given.parts:
        records["training"] = Record("Images a second, observed, read, and neither")
        training(records["training"], given.rounds, given.turn, given.against)
    print("results:", *write(given.results, "metrics", machine(), records))
    return int(any(record.status == "failed" for record in records.values()))


def scrape(record: Record, seconds: float) -> None:
    """Scrape every page once a second while two workers train."""
    times_of = ("median", "99 of 100", "most")
    record.table(
        "Milliseconds of a scrape at 1 Hz", "page", "bytes", "series", "scrapes", *times_of
    )
    with tempfile.TemporaryDirectory(prefix="convoy-benchmark-") as name:
        run = Survivor(written(Path(name), ""))
        try:
            run.at("progress")
            time.sleep(WARM)
            times_of_page, last = read_pages(run, seconds)
        finally:
            run.stop()
    series = {
        page: sum(not line.startswith(b"#") for line in text.splitlines())
        for page, text in last.items()
    }
    together = [each for times in times_of_page.values() for each in times]
    for page, times in {**times_of_page, "all": together}.items():
        counted = (len(last[page]), series[page]) if page in last else ("", "")
        record.row(
            page, *counted, len(times), *(1e3 * share(times, part) for part in (0.5, 0.99, 1.0))
        )
    judged(record, "p99 of a scrape, seconds", share(together, 0.99), most=SCRAPE_MOST)
    judged(
        record,
        "series of a role's page",
        max(series[page] for page in series if page != "up"),
        most=SERIES_MOST,
    )


def training(record: Record, rounds: int, seconds: float, against: Path | None) -> None:
    """Compare runs that live at the same time, in turns. The bar is for default settings: the
    process that reads pages uses the same cores, so its row is only reported."""
    other = f"of {against.name}" if against else "not observed"
    with tempfile.TemporaryDirectory(prefix="convoy-benchmark-") as name:

        def sleeper(kind: str, more: str = "", **how: Any) -> Callable[[], Sleeper]:
            return lambda: Sleeper(written(Path(name, kind), more), **how)

        found = taken(
            {
                other: sleeper("other", "" if against else UNOBSERVED, checkout=against or ROOT),
                "observed": sleeper("observed"),
                "read at 1 Hz": sleeper("read", beside=read),
            },
            rounds,
            seconds,
        )
    record.facts["turns"] = f"{rounds} of {seconds:g} s each, all alive at once"
    record.table(
        "Images a second",
        "run",
        "in all",
        f"of those {other}",
        *(f"part {n + 1}" for n in range(PARTS)),
    )
    base = found[other]
    ratios = {}
    for kind, turns in found.items():
        ratios[kind] = turns.rate / base.rate
        parts = [ours / theirs for ours, theirs in zip(turns.parts(), base.parts(), strict=True)]
        record.row(kind, BATCH * turns.rate, ratios[kind], *parts)
    record.facts[f"images a second, read at 1 Hz, of those {other}"] = ratios["read at 1 Hz"]
    judged(
        record,
        (f"images a second, observed, of those {other}"),
        ratios["observed"],
        least=IMAGES_LEAST,
    )


def read(sleeper: Sleeper, seconds: float) -> None:
    """Read the run's pages once a second while it is awake."""
    read_pages(sleeper.run, seconds)


def written(folder: Path, more: str) -> Path:
    """Write a cluster.toml and its solver."""
    folder.mkdir(exist_ok=True)
    (folder / "cluster.toml").write_text(CLUSTER + more)
    (folder / "solver.prototxt").write_text(SOLVER)
    return folder / "cluster.toml"


def pages(run: Survivor) -> dict[str, str]:
    """Process -> host:port, from the run's list of pages."""
    url = re.findall(r"http://\S+/sd", run.last("metrics"))[0]
    with urllib.request.urlopen(url, timeout=10) as answer:
        return {entry["labels"]["process"]: entry["targets"][0] for entry in json.load(answer)}


def read_pages(run: Survivor, seconds: float) -> tuple[dict[str, list[float]], dict[str, bytes]]:
    """The seconds of each scrape of each page, and the last text of each. The pages are read one
    after the other."""
    connections = {
        page: http.client.HTTPConnection(target, timeout=10) for page, target in pages(run).items()
    }
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


def share(times: list[float], part: float) -> float:
    """The smallest value that is at least as large as so large a part of all."""
    return sorted(times)[max(0, -int(-part * len(times) // 1) - 1)]


def judged(
    record: Record, what: str, value: float, *, least: float = 0.0, most: float = float("inf")
) -> None:
    """Record a value as a fact and compare it with its bar."""
    record.facts[what] = value
    bar = f"at least {least:g}" if least else f"at most {most:g}"
    record.status = record.status if record.status == "failed" else "passed"
    if not least <= value <= most:
        record.fail(f"{what}: {value:.4g}, expected {bar}")
    else:
        print(f"  {what}: {value:.4g} ({bar})", flush=True)


if __name__ == "__main__":
    sys.exit(main())
