"""The runtime is a runtime: a program that knows nothing of nets runs on it, by the same commands."""

from __future__ import annotations

import ast
import shutil
from collections import Counter
from pathlib import Path

import pytest

from runtime.cli import main
from tests.support import ROOT, events, run_directory, run_up


def test_word_count_in_four_processes_counts_as_python_does(tmp_path: Path) -> None:
    text = "the actor model\nis the actor model of the net\n" * 20
    (tmp_path / "README.md").write_text(text)
    (tmp_path / "CHANGELOG.md").write_text("a line of the log\n")
    cluster = tmp_path / "wordcount.toml"
    shutil.copy(ROOT / "examples" / "wordcount.toml", cluster)
    done = run_up(cluster)
    assert done.returncode == 0, done.stderr
    counted = events(run_directory(cluster), "counted")[0]
    expected = Counter((text + "a line of the log").split())
    assert counted["words"] == expected.total()
    assert counted["the"] == expected["the"] == 61
    assert len(list((run_directory(cluster) / "logs").iterdir())) == 4


def test_processes_are_forked_from_one_that_has_imported_and_preloaded_the_program(tmp_path: Path) -> None:
    (tmp_path / "family.py").write_text(
        """
import os
from runtime import Actor, ActorSpec, Topology

once = []

def preload():
    once.append(os.getpid())

class Member(Actor):
    async def run(self):
        self.emit("born", preloaded=once, parent=os.getppid())

ROLES = {"member": Member}

def plan(config, options):
    return Topology(__name__, (ActorSpec("a", "member"), ActorSpec("b", "member")), (), "a")
"""
    )
    cluster = tmp_path / "cluster.toml"
    cluster.write_text('program = "family"\n')
    done = run_up(cluster)
    assert done.returncode == 0, done.stderr
    born = events(run_directory(cluster), "born")
    assert born
    assert all(event["preloaded"] == [event["parent"]] for event in born)


def test_the_word_count_is_under_60_lines_and_imports_no_nets() -> None:
    source = (ROOT / "examples" / "wordcount.py").read_text()
    assert len(source.splitlines()) < 60
    imported = {node.module for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom)}
    assert not imported & {"roles", "nets", "ops"}


def test_a_programs_own_keys_are_checked_like_the_runtimes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("cluster.toml").write_text('program = "examples.wordcount"\nmapers = 2\n')
    assert main(["check"]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "cluster.toml:1: files: missing, expected an array of strings",
        "cluster.toml:2: mapers: unknown key (did you mean 'mappers'?)",
    ]
