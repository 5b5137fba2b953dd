"""Checkpoints of a running run: when they are written, which ones stay, how long training waits for
them, and the effects of a broken disk."""

from __future__ import annotations

import asyncio
import errno
import itertools
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from nets.files.checkpoint import load
from roles import Options, resumed
from runtime.cli.main import main
from runtime.config.file import load_with_program
from runtime.errors import ConfigError
from runtime.records.run_identity import Identity
from tests.helpers.support import Simulated, configure, events, run_directory, run_up, train

pytestmark = pytest.mark.usefixtures("one_thread")


def configured(
    directory: Path,
    *,
    seconds: float,
    keep: int = 3,
    snapshot: int = 0,
    iterations: int = 30,
    preset: str = "single",
    paced: bool = False,
) -> Path:
    cluster = configure(
        directory, preset, workers=2, iterations=iterations, batch=4, paced=paced, pace=0.02
    )
    cluster.write_text(f"{cluster.read_text()}[checkpoint]\nseconds = {seconds}\nkeep = {keep}\n")
    solver = directory / "solver.prototxt"
    solver.write_text(solver.read_text().replace("snapshot: 0", f"snapshot: {snapshot}"))
    return cluster


def a_tenth_each(copy: float = 0.0) -> Callable[[str, str], float]:
    """The seconds of array work: an iteration takes 0.1 s, and a copy of the model takes `copy`."""
    return lambda actor, label: {"train": 0.1, "state": copy}.get(label, 0.0)


def saved(run: Simulated) -> list[int]:
    return [fields["iteration"] for fields in run.journal.of("checkpoint")]


def numbers(directory: Path) -> list[int]:
    return sorted(int(load(path)[1]["iteration"]) for path in directory.glob("*.safetensors"))


def test_checkpoints_by_time_are_added_to_those_of_the_solver_and_the_last_of_them_stay(
    tmp_path: Path,
) -> None:
    run = train(
        configured(tmp_path, seconds=0.45, keep=2, snapshot=10), service_time=a_tenth_each()
    )
    assert saved(run) == [7, 10, 17, 20, 27, 30], (
        "two iterations had been handed out when the checkpoint was due"
    )
    assert numbers(tmp_path) == [10, 17, 20, 27, 30]
    removed = [fields.get("removed") for fields in run.journal.of("checkpoint")]
    assert removed == [None] * 4 + ["checkpoint-0000007.safetensors", None]


def test_without_seconds_there_are_only_requested_checkpoints(tmp_path: Path) -> None:
    assert saved(
        train(configured(tmp_path, seconds=0, snapshot=8), service_time=a_tenth_each())
    ) == [8, 16, 24, 30]


def test_the_time_that_training_waits_for_checkpoints_is_reported_and_stays_a_hundredth(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = train(
        configured(tmp_path, seconds=0.45, iterations=70), service_time=a_tenth_each(copy=0.02)
    )
    assert saved(run) == [7, 29, 52, 70]
    assert [fields["exposed_seconds"] for fields in run.journal.of("checkpoint")] == pytest.approx(
        [0.02] * 4
    )
    told = [record.getMessage() for record in caplog.records]
    assert told == [
        (
            "training waited 0.02 s for a checkpoint: the next is due in 2 s, not "
            "0.45, so that checkpoints take 1 % of the time"
        )
    ]


def slow_disk(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    async def to_thread(work: Callable[..., Any], *given: Any) -> Any:
        await asyncio.sleep(seconds)
        return work(*given)

    monkeypatch.setattr(asyncio, "to_thread", to_thread)


def test_training_goes_on_while_a_checkpoint_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow_disk(monkeypatch, 0.05)
    run = train(configured(tmp_path, seconds=0.45, iterations=40), service_time=a_tenth_each())
    (first, *_), kinds = (
        run.journal.of("checkpoint"),
        [name for _, _, name, _ in run.journal.entries],
    )
    assert first["iteration"] == 7
    assert first["seconds"] > 1.0
    done = kinds[: kinds.index("checkpoint")].count("progress")
    assert done >= 15, "too few iterations had ended when the checkpoint of iteration 7 was written"


def test_a_disk_that_is_slower_than_the_solvers_snapshots_delays_the_run_and_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    slow_disk(monkeypatch, 0.1)
    assert saved(
        train(
            configured(tmp_path, seconds=0, snapshot=2, iterations=8), service_time=a_tenth_each()
        )
    ) == [
        2,
        4,
        6,
        8,
    ]
    told = [record.getMessage() for record in caplog.records]
    assert told
    assert all("checkpoints are requested faster than they are written" in text for text in told)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_a_disk_that_fails_for_a_while_costs_those_checkpoints_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, code: int
) -> None:
    done = 0
    real = os.fdatasync

    def service_time(actor: str, label: str) -> float:
        nonlocal done
        done += label == "train"
        return 0.1 if label == "train" else 0.0

    def fdatasync(file: int) -> None:
        if 10 <= done < 24:
            raise OSError(code, os.strerror(code))
        real(file)

    monkeypatch.setattr(os, "fdatasync", fdatasync)
    run = train(configured(tmp_path, seconds=0.45, iterations=32), service_time=service_time)
    assert saved(run) == [7, 28, 32]
    assert numbers(tmp_path) == [7, 28, 32]
    assert len(run.losses()) == 32
    assert list(tmp_path.glob(".*.tmp")) == []
    assert [record.getMessage() for record in caplog.records] == [
        f"no checkpoint: checkpoint-00000{number}.safetensors: {os.strerror(code)}; "
        "checkpoint-0000007.safetensors is the last one; training goes on, and tries again "
        "when the next is due"
        for number in (14, 21)
    ]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("seconds = -1", "checkpoint.seconds: found -1 (integer), expected seconds >= 0, 0: never"),
        ("keep = 0", "checkpoint.keep: found 0 (integer), expected an integer >= 1"),
        ("second = 1", "checkpoint.second: unknown key"),
    ],
)
def test_mistakes_in_the_section_are_reported_with_their_line(
    tmp_path: Path, line: str, text: str
) -> None:
    cluster = configure(tmp_path, "single")
    cluster.write_text(f"[checkpoint]\n{line}\n{cluster.read_text()}")
    with pytest.raises(ConfigError) as caught:
        load_with_program(cluster)
    assert f"cluster.toml:2: {text}" in str(caught.value)


def run_before(cluster: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a run directory as `up` leaves it, from a run on virtual time. Changes the working
    directory to the folder of cluster.toml."""
    monkeypatch.chdir(cluster.parent)
    directory = cluster.parent / "runs" / name
    directory.mkdir(parents=True)
    train(cluster)
    for path in cluster.parent.glob("*.safetensors"):
        path.rename(directory / path.name)
    (directory / "config.toml").write_text(f'program = "roles"\n{cluster.read_text()}')
    (directory / "events.jsonl").touch()
    began = datetime.strptime(name[:15], "%Y%m%d-%H%M%S").replace(tzinfo=UTC).timestamp()
    Identity.new("roles", began).write(directory)
    return directory


def found(cluster: Path, run: Path | None = None) -> tuple[str | None, list[str]]:
    """The checkpoint from which `up --resume` would resume, and the messages that it prints."""
    loaded = load_with_program(cluster)
    assert isinstance(loaded.options, Options)
    options, told = resumed(loaded.config, loaded.options, run)
    return options.train.resume, told


def test_a_damaged_file_another_net_and_another_preset_are_skipped_each_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = configured(tmp_path, seconds=0, snapshot=2, iterations=6, preset="sync")
    old = run_before(cluster, "20260101-000000-roles", monkeypatch)
    text = cluster.read_text()
    cluster.write_text(text.replace('"sync"', '"replicas"'))
    other = run_before(cluster, "20260102-000000-roles", monkeypatch)
    cluster.write_text(
        text.replace("[train]\n", '[train]\nnet = "cifar10_quick"\n').replace(
            ('train = { format = "digits", split = "train" }'),
            'train = { format = "synthetic", shape = [3, 32, 32] }',
        )
    )
    foreign = run_before(cluster, "20260103-000000-roles", monkeypatch)
    cluster.write_text(text)
    last = old / "checkpoint-0000006.safetensors"
    data = last.read_bytes()
    last.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    path, told = found(cluster)
    assert path == str(old / "checkpoint-0000004.safetensors")
    *skipped, taken = [line.replace("runs/", "") for line in told]
    assert taken == f"resumes    {old.name}/checkpoint-0000004.safetensors: iteration 4"
    assert [line.partition(": ")[0] for line in skipped] == [
        *(f"skipped {foreign.name}/checkpoint-{number:07d}.safetensors" for number in (6, 4, 2)),
        f"skipped {other.name}",
        f"skipped {old.name}/checkpoint-0000006.safetensors",
    ]
    assert "the checkpoint of net 'CIFAR10_quick' does not fit this net and solver" in skipped[0]
    assert skipped[3].endswith(
        "it had preset 'replicas', this one has 'sync': to resume it anyway, use --resume "
        f"{other.name}"
    )
    assert skipped[4].endswith("damaged: its content does not match its SHA-256; use another one")
    for named in (Path(other.name), other):
        path, (told_of,) = found(cluster, named)
        assert path == str(other / "checkpoint-0000006.safetensors")
        assert told_of.endswith("iteration 6, of a run with preset 'replicas'")


def test_train_resume_gives_way_to_a_checkpoint_that_is_found_and_that_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = configured(tmp_path, seconds=0, iterations=2)
    run = run_before(cluster, "20260101-000000-roles", monkeypatch)
    cluster.write_text(
        cluster.read_text().replace("[train]\n", ('[train]\nresume = "gone.safetensors"\n'))
    )
    path, (told,) = found(cluster)
    assert path == str(run / "checkpoint-0000002.safetensors")
    assert told.endswith("iteration 2, in place of train.resume = 'gone.safetensors'")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (
            ["--resume"],
            "--resume: found no checkpoint to resume in runs, among 0 runs with the name 'lenet' or "
            "'roles'; --resume NAME takes a run of another name\n",
        ),
        (
            ["--resume", "gone"],
            "--resume gone: found no such folder, expected a run directory, as those in runs, "
            "or the name of a run there\n",
        ),
        (["--resume", "a", "b"], "--resume a b: expected at most one run directory\n"),
    ],
)
def test_without_a_checkpoint_to_resume_from_up_ends_in_words(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    text: str,
) -> None:
    cluster = configured(tmp_path, seconds=0)
    monkeypatch.chdir(tmp_path)
    assert main(["up", cluster.name, *words]) == 2
    assert capsys.readouterr().err == text
    assert not (tmp_path / "runs").exists()


def test_a_program_that_cannot_resume_reports_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "rests.py").write_text("ROLES = {}\ndef plan(config, options): ...\n")
    (tmp_path / "cluster.toml").write_text('program = "rests"\n')
    assert main(["up", str(tmp_path / "cluster.toml"), "--resume"]) == 2
    assert capsys.readouterr().err == (
        "--resume: program 'rests' cannot resume a run: it has no resumed()\n"
    )


@pytest.mark.slow
def test_a_real_run_writes_checkpoints_during_training_and_reports_its_waits(
    tmp_path: Path,
) -> None:
    # the run lasts for 1.2 s at least
    cluster = configured(tmp_path, seconds=0.2, iterations=60, preset="sync", paced=True)
    done = run_up(cluster, "--set", "train.base_lr=0.001")
    assert done.returncode == 0, done.stderr
    *timed, _ = events(run_directory(cluster), "checkpoint")
    assert timed
    (finished,) = events(run_directory(cluster), "finished")
    waits = [entry["exposed_seconds"] for entry in timed]
    assert sum(waits) <= 0.01 * finished["seconds"] + max(waits)
    for earlier, later in itertools.pairwise(timed):
        # a slow machine waits longer for a checkpoint, so its next one comes later
        assert later["t"] - earlier["t"] >= max(0.2, 100 * earlier["exposed_seconds"]) - 0.05
    assert 2 <= len(list(run_directory(cluster).glob("*.safetensors"))) <= 4
