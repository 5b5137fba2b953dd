"""Runs with `preset = "auto"`: every preset keeps its promise, trials leave nothing, and the run is
as fast as measured."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nets.files.checkpoint import load
from roles.planning.strategies import PRESETS
from runtime.cli.main import main
from runtime.errors import ProgramFailed
from runtime.recovery import up_runs
from runtime.report.console import RunConsole
from runtime.runs.checking import check
from tests.chaos.test_startup import GONE_WITHIN, PAUSE, Start, started
from tests.helpers.support import configure, events, run_directory, run_up, train
from tests.roles.test_auto_preset import PROFILE, VIRTUAL
from tests.stranger.test_training import BROUGHT

__all__ = ["started"]

ITERATIONS = 60


def small(cluster: Path) -> Path:
    """Give a cluster.toml a batch that takes little time, and kernels that need not be loaded."""
    cluster.write_text(cluster.read_text().replace("[train]\n", "[train]\nkernels = 'numpy'\n"))
    return cluster


def losses(folder: Path, preset: str) -> list[float]:
    """The losses of four iterations with three workers. They are in two groups if the preset allows
    it and is not equal to one process."""
    groups = 1 if PRESETS[preset].equals_single else 2
    cluster = small(configure(folder, preset, workers=3, groups=groups, iterations=4))
    return train(cluster, checkpoint=False).losses()


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory) -> list[float]:
    return losses(tmp_path_factory.mktemp("single"), "single")


@pytest.mark.few("[mxnet-async")
@pytest.mark.parametrize("preset", [name for name in PRESETS if name != "single"])
def test_a_preset_is_equal_to_single_if_and_only_if_it_declares_so(
    tmp_path: Path, single: list[float], preset: str
) -> None:
    found = losses(tmp_path, preset)
    assert (found == pytest.approx(single, rel=1e-5)) == PRESETS[preset].equals_single


def auto(folder: Path, *, iterations: int = ITERATIONS, more: str = VIRTUAL) -> Path:
    """A cluster.toml with preset "auto". It runs on virtual time with the times of a profile, or
    with the settings in `more`."""
    cluster = small(configure(folder, "auto", workers=2, iterations=iterations, more=more))
    (folder / "times.json").write_text(json.dumps(PROFILE))
    return cluster


def run(cluster: Path, monkeypatch: pytest.MonkeyPatch, *settings: str) -> Path:
    """Run `up` in this process, on virtual time. Returns the run directory."""
    monkeypatch.chdir(cluster.parent)
    assert up_runs.run(check(cluster, settings), RunConsole(live=False)).code == 0
    return run_directory(cluster).resolve()


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a run that has chosen its preset."""
    with pytest.MonkeyPatch.context() as patch:
        return run(auto(tmp_path_factory.mktemp("tried")), patch)


def said(directory: Path, event: str) -> list[dict[str, Any]]:
    """The fields of these events."""
    return [
        {k: v for k, v in told.items() if k not in ("t", "actor", "event")}
        for told in events(directory, event)
    ]


@pytest.mark.slow  # trials of two presets: 10 s
def test_the_run_uses_the_preset_that_was_fastest_in_its_trial_and_reports_the_choice(
    tried: Path,
) -> None:
    trials, [choice] = said(tried, "trial"), said(tried, "choice")
    assert [trial["preset"] for trial in trials] == [
        told["preset"] for told in said(tried, "candidate")[:2]
    ]
    for trial in trials:  # on virtual time a prediction is nearly exact
        assert trial["measured_seconds"] == pytest.approx(trial["predicted_seconds"], rel=0.1)
        assert trial["iterations"] >= 10
    fastest = min(trials, key=lambda trial: trial["measured_seconds"])
    assert choice["preset"] == fastest["preset"]
    assert choice["why"].startswith("measured ")
    assert f'preset = "{choice["preset"]}"' in (tried / "config.toml").read_text()
    assert {told["preset"] for told in said(tried, "left out")} == {
        "omnivore",
        "parameter-server",
        "singa",
    }


@pytest.mark.slow
def test_trials_leave_their_journals_and_no_model(tried: Path) -> None:
    folders = sorted((tried / "trials").iterdir())
    assert [folder.name.partition("-")[2].partition("-")[2] for folder in folders] == [
        told["preset"]
        for told in sorted(said(tried, "trial"), key=lambda told: str(told["preset"]))
    ]
    assert [folder for folder in folders if not (folder / "events.jsonl").is_file()] == []
    assert list((tried / "trials").rglob("*.safetensors")) == []
    assert [events(folder, "test") + events(folder, "checkpoint") for folder in folders] == [[], []]


@pytest.mark.slow  # after the same trials
def test_the_run_has_the_bits_of_the_preset_named_by_hand(
    tried: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [choice] = said(tried, "choice")
    workers = f"train.strategy.workers={choice['workers']}"
    named = run(
        tried.parents[1] / "cluster.toml",
        monkeypatch,
        f"train.strategy.preset={choice['preset']}",
        workers,
    )
    assert not (named / "trials").exists()
    found, expected = (load(max(folder.glob("*.safetensors")))[0] for folder in (tried, named))
    assert found.keys() == expected.keys()
    assert all(found[name].tobytes() == expected[name].tobytes() for name in expected)
    assert [told["loss"] for told in events(tried, "progress")] == [
        told["loss"] for told in events(named, "progress")
    ]


def test_check_and_plan_show_the_presets_that_up_would_try_and_use_the_best(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = auto(tmp_path)
    for command in ("check", "plan"):
        assert main([command, str(cluster)]) == 0
        lines = capsys.readouterr().out.splitlines()
        best = [line.split()[2] for line in lines if line.startswith("candidate ")]
        assert len(best) == 8
        [choice] = [line for line in lines if line.startswith("choice ")]
        assert choice.startswith(
            f"choice     preset {best[0]}  workers 2  why predicted; `up` measures {best[0]} and "
        )
        assert any(
            best[0].startswith(line.split()[0][:4])
            for line in lines[lines.index(choice) + 1 :]
            if line.strip()
        )
    assert not (tmp_path / "runs").exists()


@pytest.mark.slow
def test_a_resumed_run_takes_the_preset_it_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = auto(tmp_path)
    before = run(cluster, monkeypatch, "train.strategy.preset=mxnet-sync", "train.max_iter=4")
    checkpoint = max(before.glob("*.safetensors"))
    after = run(cluster, monkeypatch, f"train.resume={checkpoint}", "train.max_iter=6")
    [choice] = said(after, "choice")
    assert choice["preset"] == "mxnet-sync"
    assert choice["why"] == f"the preset of {before.name}, whose checkpoint is resumed"
    assert said(after, "trial") == []


@pytest.mark.slow
def test_trials_that_all_diverge_end_the_run_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = auto(tmp_path)
    monkeypatch.chdir(tmp_path)
    with np.errstate(all="ignore"), pytest.raises(ProgramFailed, match="training diverged"):
        up_runs.run(check(cluster, ["train.base_lr=1e9"]), RunConsole(live=False))
    [directory] = (tmp_path / "runs").iterdir()
    assert len(said(directory, "trial")) == 2
    assert all("training diverged" in trial["failed"] for trial in said(directory, "trial"))
    assert "training diverged" in said(directory, "failed")[0]["error"]


@pytest.mark.slow
def test_a_preset_of_another_package_is_a_candidate_if_it_declares_that_it_equals_single(
    tmp_path: Path, install: Any
) -> None:
    install(BROUGHT)
    checked = check(auto(tmp_path))
    assert checked.choice is not None
    assert "tallied" in [
        fields["preset"] for name, fields in checked.choice.told if name == "candidate"
    ]


@pytest.mark.slow
def test_up_on_the_digits_measures_two_presets_and_trains_with_the_faster(tmp_path: Path) -> None:
    cluster = configure(tmp_path, "auto", workers=2, iterations=ITERATIONS)
    done = run_up(cluster, timeout=300)
    assert done.returncode == 0, done.stderr
    directory = run_directory(cluster)
    trials, [choice] = said(directory, "trial"), said(directory, "choice")
    assert min(trials, key=lambda trial: trial["measured_seconds"])["preset"] == choice["preset"]
    assert f"choice     preset {choice['preset']}" in done.stdout
    assert said(directory, "finished")[0]["iterations"] == ITERATIONS
    assert len(list(directory.rglob("*.safetensors"))) == 1


@pytest.mark.slow
@pytest.mark.parametrize("clock", ["virtual", "real"])
def test_ctrl_c_during_a_trial_ends_it_in_words_and_leaves_nothing(
    tmp_path: Path, started: list[Start], clock: str
) -> None:
    here = Start(auto(tmp_path, iterations=100_000, more=VIRTUAL if clock == "virtual" else ""))
    started.append(here)
    while not any(
        '"progress"' in path.read_text() for path in tmp_path.glob("runs/*/trials/*/events.jsonl")
    ):
        assert not here.ended(PAUSE), here.said(1)
        here.look()
    here.process.send_signal(signal.SIGINT)
    assert here.ended(GONE_WITHIN), f"not heard: {here.said(0)}{here.said(1)}"
    assert (here.process.returncode, here.said(1)) == (130, "")
    assert "SIGINT: ending the run, which has not begun yet" in here.said(0)
    assert here.left() == []
    assert list((tmp_path / "runs").iterdir()) == []
