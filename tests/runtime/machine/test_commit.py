"""The commit of a checkout, compared with the output of git."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from runtime.machine.commit import commit, of_checkout


def git(folder: Path, *words: str) -> str:
    named = [
        "git",
        "-c",
        "user.name=n",
        "-c",
        "user.email=e@example.org",
        "-c",
        "init.defaultBranch=main",
        *words,
    ]
    return subprocess.run(
        named, cwd=folder, capture_output=True, text=True, check=True
    ).stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "checkout"
    folder.mkdir()
    git(folder, "init", "--quiet")
    git(folder, "commit", "--quiet", "--allow-empty", "-m", "first")
    return folder


def test_the_commit_is_found_on_a_branch_packed_detached_and_in_another_worktree(
    checkout: Path, tmp_path: Path
) -> None:
    first = git(checkout, "rev-parse", "HEAD")
    assert of_checkout(checkout) == first
    git(checkout, "pack-refs", "--all")
    assert of_checkout(checkout) == first
    git(checkout, "worktree", "add", "--quiet", "-b", "side", str(tmp_path / "side"))
    git(tmp_path / "side", "commit", "--quiet", "--allow-empty", "-m", "second")
    assert of_checkout(tmp_path / "side") == git(tmp_path / "side", "rev-parse", "HEAD") != first
    git(checkout, "checkout", "--quiet", "--detach", "side")
    assert of_checkout(checkout) == git(checkout, "rev-parse", "HEAD")


def test_a_folder_that_is_not_a_checkout_has_no_commit(tmp_path: Path) -> None:
    assert of_checkout(tmp_path) == ""
    assert len(commit()) in (0, 12)
