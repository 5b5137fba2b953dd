"""Modules of others with the names of Convoy's packages: next to cluster.toml, on Python's path, or
installed over Convoy's."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from runtime import own_packages
from runtime.errors import ConfigError
from runtime.own_packages import PACKAGES, put_first
from tests.helpers.support import ROOT, environment, runtime_command
from tests.stranger.installed import write_metadata

CLUSTER = """[train]
max_iter = 1
kernels = "numpy"
[train.strategy]
preset = "single"
workers = 1
"""
# as pip writes it: a folder that is not the working folder comes first on Python's path
CONVOY = "import sys\nfrom runtime.__main__ import command\nsys.exit(command())\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with cluster.toml, next to the folder `bin` with the script `convoy`."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "convoy").write_text(CONVOY)
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "cluster.toml").write_text(CLUSTER)
    return folder


def typed(project: Path, form: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command as `python -m runtime` or as `convoy`."""
    script = [sys.executable, str(project.parent / "bin" / "convoy"), *words]
    return subprocess.run(
        script if form == "convoy" else runtime_command(*words),
        cwd=project,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


@pytest.mark.parametrize("form", ["convoy", "python -m runtime"])
@pytest.mark.parametrize("file", ["ops.py", "nets/__init__.py", "roles.py"])
def test_the_built_in_program_is_convoys_whatever_lies_next_to_cluster_toml(
    file: str, form: str, project: Path
) -> None:
    (project / file).parent.mkdir(exist_ok=True)
    (project / file).write_text("raise SystemExit('this is not Convoy')\n")
    done = typed(project, form, "check")
    name = file.partition("/")[0].removesuffix(".py")
    assert done.returncode == 0
    assert done.stderr == (
        f"warning: {project / file} is not imported, since its name means Convoy's package "
        f"'{name}': rename it if your own modules need it\n"
    )


@pytest.mark.parametrize("form", ["convoy", "python -m runtime"])
def test_a_folder_called_nets_that_is_no_package_is_nothing_to_report(
    form: str, project: Path
) -> None:
    (project / "nets").mkdir()
    done = typed(project, form, "check")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_run_trains_next_to_a_package_called_nets(project: Path) -> None:
    (project / "nets").mkdir()
    (project / "nets" / "__init__.py").write_text("")
    done = typed(project, "convoy", "up")
    assert done.returncode == 0, done.stderr
    assert "finished" in done.stdout


def test_a_program_that_expects_its_own_package_called_nets_is_told_which_file_to_rename(
    project: Path,
) -> None:
    (project / "nets").mkdir()
    (project / "nets" / "__init__.py").write_text("def vgg(): ...\n")
    (project / "mine.py").write_text("from nets import vgg\n")
    (project / "cluster.toml").write_text("program = 'mine'\n")
    done = typed(project, "convoy", "check")
    assert done.returncode == 2
    first, second = done.stderr.splitlines()
    assert first.startswith("cluster.toml:1: program: program 'mine' cannot be imported: ImportErr")
    assert second == (
        f"cluster.toml:1: program: {project / 'nets' / '__init__.py'} is not imported, since its "
        "name means Convoy's package 'nets': rename it if your own modules need it"
    )


SCRIPT = """import roles
import runtime
from nets import NetBuilder

if __name__ == "__main__":
    topology = roles.training({"max_iter": 1, "kernels": "numpy", "strategy": {"preset": "single"}})
    print(runtime.run(topology, processes="one")["iterations"])
"""


@pytest.fixture
def editable(tmp_path: Path) -> Path:
    """A folder for PYTHONPATH whose `sitecustomize` finds Convoy as `pip install -e` does: after
    every folder of Python's path."""
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(
        "import sys\nfrom importlib.machinery import PathFinder\n\n\n"
        "class Last:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        return None if path else PathFinder.find_spec(name, [{str(ROOT)!r}])\n\n\n"
        "sys.meta_path.append(Last())\n"
    )
    return site


def started(project: Path, site: Path, text: str) -> subprocess.CompletedProcess[str]:
    """Run a script of this text in the project's folder."""
    (project / "script.py").write_text(text)
    return subprocess.run(
        [sys.executable, "script.py"],
        cwd=project,
        env={**environment(), "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


@pytest.mark.parametrize("file", ["ops.py", "nets/__init__.py", "runtime.py"])
def test_a_script_next_to_a_module_with_the_name_of_a_package_is_told_which_file_is_taken(
    file: str, project: Path, editable: Path
) -> None:
    (project / file).parent.mkdir(exist_ok=True)
    (project / file).write_text("MINE = True\n")
    done = started(project, editable, SCRIPT)
    name = file.partition("/")[0].removesuffix(".py")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        f"ImportError: {project / file} is imported in place of Convoy's package '{name}': rename "
        "or uninstall it, or keep the script in another folder"
    )


def test_a_script_that_needs_nets_only_is_told_of_its_own_ops_and_may_have_its_own_runtime(
    project: Path, editable: Path
) -> None:
    (project / "runtime.py").write_text("MINE = True\n")
    text = "from nets import NetBuilder\nimport runtime\nprint(runtime.MINE)\n"
    assert started(project, editable, text).stdout == "True\n"
    (project / "ops.py").write_text("MINE = True\n")
    line = started(project, editable, text).stderr.splitlines()[-1]
    assert line.startswith(f"ImportError: {project / 'ops.py'} is imported in place of Convoy's")


def test_a_script_that_needs_runtime_only_has_modules_of_its_own_with_the_other_names(
    project: Path, editable: Path
) -> None:
    for name in PACKAGES:
        (project / f"{name}.py").write_text("MINE = True\n")
    text = "import nets, ops, roles\nfrom runtime import Actor\nprint(ops.MINE and roles.MINE)\n"
    done = started(project, editable, text)
    assert (done.stdout, done.stderr) == ("True\n", "")


@pytest.mark.parametrize(
    "text",
    [
        "import roles\nimport runtime\nroles.training({})\n",
        "import runtime\nimport roles\nroles.training({})\n",
        "import runtime\nfrom roles import training\n",
        "import runtime\nimport roles.nothing\n",
    ],
)
@pytest.mark.parametrize("file", ["roles.py", "roles/__init__.py"])
def test_a_script_that_misses_convoys_roles_is_told_of_the_module_in_the_way(
    text: str, file: str, project: Path, editable: Path
) -> None:
    (project / file).parent.mkdir(exist_ok=True)
    (project / file).write_text("MINE = True\n")
    done = started(project, editable, text)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        f"{project / file} is imported in place of Convoy's package 'roles': rename it, or keep "
        "the script in another folder"
    )
    other = started(project, editable, "import roles, runtime\nroles.MINE.nothing\n")
    assert "AttributeError" in other.stderr.splitlines()[-1]


def test_a_script_trains_next_to_folders_of_data_called_as_the_packages(
    project: Path, editable: Path
) -> None:
    for name in ("ops", "nets"):
        (project / name).mkdir()
        (project / name / "mine.prototxt").write_text("")
    done = started(project, editable, SCRIPT)
    assert (done.stdout, done.stderr) == ("1\n", "")


def installed(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install Convoy's packages into a folder, as far as `put_first` looks at them."""
    for name in PACKAGES:
        (site / name).mkdir(parents=True)
        shutil.copy(ROOT / name / "__init__.py", site / name)
    monkeypatch.setattr(own_packages, "OURS", site)
    monkeypatch.syspath_prepend(str(site))


def test_a_distribution_that_was_installed_over_a_package_is_named_with_the_repair(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(tmp_path, monkeypatch)
    put_first()
    (tmp_path / "ops" / "__init__.py").write_text('"""The Operator Framework."""\n')
    write_metadata(tmp_path, {}, package="ops")
    (tmp_path / "ops-1.0.dist-info" / "RECORD").write_text("ops/__init__.py,,\n")
    with pytest.raises(ConfigError) as caught:
        put_first()
    assert caught.value.problems == [
        f"{tmp_path / 'ops' / '__init__.py'} is not Convoy's: ops was installed over it; repair: "
        "`pip uninstall ops`, then `pip install --force-reinstall --no-deps convoy-runtime`"
    ]


@pytest.mark.parametrize("command", ["check", "up", "init", "ps"])
def test_each_command_says_that_another_distribution_was_installed_over_ops(
    command: str, tmp_path: Path, project: Path
) -> None:
    site = tmp_path / "site"
    for name in ("runtime", *PACKAGES):
        shutil.copytree(ROOT / name, site / name, ignore=shutil.ignore_patterns("__pycache__"))
    (site / "ops" / "__init__.py").write_text("from ops.charm import CharmBase\n")
    (site / "ops" / "charm.py").write_text("class CharmBase: ...\n")
    done = subprocess.run(
        runtime_command(command),
        cwd=project,
        env={**environment(), "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"{site / 'ops' / '__init__.py'} is not Convoy's")
    assert len(done.stderr.splitlines()) == 1


def test_a_package_that_was_removed_together_with_another_distribution_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(tmp_path, monkeypatch)
    (tmp_path / "ops" / "__init__.py").unlink()
    with pytest.raises(ConfigError) as caught:
        put_first()
    assert caught.value.problems == [
        f"{tmp_path / 'ops' / '__init__.py'} of Convoy is missing; repair: "
        "`pip install --force-reinstall --no-deps convoy-runtime`"
    ]
