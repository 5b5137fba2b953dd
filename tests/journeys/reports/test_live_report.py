"""The report of a live run: the lines that its journal gets between two pages."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

import pytest

from runtime.page.lineage import whole
from runtime.page.live import MOST_LINES, LivePage
from runtime.page.page import page as written
from tests.helpers.browser import BROWSER, looked_at
from tests.helpers.written_runs import BEGUN, a_test, progress, run

SAID = [BEGUN, *(progress(float(n), 10 * n, 1 / n) for n in range(1, 6)), a_test(5.5, 50, 0.9777)]


def line_of(directory: Path, said: Any) -> str:
    """The line of an event, as the journal has it."""
    return (run(directory / "one", [said]) / "events.jsonl").read_text()


def asked(page: LivePage, query: str) -> tuple[bytes, dict[str, str]]:
    """The body and the headers of an answer."""
    told: list[dict[str, str]] = []
    body = page({"QUERY_STRING": query}, lambda _, headers: told.append(dict(headers)))
    return b"".join(body), told[0]


@pytest.fixture
def page(tmp_path: Path) -> Iterator[LivePage]:
    """The page of a live run whose journal has SAID. No child process makes it."""
    made = LivePage(run(tmp_path / "a", SAID), "roles", "", lambda: float("-inf"))
    made._next = 0.0
    yield made
    made.close()


def test_the_lines_after_an_offset_are_the_complete_ones(page: LivePage, tmp_path: Path) -> None:
    journal = tmp_path / "a" / "events.jsonl"
    whole = journal.read_bytes()
    first = whole.index(b"\n") + 1
    body, headers = asked(page, f"from={first}")
    assert (body, headers["Convoy-Offset"]) == (whole[first:], str(len(whole)))
    with journal.open("ab") as file:
        file.write(b'{"t": 6.0, "actor"')
    body, headers = asked(page, f"from={len(whole)}")
    assert (body, headers["Convoy-Offset"], headers["Convoy-More"]) == (b"", str(len(whole)), "0")


def test_many_lines_come_in_several_answers_and_none_is_lost(
    page: LivePage, tmp_path: Path
) -> None:
    journal = tmp_path / "a" / "events.jsonl"
    with journal.open("a") as file:
        file.writelines(f'{{"t": {n}, "actor": "a", "event": "x"}}\n' for n in range(20_000))
        file.write("x" * (MOST_LINES + 5) + "\n")  # damage: a line longer than an answer
        file.write(line_of(tmp_path, progress(9.0, 60, 0.1)))
    offset, found, more = 0, b"", "1"
    while more == "1":
        body, headers = asked(page, f"from={offset}")
        assert len(body) <= MOST_LINES
        found += body
        offset, more = int(headers["Convoy-Offset"]), headers["Convoy-More"]
    assert found == journal.read_bytes()


@pytest.mark.parametrize("said", ["", "-1", "x", "²", "1" * 400])
def test_an_offset_that_is_not_a_number_is_answered_with_the_page(
    page: LivePage, said: str
) -> None:
    assert b"being made" in asked(page, f"from={said}")[0]


def test_a_journal_that_cannot_be_read_is_explained(page: LivePage, tmp_path: Path) -> None:
    (tmp_path / "a" / "events.jsonl").unlink()
    assert b"the journal of the run could not be read: No such file" in asked(page, "from=0")[0]


class _Quiet(WSGIRequestHandler):
    """Answers without a line on stderr for each request."""

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def served(page: Any) -> Iterator[str]:
    """The address at which the page is served."""
    with make_server("127.0.0.1", 0, page, handler_class=_Quiet) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/report"
        server.shutdown()
        thread.join()


@pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")
def test_a_browser_adds_new_points_and_figures_to_the_page_that_it_has(tmp_path: Path) -> None:
    directory = run(tmp_path / "a", SAID)
    page = LivePage(directory, "roles", "", lambda: 0.0)
    deadline = time.monotonic() + 60
    while b"being made" in asked(page, "")[0]:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    with (directory / "events.jsonl").open("a") as file:
        file.write(line_of(tmp_path, progress(10.0, 40, 0.5)))  # the run went back to iteration 30
        file.write(line_of(tmp_path, progress(11.0, 60, 0.25, max_iter=80)))
        file.write(line_of(tmp_path, a_test(11.5, 60, 0.9833)))
        file.write(json.dumps({"t": float("nan"), "event": "progress"}) + "\nnot JSON\n")
    probe = (
        b"<script>setTimeout(() => { const [chart] = data.charts, [curve] = chart.curves;"
        b" document.body.dataset.found = JSON.stringify([curve.x, curve.y,"
        b" plots.get('Loss').plot.data[0].length]); }, 1000)</script></body>"
    )
    page._page = page._page.replace(b"</body>", probe)
    with served(page) as url:
        document, console = looked_at(url, tmp_path)
    page.close()
    assert console == ""
    assert "[[10,20,30,40,60],[1,0.5,0.3333333,0.5,0.25],6]" in document
    figures = {"iterations": "60 of 80", "test accuracy": "0.9833", "best accuracy": "0.9833"}
    for key, text in figures.items():
        (found,) = [
            part.partition("</strong>")[0] for part in document.split(f'data-figure="{key}"')[1:]
        ]
        assert found.endswith(f">{text}"), (key, found)
    assert "best accuracy, iteration 60" in document


@pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")
def test_a_browser_takes_the_tables_of_a_newer_page_once_and_keeps_its_settings(
    page: LivePage, tmp_path: Path
) -> None:
    directory = tmp_path / "a"
    probe = b"<script>plots.get('Loss').logButton.click();</script></body>"
    first = written([whole(directory, lives=True)], refresh=5).encode()
    page._page = first.replace(b"</body>", probe)
    with (directory / "events.jsonl").open("a") as file:
        file.write(line_of(tmp_path, (6.0, "a", "warning", {"process": "p", "text": "too warm"})))
        file.write(line_of(tmp_path, progress(7.0, 70, 0.1)))
    newer = written([whole(directory, lives=True)], refresh=5).encode()
    asked_for = []

    def application(environ: dict[str, Any], start: Any) -> Any:
        """Answer as the page does. After the first new lines there is a newer page."""
        answer = page(environ, start)
        asked_for.append("lines" if "from=" in environ["QUERY_STRING"] else environ["PATH_INFO"])
        if asked_for[-1] == "lines":
            page._page, page._count = newer, 1
        return answer

    with served(application) as url:
        document, console = looked_at(url, tmp_path, 12_000)
    assert console == ""
    assert asked_for[:6] == ["/report", "lines", "lines", "/report", "lines", "lines"]
    assert asked_for.count("/report") == 2
    assert "too warm" in document
    assert document.count('<figure class="chart">') == 4
    # the learning rate is logarithmic from the beginning, the loss by the click
    assert document.count('aria-pressed="true"') == 2
