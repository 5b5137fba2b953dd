"""A launcher of an installed package: named in cluster.toml, it starts every process of a run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from runtime.cli.main import main
from runtime.plan.run_plan import RunPlan
from tests.helpers.support import configure, events, run_directory, run_up

GROUP = "convoy.launchers"
BROUGHT = {GROUP: {"plain": "tests.stranger.launcher:PlainLauncher"}}
Install = Callable[..., None]


def configured(folder: Path, kind: str, more: str = "") -> Path:
    return configure(folder, "single", iterations=2, more=f'{more}[launcher]\nkind = "{kind}"\n')


def test_it_starts_the_processes_of_a_run(tmp_path: Path, install: Install) -> None:
    install(BROUGHT)
    cluster = configured(tmp_path, "plain")
    done = run_up(cluster)
    assert done.returncode == 0, done.stderr
    directory = run_directory(cluster)
    assert len(events(directory, "progress")) == 2
    processes = RunPlan.read(directory).placement.processes
    assert len(processes) == 2
    for spec in processes:
        first = (directory / "logs" / f"{spec.name}.log").read_text().splitlines()[0]
        assert first == f"{spec.name} was started by the plain launcher"


@pytest.mark.slow
def test_a_process_that_cannot_live_is_reported_with_the_end_of_its_log(
    tmp_path: Path, install: Install
) -> None:
    install(BROUGHT)
    (tmp_path / "faulty.py").write_text(
        "from runtime import Actor, ActorSpec, Topology\n"
        "class Faulty(Actor):\n    async def run(self):\n        raise ValueError('no way on')\n"
        "ROLES = {'faulty': Faulty}\n"
        "def plan(config, options):\n    return Topology(__name__, (ActorSpec('a', "
        "'faulty'),), (), 'a')\n"
    )
    cluster = tmp_path / "cluster.toml"
    cluster.write_text('program = "faulty"\n[launcher]\nkind = "plain"\n')
    done = run_up(cluster)
    assert done.returncode == 4
    assert "ValueError: no way on" in done.stderr


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        ("plian", "no launcher is named 'plian' (did you mean 'plain'?)"),
        (
            "pbs",
            (
                "no launcher is named 'pbs' (allowed: kubernetes, local, manual, no-class, "
                "plain, ray, slurm, ssh)"
            ),
        ),
        (
            "no-class",
            (
                "convoy.launchers: 'no-class' is 'plan.json', expected a subclass of "
                "runtime.cluster.launcher.Launcher"
            ),
        ),
    ],
)
def test_a_kind_that_no_package_brings_is_reported_with_its_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    install: Install,
    kind: str,
    problem: str,
) -> None:
    install({GROUP: {**BROUGHT[GROUP], "no-class": "runtime.plan.run_plan:FILE"}})
    monkeypatch.chdir(tmp_path)
    configured(tmp_path, kind)
    assert main(["check"]) == 2
    assert capsys.readouterr().err.splitlines() == [f"cluster.toml:2: launcher.kind: {problem}"]


def test_machines_may_be_elsewhere_if_the_launcher_is_not_the_local_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, install: Install
) -> None:
    install(BROUGHT)
    monkeypatch.chdir(tmp_path)
    machine = '[[machine]]\nname = "far"\naddress = "10.0.0.7"\n'
    configured(tmp_path, "plain", machine)
    assert main(["check"]) == 0
    configured(tmp_path, "local", machine)
    assert main(["check"]) == 2
