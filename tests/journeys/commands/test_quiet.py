"""Output that a person can read at a glance: the first run, and the lines of `events`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from runtime.cli.main import main
from runtime.runs import pages
from tests.helpers.support import ROOT

FIRST = 25  # lines of a first run of 300 iterations
WIDTH = 200


@pytest.mark.slow  # compiling takes 8 s of processor time
def test_a_first_run_of_300_iterations_prints_25_lines_at_most_into_a_pipe(tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "CONVOY_KERNEL_CACHE": str(tmp_path / "kernels"),
        "PYTHONPATH": str(ROOT),
    }
    for words in (["init", "."], ["up"]):
        done = subprocess.run(
            [sys.executable, "-m", "runtime", *words],
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stdout
    lines = [
        line
        for line in done.stdout.splitlines()
        # the speed of this machine decides about these
        if not line.startswith(("straggler", "caught up", "misprediction"))
    ]
    assert len(lines) <= FIRST, done.stdout
    assert [line for line in lines if line.startswith("preparing")] == [
        "preparing  compiling kernels"
    ]
    assert "exposed" not in "".join(lines)
    assert lines[-1].startswith("finished   iterations 300 ")


def test_no_line_of_events_is_longer_than_200_characters_and_no_word_is_lost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [f"word{number}" for number in range(300)]
    text = " ".join(words[:150]) + "\n" + " ".join(words[150:]) + " " + "x" * 500
    versions = {f"package-{number}": "1.2.3" for number in range(40)}
    told = [
        {"t": 1.0, "actor": "supervisor", "event": "process", "pid": 7, "versions": versions},
        {"t": 2.0, "actor": "supervisor", "event": "failed", "error": text, "exit_code": 4},
        {"t": 3.0, "actor": "supervisor", "event": "ended"},
    ]
    journal = "".join(json.dumps(event) + "\n" for event in told)
    (tmp_path / "events.jsonl").write_text(journal)
    assert main(["events", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= WIDTH
    assert lines[0] == "    1.00  supervisor     process    pid 7  versions (40 values)"
    shown = " ".join(lines).split()
    assert [word for word in shown if word.startswith("word")] == words
    assert sum(word.count("x") for word in shown if not word.strip("x")) == 500
    assert lines[-1] == "    3.00  supervisor     ended"
    assert main(["events", str(tmp_path), "--json"]) == 0
    assert capsys.readouterr().out == journal


def test_the_address_of_the_report_is_told_only_where_its_packages_are_installed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert pages.can_be_made()

    def missing(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(pages, "requires", lambda name: ['drawing>=3; extra == "report"'])
    monkeypatch.setattr(pages, "version", missing)
    assert not pages.can_be_made()
    monkeypatch.setattr(pages, "requires", lambda name: ['drawing>=3; extra == "dev"'])
    assert pages.can_be_made()
