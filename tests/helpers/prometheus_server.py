"""A Prometheus server (Debian's package) with the rules of docs/monitoring, for the tests of boards
and rules.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.house.boards import MONITORING, script

CONFIG = """
global: {{scrape_interval: 500ms, evaluation_interval: 500ms}}
rule_files: ["{rules}"]
scrape_configs:
  - job_name: convoy
    {found}
"""
BY_PORT = 'http_sd_configs: [{{url: "http://127.0.0.1:{port}/sd", refresh_interval: 500ms}}]'
BY_FILES = 'file_sd_configs: [{{files: ["{targets}/*.json"], refresh_interval: 1s}}]'
SELECTOR = re.compile(r"\b(?:convoy[a-z_:0-9]*|up|scrape_duration_seconds)(?:\{[^}]*\})?")


def boards() -> ModuleType:
    """The script that makes the boards; skips the test if a package that it needs is missing."""
    pytest.importorskip(
        "grafana_foundation_sdk", reason=("needs grafana-foundation-sdk, which is not installed")
    )
    return script()


class PrometheusServer:
    """A context manager: a server that scrapes, every half second, the processes that a run with
    `metrics.port` = `port` lists, or those in the files of `targets`. It serves at the port after
    it.
    """

    def __init__(self, folder: Path, port: int, targets: Path | None = None) -> None:
        if shutil.which("prometheus") is None:
            pytest.skip("prometheus (Debian's package of that name) is not installed")
        self.port = port
        self._own = port + 1
        self._folder = folder / "prometheus"
        self._folder.mkdir()
        rules = MONITORING / "rules.yml"
        found = BY_PORT.format(port=port) if targets is None else BY_FILES.format(targets=targets)
        (self._folder / "prometheus.yml").write_text(CONFIG.format(rules=rules, found=found))

    def __enter__(self) -> PrometheusServer:
        self._log = (self._folder / "log").open("w+")
        self._process = subprocess.Popen(
            [
                "prometheus",
                "--config.file=prometheus.yml",
                "--storage.tsdb.path=data",
                f"--web.listen-address=127.0.0.1:{self._own}",
            ],
            cwd=self._folder,
            stdout=self._log,
            stderr=self._log,
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()
        self._log.close()

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The series that an expression finds now; empty while the server starts."""
        found: list[dict[str, Any]] = self._get("query", query=expression).get("result", [])
        return found

    def rules(self) -> list[dict[str, Any]]:
        """Every rule that the server has loaded."""
        return [rule for group in self._get("rules").get("groups", []) for rule in group["rules"]]

    def alerts(self) -> dict[str, dict[str, str]]:
        """The labels of the firing alerts, by name."""
        told = self._get("alerts").get("alerts", [])
        return {
            alert["labels"]["alertname"]: alert["labels"]
            for alert in told
            if alert["state"] == "firing"
        }

    def runs(self) -> set[str]:
        """The runs whose processes the server scrapes."""
        return {target["labels"]["run"] for target in self._get("targets").get("activeTargets", [])}

    def targets(self) -> list[str]:
        """The processes that the server scrapes."""
        return [
            target["labels"]["process"] for target in self._get("targets").get("activeTargets", [])
        ]

    def _get(self, what: str, **words: str) -> dict[str, Any]:
        url = f"http://127.0.0.1:{self._own}/api/v1/{what}?{urllib.parse.urlencode(words)}"
        assert self._process.poll() is None, (self._folder / "log").read_text()
        try:
            with urllib.request.urlopen(url, timeout=60) as answer:
                data: dict[str, Any] = json.load(answer)["data"]
                return data
        except urllib.error.HTTPError as error:
            with contextlib.closing(error):
                raise AssertionError(f"{words or what}: {error.read().decode()}") from None
        except OSError:
            return {}


def selectors(expression: str) -> set[str]:
    """The series that an expression reads."""
    labels = re.sub(r"\b(?:by|on|ignoring|group_left) *\([^)]*\)", "", expression)
    return set(SELECTOR.findall(labels))
