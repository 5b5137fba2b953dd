"""Extensions of installed packages: found by name and imported on first use, with their mistakes
reported as errors.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from runtime import extensions
from runtime.errors import ConfigError
from tests.stranger.installed import write_metadata

GROUP = "convoy.launchers"
Install = Callable[..., None]


def test_an_extension_of_an_installed_package_is_found_by_its_name(install: Install) -> None:
    install({GROUP: {"slurm": "tests.stranger.installed:write_metadata"}})
    assert extensions.names(GROUP) == ["slurm"]
    assert extensions.find(GROUP, "slurm") is sys.modules["tests.stranger.installed"].write_metadata
    assert extensions.find(GROUP, "pbs") is None
    assert extensions.find("convoy.layers", "slurm") is None


def test_an_extension_next_to_the_configuration_is_found_once_its_folder_is_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_metadata(tmp_path, {GROUP: {"slurm": "tests.stranger.installed:install"}})
    assert extensions.names(GROUP) == []
    monkeypatch.syspath_prepend(tmp_path)
    assert extensions.names(GROUP) == ["slurm"]


def test_a_name_that_two_packages_bring_is_refused_and_both_are_named(install: Install) -> None:
    for package in ("one", "other"):
        install({GROUP: {"slurm": f"{package}:Launcher", package: "os:path"}}, package=package)
    assert extensions.names(GROUP) == ["one", "other", "slurm"]
    with pytest.raises(ConfigError) as caught:
        extensions.find(GROUP, "slurm")
    assert str(caught.value) == (
        "convoy.launchers: 'slurm' is brought by several packages, remove all but one: "
        "one 1.0 (one:Launcher); other 1.0 (other:Launcher)"
    )
    assert extensions.find(GROUP, "one") is sys.modules["os.path"]


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("", "AttributeError: module 'broken' has no attribute 'Launcher'"),
        ("import missing_module", "ModuleNotFoundError: No module named 'missing_module'"),
        ("raise SystemExit('no cluster here')", "SystemExit: no cluster here"),
    ],
)
def test_an_extension_that_cannot_be_imported_is_reported_with_its_package_and_module(
    install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, told: str
) -> None:
    (tmp_path / "broken.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "broken", raising=False)
    install({GROUP: {"slurm": "broken:Launcher"}})
    with pytest.raises(ConfigError) as caught:
        extensions.find(GROUP, "slurm")
    where = "convoy.launchers: 'slurm' of stranger 1.0 (broken:Launcher) cannot be imported: "
    assert str(caught.value) == where + told
