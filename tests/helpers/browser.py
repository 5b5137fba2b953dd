"""A page in a real browser, Chromium: a script drives the page, and reports the findings."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import urllib.parse
from pathlib import Path
from typing import Any

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")
# No window is narrower than 500 px, so the page is in a frame. The frame writes the findings where
# --dump-dom shows them.
FRAME = """<!doctype html><body style="margin:0"><script>addEventListener("message", (told) => {
  document.body.dataset.found = encodeURIComponent(JSON.stringify(told.data)); });</script>
<iframe src="page.html" style="border:0;width:%dpx;height:900px"></iframe></body>"""
PROBE = """<script>addEventListener("load", async () => {
  try { parent.postMessage(await (async () => { %s })(), "*"); }
  catch (error) { parent.postMessage({ error: String(error.stack) }, "*"); }
});</script></body>"""
# functions for the scripts of tests: a drag of the mouse over the drawing of a chart
HANDS = """
const mouse = (target, kind, x, y) => target.dispatchEvent(new MouseEvent(kind, {
  bubbles: true, clientX: x, clientY: y, movementX: 1, movementY: 1, button: 0, detail: 1 }));
const drag = (figure, from, to, down = 0) => {
  const over = figure.querySelector(".u-over"), box = over.getBoundingClientRect();
  const x = (share) => box.left + (from + (to - from) * share) * box.width;
  const y = (share) => box.top + (0.3 + down * share) * box.height;
  mouse(over, "mousemove", x(0), y(0));
  mouse(over, "mousedown", x(0), y(0));
  for (const share of [0.25, 0.5, 0.75, 1]) mouse(over, "mousemove", x(share), y(share));
  mouse(document, "mouseup", x(1), y(1));
};
const settled = () => new Promise((done) => setTimeout(done, 50));
const scales = (plot) => ["x", "y"].flatMap((key) => [plot.scales[key].min, plot.scales[key].max]);
"""


def probed(text: str, script: str, folder: Path, width: int = 1280) -> tuple[dict[str, Any], str]:
    """Open the page in a frame of this width and run the script in it. Returns the object that the
    script returns, and the messages of the console."""
    (folder / "page.html").write_text(text.replace("</body>", PROBE % (HANDS + script)))
    frame = folder / "frame.html"
    frame.write_text(FRAME % width)
    document, console = looked_at(frame.as_uri(), folder)
    (found,) = re.findall(r'data-found="([^"]*)"', document)
    told: dict[str, Any] = json.loads(urllib.parse.unquote(found))
    assert "error" not in told, told
    return told, console


def looked_at(page: str, folder: Path, milliseconds: int = 2000) -> tuple[str, str]:
    """Open the page for this time of its own clock. Returns the document, and the messages of the
    console."""
    assert BROWSER is not None
    options = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        f"--user-data-dir={folder / 'browser'}",
        "--window-size=1300,900",
        "--hide-scrollbars",
        f"--virtual-time-budget={milliseconds}",
        "--enable-logging=stderr",
        "--dump-dom",
        "--disable-dev-shm-usage",
    ]
    done = subprocess.run(
        [BROWSER, *options, page], capture_output=True, text=True, timeout=100, check=False
    )
    console = "\n".join(line for line in done.stderr.splitlines() if "CONSOLE" in line)
    return done.stdout, console
