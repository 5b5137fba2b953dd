"""Tests of the tests: each promise is broken on purpose in a copy of the tree, and the tests that
hold it must fail there. Without the mutant they pass.

A mutant is a piece of text that occurs once in a file, and its replacement. If the code has moved,
a test here fails.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.helpers.support import ROOT

COPIED = (
    "runtime",
    "roles",
    "nets",
    "ops",
    "tests",
    "benchmarks",
)  # the folders from which tests import
SECONDS = 20  # limit for a test that hangs on its mutant, which counts as a failure too


@dataclass(frozen=True)
class Mutant:
    """A change that breaks a promise, and the tests that hold the promise: a file, and a part of
    their names.
    """

    file: str
    text: str
    instead: str
    tests: str
    names: str


MUTANTS = {
    "P1: a silent process is not dead": Mutant(
        "runtime/cluster/supervising/supervision.py",
        "if silent > rules.silence_of(watched):",
        "if False:",
        "tests/runtime/cluster/supervising/test_supervision.py",
        "silent_process_is_dead or every_dead_process",
    ),
    "P1: a process whose kernel hangs is not dead": Mutant(
        "runtime/cluster/supervising/supervision.py",
        "beat.busy_seconds > rules.stuck_seconds(watched.stage, beat)",
        "beat.busy_seconds > 1e9",
        "tests/runtime/cluster/supervising/test_supervision.py",
        "array_work_is_stuck",
    ),
    "P5: a message that arrives twice is handled twice": Mutant(
        "runtime/actors/router.py",
        "if number > place.latest.get(key, 0):",
        "if True:",
        "tests/contracts/test_transports_under_faults.py",
        "handled_once_or_never",
    ),
    "P5: a message of a former life is accepted": Mutant(
        "runtime/actors/router.py",
        "if place is None or place.incarnation != incarnation:",
        "if place is None:",
        "tests/runtime/actors/test_node.py",
        "message_of_a_former_life",
    ),
    "P6: senders do not wait for credits": Mutant(
        "runtime/messages/credits.py",
        "self.outstanding + size <= self.limit or self.outstanding <= self.limit // GRANT_SHARE",
        "True",
        "tests/runtime/messages/test_credits.py",
        "senders_go_in_the_order or does_not_overtake",
    ),
    "P7: a checkpoint is not flushed": Mutant(
        "nets/files/binary.py",
        "            os.fsync(written)\n",
        "            pass\n",
        "tests/chaos/test_checkpoint_writes.py",
        "disk_that_fails_at_any_call",
    ),
    "P7: the name of a checkpoint is not flushed": Mutant(
        "nets/files/binary.py",
        "    _sync_directory(path.parent)\n",
        "",
        "tests/chaos/test_checkpoint_writes.py",
        "disk_that_fails_at_any_call",
    ),
    "P7: a checkpoint is written in its place": Mutant(
        "nets/files/checkpoint.py",
        "file = os.open(temporary, os.O_WRONLY)",
        "file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)",
        "tests/chaos/test_checkpoint_writes.py",
        "writer_killed_at_any_instant or disk_that_fails",
    ),
    "P7: the checksum is not compared": Mutant(
        "nets/files/checkpoint.py",
        "if _sum_of(_arrays_of(file, take), said) != written and version == VERSION:",
        "if _sum_of(_arrays_of(file, take), said) == '' and version == VERSION:",
        "tests/nets/test_checkpoint.py",
        "flipped_bit or zeroed_half",
    ),
    "P11: any secret is accepted": Mutant(
        "runtime/transport/keys.py",
        "compare_digest(shown, self.secret.encode())",
        "len(shown) > 0",
        "tests/contracts/test_encrypted_links.py",
        "only_agreed_keys",
    ),
    "P11: any key is accepted": Mutant(
        "runtime/transport/keys.py",
        "for peer, key in self.peers.items() if key == shown",
        "for peer, key in self.peers.items() if shown",
        "tests/contracts/test_encrypted_links.py",
        "only_agreed_keys",
    ),
    "scaling: a run ends although no checkpoint was saved": Mutant(
        "roles/coordination/handing_over.py",
        "elif self._checkpoints.unsaved:",
        "elif False:",
        "tests/roles/test_handing_over.py",
        "cannot_be_written",
    ),
    "scaling: iterations in progress are not waited for": Mutant(
        "roles/coordination/handing_over.py",
        "        self._asked = envelope\n        self._schedule.save()\n",
        "        self._asked = envelope\n        self._schedule.hand_over()\n",
        "tests/roles/test_handing_over.py",
        "ends_where_it_was_saved",
    ),
}


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the parts of the tree that tests need."""
    folder = tmp_path_factory.mktemp("mutants") / "tree"
    unwanted = shutil.ignore_patterns("__pycache__", "results", "*.egg-info")
    for name in COPIED:
        shutil.copytree(ROOT / name, folder / name, ignore=unwanted)
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


@pytest.fixture
def mutated(copy: Path, request: pytest.FixtureRequest) -> Iterator[Mutant]:
    """The copy with the mutant in it, for the length of the test."""
    mutant = MUTANTS[request.param]
    file = copy / mutant.file
    text = file.read_text()
    assert text.count(mutant.text) == 1, (
        f"{mutant.file} has it {text.count(mutant.text)} times, expected once"
    )
    file.write_text(text.replace(mutant.text, mutant.instead))
    yield mutant
    file.write_text(text)


def outcome(copy: Path, mutant: Mutant) -> tuple[int, str]:
    """Run the mutant's tests in the copy; return the exit code of pytest (0: all pass, 1: some
    fail) and its output.
    """
    words = [
        sys.executable,
        "-m",
        "pytest",
        "-n",
        "0",
        "-q",
        "-p",
        "no:cacheprovider",
        "-m",
        "not slow",
    ]
    environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [*words, f"--timeout={SECONDS}", mutant.tests, "-k", mutant.names],
        cwd=copy, env=environment, capture_output=True, text=True, timeout=170, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("promise", MUTANTS)
def test_a_mutant_changes_text_that_stands_once_in_its_file(promise: str) -> None:
    mutant = MUTANTS[promise]
    assert (ROOT / mutant.file).read_text("utf-8").count(mutant.text) == 1


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("mutated", MUTANTS, indirect=True)
def test_a_broken_promise_is_seen_by_its_test(copy: Path, mutated: Mutant) -> None:
    code, said = outcome(copy, mutated)
    assert code == 1, f"pytest ended with {code}:\n{said[-2000:]}"
    assert f"FAILED {mutated.tests}" in said or "Timeout" in said, said[-2000:]


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_without_a_mutant_the_tests_of_the_promises_pass(copy: Path) -> None:
    """One test of each file: the others are in every plain run."""
    for mutant in {mutant.tests: mutant for mutant in MUTANTS.values()}.values():
        code, said = outcome(copy, mutant)
        assert code == 0, said[-2000:]
