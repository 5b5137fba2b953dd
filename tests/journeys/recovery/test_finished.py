"""A run that would resume from the end of its training: nothing is started, and the message names
the setting to change."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nets.files import checkpoint
from roles.checkpoints.finished import finished
from roles.learning.resume import KEPT
from roles.planning.strategies import PRESETS
from runtime.cli.main import main
from runtime.config.file import load_with_program
from tests.helpers.support import configure, run_directory

VIRTUAL = '[run]\ndirectory = "runs"\n[simulation]\nclock = "virtual"\n'
NOTHING = "finished   nothing is left to do, and nothing was started\n"
FAST = ("--set", "train.kernels=numpy")


def trained(
    folder: Path, monkeypatch: pytest.MonkeyPatch, preset: str = "single", more: str = ""
) -> Path:
    """Train a run for two iterations. Returns its last checkpoint."""
    monkeypatch.chdir(folder)
    cluster = configure(folder, preset, workers=2, iterations=2, batch=8, test=True, more=VIRTUAL)
    cluster.write_text(cluster.read_text() + more)
    solver = folder / "solver.prototxt"
    solver.write_text(f"{solver.read_text()}test_interval: 1 test_iter: 1\n")
    assert main(["up", *FAST]) == 0
    return max(run_directory(cluster).glob("checkpoint-*"))


def left() -> int:
    """The number of run directories."""
    return len(list(Path("runs").iterdir()))


@pytest.mark.few("[single]", "[sync]", "[replicas]", "[sparknet]", "[local-fc-shards]")
@pytest.mark.parametrize("preset", PRESETS)
def test_resuming_the_last_iteration_leaves_no_run_directory_and_names_the_setting_to_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], preset: str
) -> None:
    file = trained(tmp_path, monkeypatch, preset)
    told = (
        f"train.resume: {file.name} is of iteration 2, and max_iter is 2: there is "
        "nothing left to train; raise "
    )
    for words in (["--resume"], ["--set", f"train.resume={file.absolute()}"]):
        capsys.readouterr()
        assert main(["up", *words, *FAST]) == 0
        said = capsys.readouterr()
        assert said.out.endswith(NOTHING)
        assert f"{told}train.max_iter or epochs\n" in said.err
    assert main(["up", "--resume", "--set", "train.max_iter=1", *FAST]) == 0, (
        "a checkpoint beyond the end is finished too"
    )
    assert left() == 1
    assert main(["up", "--resume", "--set", "train.max_iter=3", *FAST]) == 0
    assert left() == 2
    assert next(Path("runs").rglob("checkpoint-0000003.safetensors"))


def test_a_run_that_ended_early_is_finished_until_it_is_given_more_patience(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stop = "[train.stop]\nby = 'loss'\npatience = 1\nmin_delta = 100\n"
    longer = (*FAST, "--set", "train.max_iter=4")
    file = trained(tmp_path, monkeypatch, more=stop)
    capsys.readouterr()
    assert main(["up", "--resume", *longer]) == 0
    said = capsys.readouterr()
    assert said.out.endswith(NOTHING)
    told = (
        f"{file.name}: the training ended early: 'loss' was the best at iteration 0 "
        "(tests since: 1)"
    )
    assert f"{told}; there is nothing left to train; raise train.stop.patience\n" in said.err
    assert left() == 1
    assert main(["up", "--resume", *longer, "--set", "train.stop.patience=9"]) == 0
    assert next(Path("runs").rglob("checkpoint-0000004.safetensors"))


def test_a_run_with_nothing_left_to_train_is_still_tested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = trained(tmp_path, monkeypatch)
    capsys.readouterr()
    assert main(["up", "--resume", "--test", *FAST]) == 0
    assert f"{NOTHING}test      {file.absolute()}\naccuracy 0." in capsys.readouterr().out
    assert left() == 1


def test_check_and_plan_warn_of_it_and_do_their_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = trained(tmp_path, monkeypatch)
    for command in ("check", "plan"):
        capsys.readouterr()
        assert main([command, "--set", f"train.resume={file.absolute()}", *FAST]) == 0
        said = capsys.readouterr()
        assert "there is nothing left to train; raise train.max_iter or epochs" in said.err
        assert "single" in said.out


def test_the_end_of_a_training_in_memory_only_is_not_finished_since_it_must_be_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved = trained(tmp_path, monkeypatch)
    arrays, facts = checkpoint.load(saved)
    file = checkpoint.in_memory(
        arrays, {**facts, KEPT: ('{"by": "replica-0", "run": "runs/one", "tested": -1}')}
    )
    try:
        found = []
        for path in (saved.absolute(), Path(f"/proc/{os.getpid()}/fd/{file}")):
            loaded = load_with_program(tmp_path / "cluster.toml", [f"train.resume={path}"])
            found.append(finished(loaded.program.plan(loaded.config, loaded.options)))
    finally:
        os.close(file)
    assert found[0] is not None
    assert found[0][1] == saved.absolute()
    assert found[1] is None
