"""The stranger's package as pip would leave it: its metadata in a folder of Python's path."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

Brought = Mapping[str, Mapping[str, str]]  # group -> name -> "module:object"


def write_metadata(site: Path, brought: Brought, *, package: str = "stranger") -> None:
    """Write the files that an installed package leaves in a folder of Python's path: its name and
    its entry points."""
    folder = site / f"{package}-1.0.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    with (folder / "entry_points.txt").open("w") as file:
        for group, places in brought.items():
            file.write(f"[{group}]\n")
            file.writelines(f"{name} = {place}\n" for name, place in places.items())


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """A function that installs a package until the test ends, for this process and those that it
    starts: `install({"convoy.layers": {"Softsign": "tests.stranger.layer:Softsign"}})`."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.setenv(
        "PYTHONPATH", os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH")]))
    )
    monkeypatch.setattr(sys, "path", [str(site), *sys.path])

    def write(brought: Brought, *, package: str = "stranger") -> None:
        write_metadata(site, brought, package=package)

    return write
