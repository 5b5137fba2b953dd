"""docs/events.md has every event that the code reports, and no other."""

from __future__ import annotations

import ast
import importlib
import json
import re
from pathlib import Path

from tests.helpers.support import ROOT, configure, run_up

PAGE = (ROOT / "docs" / "events.md").read_text("utf-8")
ROWS = {
    cells[0].strip("` "): cells[2]
    for line in PAGE.splitlines()
    if (cells := line.strip("| ").split(" | ")) and len(cells) == 3
}
EMITTERS = ("emit", "event", "_event", "_logged")


def reported() -> dict[str, str]:
    """A place where each event is reported by name, by the name of the event."""
    found: dict[str, str] = {}
    for path in [*(ROOT / "roles").rglob("*.py"), *(ROOT / "runtime").rglob("*.py")]:
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            if node.func.attr not in EMITTERS:
                continue
            for argument in node.args[:2]:
                name = _text(argument, module)
                if (
                    name is not None
                    and re.fullmatch(r"[a-z][a-z ]+", name)
                    and name not in ("supervisor", "here")
                ):
                    found[name] = f"{path.relative_to(ROOT)}:{node.lineno}"
    return found


def _text(argument: ast.expr, module: str) -> str | None:
    if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
        return argument.value
    if isinstance(argument, ast.Name) and argument.id.isupper():
        value = getattr(importlib.import_module(module), argument.id, None)
        return value if isinstance(value, str) else None
    return None


def test_every_event_that_is_reported_by_name_has_a_row() -> None:
    missing = {name: place for name, place in reported().items() if name not in ROWS}
    assert missing == {}, "add a row for each of these events to docs/events.md"


def test_a_run_reports_no_event_and_no_field_that_is_not_on_the_page(tmp_path: Path) -> None:
    cluster = configure(
        tmp_path,
        "omnivore",
        workers=2,
        groups=2,
        iterations=4,
        test=True,
        more='[run]\nname = "all"\n',
    )
    done = run_up(cluster)
    assert done.returncode == 0, done.stderr
    (run,) = (tmp_path / "runs").iterdir()
    events = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]
    seen = {event["event"] for event in events}
    assert {"process", "began", "progress", "test", "checkpoint", "finished"} <= seen <= set(ROWS)
    for event in events:
        fields = set(event) - {"t", "unix_seconds", "actor", "event"}
        unsaid = [name for name in fields if f"`{name}`" not in ROWS[event["event"]]]
        assert unsaid == [] or event["event"] == "test", (event, unsaid)
