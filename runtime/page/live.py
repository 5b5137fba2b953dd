"""The report of a living run, as a page of `up`.

A request is answered at once with the newest finished page. If that page is old, a child process
makes the next one in the background. The first page is made at normal priority, later ones at a
lower priority than the run, and so seldom that they take SHARE of a core. In between, the script of
the page asks for the lines that the journal has got since: `?from=` their offset in bytes. They are
sent as they are, without being parsed. So neither the event loop of `up` nor its pages wait for a
report, and a run whose page is not read pays nothing. The server knows which users may read the
page. Where it cannot know, a token protects the page.
"""

from __future__ import annotations

import hmac
import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from typing import Any
from urllib.parse import parse_qs

from runtime.machine.owned import open_file
from runtime.reasons import reason
from runtime.records.journal_reading import FILE as JOURNAL
from runtime.regular import opened
from runtime.terminal_text import bounded

# Priority of later pages. Next to a process that always runs they get a tenth of a core. On two
# cores that four processes wanted, a page took 15 s at equal priority, 60 s at nice 10, and 70 to
# 120 s at nice 19. That is too long for a first page.
NICE = 10
EVERY = 5  # seconds after which a browser asks for new lines
PAGES = 30  # least seconds from one page to the next
SHARE = 0.04  # of a core, for all pages but the first
MOST_LINES = 256 << 10  # bytes of lines in an answer
FILE = ".report.html"  # in the run directory, while it lives
ERRORS = ".report.errors"
HTML, PLAIN = "text/html; charset=utf-8", "text/plain; charset=utf-8"
LINES = "application/x-ndjson; charset=utf-8"
# the page may load only its own parts, and itself again
POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src "
    "data:; connect-src 'self'"
)
HEADERS = [
    ("Cache-Control", "no-store"),
    ("Content-Security-Policy", POLICY),
    ("Referrer-Policy", "no-referrer"),  # a token is part of the address
    ("X-Content-Type-Options", "nosniff"),
]
WAIT = (
    b'<!doctype html><html lang="en"><meta charset="utf-8"><meta http-equiv="refresh" content="1">'
    b"<title>Convoy</title><body><p>The report is being made ...</p></body></html>"
)


class LivePage:
    """An application for `runtime.serving.http_server`, called in its thread. `program` is the
    run's own, and may be imported. `token` is the value that a request must give as ?token=, or ""
    if none is needed. `now` counts seconds."""

    def __init__(self, directory: Path, program: str, token: str, now: Callable[[], float]) -> None:
        self._directory = directory
        self._program = program
        self._token = token
        self._now = now
        self._page = b""
        self._error = ""
        self._count = 0  # of the pages so far
        self._next = float("-inf")  # when the next page is due
        self._child: subprocess.Popen[bytes] | None = None

    def __repr__(self) -> str:
        return f"<report of {self._directory.name}, {len(self._page)} bytes>"

    def __call__(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        """Answer a request, as an application of WSGI (PEP 3333)."""
        if why := self._refused(environ):
            start("403 Forbidden", [("Content-Type", PLAIN), *HEADERS])
            return [why.encode()]
        self._look()
        if (offset := _offset(environ)) is not None:
            return self._added(offset, start)
        if self._error and not self._page:
            start("503 Service Unavailable", [("Content-Type", PLAIN), *HEADERS])
            return [self._error.encode()]
        start("200 OK", [("Content-Type", HTML), *HEADERS])
        return [self._page or WAIT]

    @property
    def query(self) -> str:
        """The end of the page's address."""
        return f"?token={self._token}" if self._token else ""

    def close(self) -> None:
        """Stop making pages, and delete the files."""
        if self._child is not None:
            self._child.kill()
            self._child.wait()
            self._child = None
        for name in (FILE, ERRORS):
            (self._directory / name).unlink(missing_ok=True)

    def _refused(self, environ: dict[str, Any]) -> str:
        """The reason for a refusal. "" if the page may be read."""
        given = parse_qs(environ.get("QUERY_STRING", "")).get("token", [""])[0]
        if self._token and not hmac.compare_digest(given.encode(), self._token.encode()):
            return "The address of this page ends with ?token=..., as `up` has printed it.\n"
        return ""

    def _added(self, offset: int, start: Callable[..., Any]) -> Iterable[bytes]:
        """Answer with the complete lines of the journal after `offset` bytes, at most MOST_LINES,
        with the offset after them, and the number of pages so far."""
        try:
            with opened(self._directory / JOURNAL) as file:
                file.seek(offset)
                found = file.read(MOST_LINES)
        except OSError as error:
            start("503 Service Unavailable", [("Content-Type", PLAIN), *HEADERS])
            return [f"the journal of the run could not be read: {reason(error)}\n".encode()]
        is_more = len(found) == MOST_LINES
        # a line that fills the whole answer is damaged: its part is passed over
        whole = found[: found.rfind(b"\n") + 1] or (found if is_more else b"")
        told = [
            ("Convoy-Offset", str(offset + len(whole))),
            ("Convoy-More", str(int(is_more))),
            ("Convoy-Page", str(self._count)),
        ]
        start("200 OK", [("Content-Type", LINES), *told, *HEADERS])
        return [whole]

    def _look(self) -> None:
        """Take the page that the child has made, and start the next child if it is due."""
        if self._child is not None:
            before = getrusage(RUSAGE_CHILDREN)
            if self._child.poll() is not None:
                after = getrusage(RUSAGE_CHILDREN)
                used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
                self._next = max(self._next, self._now() + used / SHARE)
                self._take(self._child.returncode)
                self._child = None
        if self._child is None and self._now() >= self._next:
            self._next = self._now() + PAGES
            self._make()

    def _take(self, code: int) -> None:
        try:
            if code == 0:
                self._page = (self._directory / FILE).read_bytes()
                self._error = ""
                self._count += 1
            else:
                said = bounded((self._directory / ERRORS).read_text("utf-8", "replace"))
                self._error = said or f"the report could not be made: exit code {code}\n"
        except OSError as error:
            self._error = f"the report could not be read: {reason(error)}\n"

    def _make(self) -> None:
        command = [
            sys.executable,
            "-m",
            "runtime",
            "report",
            str(self._directory),
            "-o",
            str(self._directory / FILE),
        ]
        into = self._directory / ERRORS
        with (
            suppress(OSError),
            os.fdopen(open_file(into, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "wb") as errors,
        ):
            # if the disk is full, the last page stays
            child = self._child = subprocess.Popen(
                [*command, f"--program={self._program}", "--refresh", str(EVERY)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
            )
            if self._page:
                os.setpriority(os.PRIO_PROCESS, child.pid, max(NICE, os.nice(0)))


def _offset(environ: dict[str, Any]) -> int | None:
    """The offset after which a request asks for lines. None if it asks for the page."""
    said = parse_qs(environ.get("QUERY_STRING", "")).get("from", [""])[0]
    return int(said) if said.isascii() and said.isdigit() and len(said) < 16 else None
