"""The files of docs/monitoring: promtool accepts the rules, and every metric is used."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from tests.helpers.prometheus_server import MONITORING, boards, selectors
from tests.helpers.support import ROOT

# metrics of docs/metrics.md that no board and no rule uses, each with its reason
UNUSED: dict[str, str] = {}


def documented() -> set[str]:
    """The names of the metrics in docs/metrics.md."""
    rows = [
        line
        for line in (ROOT / "docs" / "metrics.md").read_text().splitlines()
        if line.startswith("| `")
    ]
    return {name for row in rows for name in re.findall(r"`(convoy_\w+)`", row.split("|")[1])}


def used() -> set[str]:
    """The metrics that boards and rules read; the parts of a histogram or summary count as the
    whole.
    """
    expressions = [
        query.expression
        for board in boards().BOARDS
        for panel in board.panels
        for query in panel.queries
    ]
    rules = (MONITORING / "rules.yml").read_text()
    names = {name.partition("{")[0] for text in (*expressions, rules) for name in selectors(text)}
    return names | {re.sub(r"_(bucket|sum|count)$", "", name) for name in names}


def test_every_metric_is_used_by_a_board_or_a_rule() -> None:
    unused = documented() - used()
    assert unused - set(UNUSED) == set(), (
        "run python -m tests.house --write, which gives each metric a panel, or list it in UNUSED"
    )
    assert set(UNUSED) - unused == set(), "these metrics are used: remove them from UNUSED"


def test_every_metric_that_a_board_or_a_rule_uses_is_documented() -> None:
    names = {name for name in used() if name.startswith("convoy_")}
    whole = {re.sub(r"_(bucket|sum|count)$", "", name) for name in names}
    assert whole - documented() == set()


@pytest.mark.skipif(shutil.which("promtool") is None, reason="needs promtool, which is not on PATH")
@pytest.mark.parametrize(
    "words", ["check rules rules.yml", "test rules rules_test.yml", "check config prometheus.yml"]
)
def test_promtool_finds_no_mistake_in_rules_and_configuration(words: str) -> None:
    done = subprocess.run(
        ["promtool", *words.split()], cwd=MONITORING, capture_output=True, text=True, check=False
    )
    assert (done.returncode, "FAILED" in done.stdout) == (0, False), done.stdout + done.stderr


def test_every_alert_has_a_test() -> None:
    alerts = re.findall(r"alert: (\w+)", (MONITORING / "rules.yml").read_text())
    tested = set(re.findall(r"alertname: (\w+)", (MONITORING / "rules_test.yml").read_text()))
    records = re.findall(r"record: ([\w:]+)", (MONITORING / "rules.yml").read_text())
    untested = [name for name in alerts if name not in tested]
    assert untested == [], "add a case for each of these alerts to rules_test.yml"
    assert len(alerts) == 16
    assert len(records) == 10
