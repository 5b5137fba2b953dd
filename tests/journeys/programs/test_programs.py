"""Programs without nets: they run on the same runtime, by the same commands."""

from __future__ import annotations

import ast
import os
import shutil
from collections import Counter
from pathlib import Path

import pytest

from runtime.cli.main import main
from tests.helpers.support import ROOT, events, run_directory, run_up


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


def test_processes_are_forked_from_a_process_that_has_imported_and_preloaded_the_program(
    tmp_path: Path,
) -> None:
    (tmp_path / "family.py").write_text(
        """
import os, sys
from runtime import Actor, ActorSpec, Topology
from runtime.machine.versions import identity

once, before = [], set()

def preload():
    once.append(os.getpid())
    before.update(sys.modules)

class Member(Actor):
    async def run(self):
        later = sorted(name for name in set(sys.modules) - before if name.startswith(("uvloop", "zmq", "runtime")))
        self.emit("born", preloaded=once, parent=os.getppid(), looked_up=identity.cache_info().misses, later=later)

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
    # by `up`, for all processes
    assert all((event["looked_up"], event["later"]) == (1, []) for event in born)


PINNED = """
import os
from runtime import Actor, ActorSpec, Topology

class Member(Actor):
    async def run(self):
        self.emit("lives", who=self.name, cores=sorted(await self.compute("look", os.sched_getaffinity, 0)))

ROLES = {"member": Member}

def plan(config, options):
    return Topology(__name__, tuple(ActorSpec(name, "member") for name in ("lead", "w-0", "w-1")), (), "lead")
"""


def check_pinned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, machine: str) -> int:
    """Run `check` for a lead and two workers on a machine with these keys and two cores, 4 and
    6."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {6, 4})
    Path("pinned.py").write_text(PINNED)
    Path("cluster.toml").write_text(f'program = "pinned"\n[[machine]]\n{machine}\n')
    return main(["check"])


def test_pinned_processes_have_the_first_cores_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check_pinned(tmp_path, monkeypatch, 'threads = 1\npin = ["w-1", "lead"]') == 0
    lines = capsys.readouterr().out.splitlines()[1:]
    assert [line.split(", ", 1)[1] for line in lines] == [
        "1 BLAS threads on core 4: lead",
        "1 BLAS threads: w-0",
        "1 BLAS threads on core 6: w-1",
    ]


@pytest.mark.parametrize(
    ("machine", "told"),
    [
        (
            'threads = 2\npin = ["w-*"]',
            ("expected at most 2 threads (cores), found 4: w-0 (2), w-1 (2)"),
        ),
        ('pin = ["v-*"]', "'v-*' fits no actor on machine 'local'; there are lead, w-0, w-1"),
    ],
)
def test_a_machine_that_cannot_be_pinned_is_reported_with_its_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    machine: str,
    told: str,
) -> None:
    assert check_pinned(tmp_path, monkeypatch, machine) == 2
    line = 2 + machine.count("\n") + 1
    assert capsys.readouterr().err.splitlines() == [f"cluster.toml:{line}: machine[0].pin: {told}"]


@pytest.mark.skipif(
    not hasattr(os, "sched_setaffinity"), reason=("processes cannot be kept on cores here")
)
def test_all_threads_of_a_pinned_process_stay_on_its_core(tmp_path: Path) -> None:
    (tmp_path / "pinned.py").write_text(PINNED)
    cluster = tmp_path / "cluster.toml"
    cluster.write_text('program = "pinned"\n[[machine]]\nthreads = 1\npin = ["lead"]\n')
    done = run_up(cluster)
    assert done.returncode == 0, done.stderr
    cores = {event["who"]: event["cores"] for event in events(run_directory(cluster), "lives")}
    assert cores["lead"] == sorted(os.sched_getaffinity(0))[:1]
    assert all(
        found == sorted(os.sched_getaffinity(0)) for who, found in cores.items() if who != "lead"
    )


def test_the_word_count_is_under_60_lines_and_imports_no_nets() -> None:
    source = (ROOT / "examples" / "wordcount.py").read_text()
    assert len(source.splitlines()) < 60
    imported = {
        node.module for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom)
    }
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
