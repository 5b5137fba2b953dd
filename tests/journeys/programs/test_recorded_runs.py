"""The config.toml of a run directory, given to commands in place of a cluster.toml: it means the same
run, or the error names the script that made the run."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import roles
import runtime
from examples.chain import chain
from nets.definition.spec import ZOO
from runtime.cli.main import main
from runtime.runs.script_record import NO_FILE
from tests.helpers.support import configure, environment, events, run_up

NOT_UTF_8 = os.fsdecode(b"caf\xe9")
VIRTUAL = ("--set", "simulation.clock=virtual")
MINE: dict[str, Any] = {  # no key has its default
    "net": "mine.prototxt",
    "max_iter": 3,
    "batch": 16,
    "kernels": "numpy",
    "data": {
        "train": {"format": "digits", "split": "test"},
        "test": {"format": "digits", "split": "train"},
    },
}
SINGLE = {**MINE, "strategy": {"preset": "single"}}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a project with its own net. The working folder is another one."""
    found = tmp_path / "project"
    found.mkdir()
    shutil.copy(ZOO / "lenet.prototxt", found / "mine.prototxt")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    return found


def ran(topology: runtime.Topology, folder: Path) -> Path:
    """Run a topology to its end; return its run directory."""

    async def directory() -> Path:
        async with runtime.launch(topology, processes="here", directory=folder) as run:
            await run.result()
        return run.directory

    return asyncio.run(directory())


def refused(capsys: pytest.CaptureFixture[str], *words: str | Path) -> str:
    """The only line of a command that refuses its configuration, after that of the weights."""
    capsys.readouterr()
    assert main([*map(str, words)]) == 2
    lines = capsys.readouterr().err.splitlines()
    (line,) = (line for line in lines if not line.startswith("weights "))
    return line


def scores(capsys: pytest.CaptureFixture[str], run: Path, file: Path) -> str:
    """The output of `test` for the checkpoint of this run."""
    capsys.readouterr()
    (saved,) = run.glob("checkpoint-*.safetensors")
    assert main(["test", str(saved), str(file), "--json"]) == 0
    return capsys.readouterr().out


def test_the_config_toml_of_a_run_of_up_means_the_same_run_from_any_folder(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = configure(project, "single", iterations=4, batch=8, test=True)
    (project / "solver.prototxt").write_text(
        (project / "solver.prototxt").read_text().replace("lenet.prototxt", "mine.prototxt")
    )
    runs = project / "runs"
    assert main(["up", str(cluster), *VIRTUAL, "--set", f"run.directory={runs}"]) == 0
    (run,) = runs.iterdir()
    file = run / "config.toml"
    assert 'base = "../.."' in file.read_text().splitlines()
    assert scores(capsys, run, file) == scores(capsys, run, cluster)
    for command in ("check", "plan"):
        assert main([command, str(file)]) == 0
    longer = ("--set", "train.max_iter=6")
    assert main(["up", str(file), "--resume", str(run), *longer]) == 0
    (after,) = {*runs.iterdir()} - {run}
    assert events(after, "resumed")[0]["iteration"] == 4
    assert scores(capsys, after, after / "config.toml") == scores(capsys, after, cluster)


def test_a_program_next_to_cluster_toml_is_found_from_the_run_directory_too(
    project: Path,
) -> None:
    (project / "of_a_project.py").write_text(
        "from roles import *\nfrom roles import plan, Options\n"
    )
    cluster = configure(project, "single", iterations=1, more="program = 'of_a_project'\n")
    done = run_up(cluster, *VIRTUAL)
    assert done.returncode == 0, done.stderr
    (run,) = (project / "runs").iterdir()
    done = subprocess.run(
        [sys.executable, "-m", "runtime", "check", run / "config.toml"],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("below", ["", "nets and data"])
def test_the_config_toml_of_a_script_has_what_the_script_trained(
    below: str, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / below).mkdir(exist_ok=True)
    shutil.move(project / "mine.prototxt", project / below / "mine.prototxt")
    run = ran(roles.training(SINGLE, directory=project / below), project / "runs")
    cluster = project / below / "cluster.toml"
    cluster.write_text(
        "[train]\nnet = 'mine.prototxt'\nbatch = 16\nkernels = 'numpy'\n"
        "[train.data]\ntest = { format = 'digits', split = 'train' }\n"
    )
    file = run / "config.toml"
    assert scores(capsys, run, file) == scores(capsys, run, cluster)
    assert "script" not in file.read_text()
    assert main(["check", str(file)]) == 0
    directory = ("--set", f"run.directory={project / 'more'}")
    longer = ("--set", "train.max_iter=5")
    assert main(["up", str(file), "--resume", str(run), *directory, *longer, *VIRTUAL]) == 0
    (after,) = (project / "more").iterdir()
    assert events(after, "resumed")[0]["iteration"] == 3


@pytest.mark.parametrize("script", ["mine.py", None])
def test_a_topology_that_a_script_laid_out_or_changed_is_tested_but_never_planned_as_another(
    script: str | None,
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = None if script is None else str(project / script)
    monkeypatch.setattr(sys.modules["__main__"], "__file__", file, raising=False)
    named = NO_FILE if file is None else file
    own = roles.training({**MINE, "strategy": {"workers": 2}}, strategy=chain, directory=project)
    plain = roles.training(SINGLE, directory=project)
    apart = dataclasses.replace(plain.actors[-1], process="apart")
    changed = dataclasses.replace(plain, actors=(*plain.actors[:-1], apart))
    for topology in (own, changed):
        run = ran(topology, project / "runs")
        config = run / "config.toml"
        assert '"images": 1438' in scores(capsys, run, config)
        for words in (["check", config], ["plan", config], ["up", config, "--resume", run]):
            line = refused(capsys, *words)
            assert line.startswith(f"{config}:")
            assert f"run.script: {named} made the" in line
            assert "run that script instead" in line


def test_a_run_without_a_configuration_is_refused_by_each_command_that_needs_one(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    planned = roles.training(SINGLE, directory=project)
    topology = runtime.Topology(planned.program, planned.actors, planned.links, planned.lead)
    run = ran(topology, project / "runs")
    file = run / "config.toml"
    more = ("--set", "train.max_iter=9")
    for words in (["test", run, file], ["up", file, "--resume", run], ["check", file]):
        for settings in ((), more):
            line = refused(capsys, *words, *settings)
            assert "made this run, and gave no configuration to record" in line


def test_a_run_directory_that_was_moved_away_from_its_files_is_reported_with_its_key(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = ran(roles.training(SINGLE, directory=project), project / "runs")
    moved = project.parent / "a" / "b" / "c"
    moved.parent.mkdir(parents=True)
    shutil.move(run, moved)
    project.rename(project.with_name("renamed"))
    text = (moved / "config.toml").read_text()
    (moved / "config.toml").write_text(text.replace('base = "../.."', 'base = "../project"'))
    line = refused(capsys, "check", moved / "config.toml")
    assert "run.base: found '../project', which is " in line
    assert line.endswith("move the run directory back, or correct this key")
    base = ("--set", f"run.base={project.with_name('renamed')}")
    assert main(["check", str(moved / "config.toml"), *base]) == 0


def test_a_project_in_a_folder_whose_name_is_not_utf_8_is_found_from_its_run_directories(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = project.rename(project.with_name(NOT_UTF_8))
    monkeypatch.chdir(named)
    run = ran(roles.training(SINGLE), Path("runs"))
    assert not events(run, "warning")
    assert main(["check", str(run / "config.toml")]) == 0


def test_a_folder_that_toml_cannot_name_is_reported_when_the_run_begins_and_when_it_is_needed(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    named = project.rename(project.with_name(NOT_UTF_8))
    run = ran(roles.training(SINGLE, directory=named), project.parent / "runs")
    (warning,) = events(run, "warning")
    assert 'base = "../../caf\\udce9": has bytes that are not UTF-8' in warning["text"]
    line = refused(capsys, "check", run / "config.toml")
    assert "run.base: found '../../caf\ufffd', which is " in line
