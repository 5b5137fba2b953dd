"""Scrapes of a run's metrics while its processes die, as Prometheus reads them. See
`benchmarks.chaos`."""

from __future__ import annotations

import json
import re
import threading
import time
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException

from benchmarks.chaos.processes import WORKERS, alive, kill
from benchmarks.chaos.trials import Harm, Trials, named_and_back, spread
from benchmarks.helpers.survivor import Survivor
from benchmarks.metrics import SCRAPE_MOST, share

EVERY = 1.0  # seconds from one scrape of all pages to the next
KILLS = (2.0, 4.0)  # seconds of training between two deaths


@dataclass
class Scraper:
    """Reads every page in a run's list of pages, once a second, until `over` is set. Keeps its
    connections open, as Prometheus does."""

    run: Survivor
    seconds: list[float] = field(default_factory=list)  # of the pages that answered
    absent: int = 0  # pages of processes that were dead, or had not begun
    over: threading.Event = field(default_factory=threading.Event)
    kept: dict[str, HTTPConnection] = field(default_factory=dict)

    def read(self) -> None:
        """The loop of the scraper's thread."""
        due = time.monotonic()
        while not self.over.wait(max(0.0, due - time.monotonic())):
            due = max(due + EVERY, time.monotonic())
            for page in self._pages():
                since = time.monotonic()
                if self._fetched(page, "/metrics"):
                    self.seconds.append(time.monotonic() - since)

    def _pages(self) -> list[str]:
        ((host, path),) = re.findall(r"http://([^/\s]+)(/sd)", self.run.last("metrics "))
        found = self._fetched(host, path)
        return (
            [target for entry in json.loads(found) for target in entry["targets"]] if found else []
        )

    def _fetched(self, host: str, path: str) -> bytes:
        """Fetch a page over the kept connection, or over a new one. Empty if no process answers."""
        try:
            if host not in self.kept:
                self.kept[host] = HTTPConnection(host, timeout=10.0)
                self.kept[host].connect()
            self.kept[host].request("GET", path)
            return self.kept[host].getresponse().read()
        except (OSError, HTTPException):
            self.kept.pop(host).close()
            self.absent += 1
            return b""


def scrapes(trials: Trials, times: int) -> None:
    """Kill a process every few seconds, and scrape every page once a second. 99 % of the scrapes
    must take 20 ms at most."""
    harm = Harm("SIGKILL while pages are read")
    with trials.run(workers=WORKERS) as run:
        scraper = Scraper(run)
        thread = threading.Thread(target=scraper.read)
        thread.start()
        try:
            for _ in range(times):
                with trials.counted(harm):
                    trials.pause(*KILLS)
                    named_and_back(run, harm, kill(trials.chance.choice(alive(run)), harm))
        finally:
            scraper.over.set()
            thread.join()
    trials.told(harm)
    p99 = share(scraper.seconds, 0.99)
    trials.record.facts |= {
        "scrapes": len(scraper.seconds),
        "pages of processes that were gone": scraper.absent,
        "seconds of a scrape, p50, p95, most": spread(scraper.seconds),
        "p99": p99,
    }
    if p99 > SCRAPE_MOST:
        trials.record.fail(
            f"a scrape takes {1e3 * p99:.1f} ms (p99), expected {1e3 * SCRAPE_MOST:g} ms at most"
        )
