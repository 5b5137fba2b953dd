"""Processes of a run that is starting: how benchmarks and chaos tests find them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.chaos.processes import alive
from benchmarks.helpers.survivor import Gone, Survivor

# a program that takes the place of the command line
WAITS = "import signal; signal.sigwait({signal.SIGTERM})"

ABSENT = 2**22 + 1  # a pid that no process has


class Run:
    """A run whose directory the test writes. `says` is the source of the program that stands in for
    `up`."""

    def __init__(self, folder: Path, says: str) -> None:
        (folder / "runtime").mkdir()
        (folder / "runtime" / "__main__.py").write_text(says)
        self.directory = folder / "runs" / "1"
        self.directory.mkdir(parents=True)
        (self.directory / "config.toml").touch()
        self.seen = Survivor(folder / "cluster.toml")

    def reports(self, process: str, pid: int) -> None:
        with (self.directory / "events.jsonl").open("a") as journal:
            journal.write(json.dumps({"event": "process", "process": process, "pid": pid}) + "\n")


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    made = Run(tmp_path, WAITS)
    yield made
    made.seen.process.kill()
    made.seen.stop()


def test_a_process_of_a_run_that_is_starting_is_waited_for(run: Run) -> None:
    looks = []

    def both(pids: dict[str, int]) -> bool:
        """Let one more process report at each look."""
        looks.append(list(pids))
        run.reports(f"worker-{len(looks)}", ABSENT)
        return len(pids) == 2

    assert run.seen.reported(both) == {"worker-1": ABSENT, "worker-2": ABSENT}
    assert looks == [[], ["worker-1"], ["worker-1", "worker-2"]]
    assert run.seen.pid("worker-3") == ABSENT


def test_an_up_that_ends_before_the_process_has_reported_is_an_error(tmp_path: Path) -> None:
    run = Run(tmp_path, "print('no more')")
    try:
        run.seen.process.wait()
        run.reports("worker", ABSENT)
        assert run.seen.pid("worker") == ABSENT
        with pytest.raises(Gone, match=r"processes that have reported: worker\n"):
            run.seen.pid("coordinator")
    finally:
        run.seen.stop()


def test_only_processes_that_live_count_as_living(run: Run) -> None:
    run.reports("dead", ABSENT)
    run.reports("living", run.seen.process.pid)
    assert alive(run.seen) == [run.seen.process.pid]
