"""Reports of real runs: written by the command, served by `up` while it runs, and viewed in a real
browser."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime.page.live import NICE, LivePage
from tests.helpers.browser import BROWSER, looked_at
from tests.helpers.support import (
    configure,
    environment,
    get,
    in_the_middle,
    run_directory,
    run_up,
    runtime_command,
)
from tests.helpers.written_runs import BEGUN, ENDED, a_test, progress, run


def report(*arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        runtime_command("report", *arguments),
        cwd=cwd,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=100,
    )


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a cluster.toml with two runs; the second is resumed from the first."""
    folder = tmp_path_factory.mktemp("trained")
    more = "[run]\ntensorboard = true\n"
    cluster = configure(folder, "omnivore", workers=2, iterations=12, test=True, more=more)
    done = run_up(cluster)
    assert done.returncode == 0, done.stderr
    solver = folder / "solver.prototxt"
    solver.write_text(solver.read_text().replace("max_iter: 12", "max_iter: 20"))
    done = run_up(cluster, "--resume")
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.slow
def test_the_report_of_a_run_resumed_from_another_has_the_numbers_of_both(
    trained: Path,
) -> None:
    done = report("-o", "r.html", cwd=trained)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "report     r.html\n"
    text = (trained / "r.html").read_text()
    first, second = sorted((trained / "runs").iterdir(), key=lambda path: path.stat().st_mtime)
    assert f"<dt>continues</dt><dd>{first.name}</dd>" in text
    (data,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text)
    curve = json.loads(data)["charts"][0]["curves"][0]
    losses = {
        event["iteration"]: event["loss"]
        for directory in (first, second)
        for event in map(json.loads, (directory / "events.jsonl").read_text().splitlines())
        if event["event"] == "progress"
    }
    assert curve["x"] == sorted(losses)
    assert max(losses) == 20
    assert curve["y"] == pytest.approx([losses[x] for x in sorted(losses)], rel=1e-6)
    assert "conv_model" in text
    assert 'src="data:image/svg+xml;base64,' in text
    assert (second / "tensorboard").is_dir()
    assert (second / "log.csv").read_text().count("\n") > 8


@pytest.mark.slow
def test_the_planned_bytes_of_each_link_are_shown_next_to_the_received_bytes(trained: Path) -> None:
    report("-o", "r.html", cwd=trained)
    rows = re.findall(
        (r"<tr><td>([\w-]+)</td><td>([\w-]+)</td><td " r"class=\"n\">([^<]*)</td>"),
        (trained / "r.html").read_text(),
    )
    planned = {(sender, receiver): size for sender, receiver, size in rows}
    assert planned["conv-0-0", "fc_server"] not in ("", "?")
    assert planned["conv-0-1", "conv_model"] not in ("", "?")


def waiting(url: str, wanted: str) -> str:
    """The page, as soon as it contains `wanted`."""
    deadline = time.monotonic() + 60
    while wanted not in (text := get(url)):
        assert time.monotonic() < deadline, text[:2000]
        time.sleep(0.1)
    return text


@pytest.fixture
def live(tmp_path: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The address of the report of a live run, and its `up`."""
    cluster = configure(
        tmp_path, "sync", workers=2, iterations=100_000, batch=8, test=True, paced=True
    )
    with in_the_middle(cluster) as (process, said):
        yield re.findall(r"http://\S+/report", said)[0], process


@pytest.mark.slow
def test_while_a_run_goes_on_up_serves_its_report_and_leaves_nothing_of_it(
    live: tuple[str, subprocess.Popen[str]], tmp_path: Path
) -> None:
    url, process = live
    text = waiting(url, '"title":"Loss"')
    assert '<b class="state running">running</b>' in text
    assert '"live":{"every":5,' in text
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(urllib.request.Request(url, headers={"Host": "elsewhere.example"}))
    if BROWSER is not None:
        document, console = looked_at(url, tmp_path)
        assert console == ""  # the page's policy allows everything that the page contains
        assert document.count('<figure class="chart">') >= 4
    process.send_signal(signal.SIGINT)
    assert process.stdout is not None
    process.stdout.read()
    assert process.wait() == 130
    assert [
        path.name
        for path in run_directory(tmp_path / "cluster.toml").iterdir()
        if "report" in path.name
    ] == []


def asked(page: LivePage, host: str = "127.0.0.1:9", query: str = "") -> tuple[str, bytes]:
    """The status and the body of an answer."""
    told: list[str] = []
    environ = {"HTTP_HOST": host, "QUERY_STRING": query}
    body = b"".join(page(environ, lambda status, headers: told.append(status)))
    return told[0], body


def test_where_users_cannot_be_identified_the_page_asks_for_its_token(tmp_path: Path) -> None:
    page = LivePage(run(tmp_path / "a", [BEGUN]), "roles", "secret", lambda: -1e9)
    assert page.query == "?token=secret"
    assert [
        asked(page, query=query)[0] for query in ("", "token=", "token=secre", "token=secret2")
    ] == ["403 Forbidden"] * 4
    assert asked(page, query="token=secret")[0] == "200 OK"
    page.close()


@pytest.mark.slow
def test_the_first_page_is_made_at_once_and_further_ones_come_after_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    priorities = []

    class Child(subprocess.Popen[bytes]):
        """A process whose priority is recorded at each poll while it runs."""

        def poll(self) -> int | None:
            if super().poll() is None:
                priorities.append(os.getpriority(os.PRIO_PROCESS, self.pid) - os.nice(0))
            return super().poll()

    monkeypatch.setattr("runtime.page.live.subprocess.Popen", Child)
    now = 0.0
    page = LivePage(run(tmp_path / "a", [BEGUN]), "roles", "", lambda: now)
    deadline = time.monotonic() + 60
    while b"being made" in asked(page)[1] and time.monotonic() < deadline:
        time.sleep(0.1)
    first = len(priorities)
    now = 1e6
    asked(page), asked(page)
    page.close()
    assert set(priorities[:first]) == {0}
    assert set(priorities[first:]) == {max(NICE - os.nice(0), 0)}


@pytest.mark.slow
def test_a_report_that_cannot_be_made_is_explained_on_its_page(tmp_path: Path) -> None:
    page = LivePage(tmp_path, "roles", "", time.monotonic)
    assert asked(page)[0] == "200 OK"  # the report is being made
    deadline = time.monotonic() + 60
    while (answer := asked(page))[0] == "200 OK" and time.monotonic() < deadline:
        time.sleep(0.1)
    page.close()
    assert answer[0] == "503 Service Unavailable"
    assert b"found no run.json and no events.jsonl in it" in answer[1]
    assert list(tmp_path.iterdir()) == []


# `python -m runtime`, and the time and memory that it took. The system's figure for a child's
# memory includes the parent's.
MEASURED = """
import os, sys
from runtime.__main__ import command
status = command()
[peak] = (line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(sum(os.times()[:2]), peak)
sys.exit(status)
"""


@pytest.mark.slow
def test_a_hundred_thousand_iterations_are_a_page_of_megabytes_within_seconds_and_half_a_gigabyte(
    tmp_path: Path,
) -> None:
    """The time is seconds of processor time, so that other programs on the machine do not
    matter."""
    said = [
        BEGUN,
        *(
            progress(0.01 * n, n, 2 / n, staleness=n % 3, exposed_seconds=0.001)
            for n in range(1, 100_001)
        ),
    ]
    said += [a_test(10.0 * n, 1000 * n, 1 - 1 / (n + 1)) for n in range(1, 101)]
    directory = run(
        tmp_path / "long", [*sorted(said, key=lambda one: one[0]), (*ENDED[:0], 2000.0, *ENDED[1:])]
    )
    command = [
        sys.executable,
        "-c",
        MEASURED,
        "report",
        str(directory),
        "-o",
        str(tmp_path / "r.html"),
    ]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=True)
    seconds, kilobytes = map(float, done.stdout.split()[-2:])
    assert seconds <= 10.0
    assert kilobytes <= 500 * 1024
    assert (tmp_path / "r.html").stat().st_size <= 3_000_000
