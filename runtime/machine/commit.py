"""The commit that this source came from, if it is known: from a checkout, or from an installation
of one."""

from __future__ import annotations

import json
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@cache
def commit() -> str:
    """Return the first twelve digits of the commit's hash, or "" if the commit is not known.
    Uncommitted changes show in `versions.checksum` only."""
    with suppress(PackageNotFoundError, OSError, ValueError, KeyError, TypeError):
        said = distribution("convoy-runtime").read_text("direct_url.json")
        if said is not None and "vcs_info" in (facts := json.loads(said)):
            return str(facts["vcs_info"]["commit_id"])[:12]
    with suppress(OSError):
        return of_checkout(ROOT)[:12]
    return ""


def of_checkout(root: Path) -> str:
    """Return the commit that is checked out in this folder, or "" if the folder is not a checkout.
    Raises OSError if its files cannot be read."""
    git = root / ".git"
    if git.is_file():  # in a further worktree, this file holds the path of its git folder
        git = root / git.read_text("utf-8", "surrogateescape").partition("gitdir:")[2].strip()
    if not (git / "HEAD").is_file():
        return ""
    head = (git / "HEAD").read_text("utf-8", "surrogateescape").strip()
    if not head.startswith("ref: "):
        return head
    name = head.removeprefix("ref: ")
    common = git
    if (git / "commondir").is_file():
        common = git / (git / "commondir").read_text("utf-8", "surrogateescape").strip()
    if (common / name).is_file():
        return (common / name).read_text("utf-8", "surrogateescape").strip()
    if not (common / "packed-refs").is_file():
        return ""
    lines = (common / "packed-refs").read_text("utf-8", "surrogateescape").splitlines()
    return next((line.partition(" ")[0] for line in lines if line.endswith(f" {name}")), "")
