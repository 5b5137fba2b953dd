"""Runs that keep the best model and end early: in every kind of preset, resumed, with groups and a
tuner."""

from __future__ import annotations

from pathlib import Path

import pytest

from nets.files import checkpoint
from nets.predict import Predictor
from runtime.cli.main import main
from tests.helpers.support import Simulated, configure, events, run_directory, run_up, train

pytestmark = pytest.mark.usefixtures("one_thread")

STOP = "[train.stop]\nby = 'loss'\npatience = 2\nmin_delta = 0.2\n"
BEST = "[checkpoint]\nbest = 'accuracy'\n"
PRESETS = [
    ("single", 1, 1),
    ("sync", 2, 1),
    ("omnivore", 2, 2),
    ("replicas", 2, 1),
    ("firecaffe", 2, 1),
    ("async", 2, 1),
    ("host-accumulate", 2, 1),
    ("parameter-server", 2, 1),
    ("one-weird-trick", 2, 1),
    ("local-fc-shards", 2, 1),
    ("sparknet", 2, 1),
    ("adam", 2, 2),
]


def configured(
    directory: Path,
    preset: str = "single",
    workers: int = 1,
    groups: int = 1,
    *,
    iterations: int = 60,
    more: str = BEST + STOP,
    snapshot: int = 0,
    last: bool = True,
) -> Path:
    """A cluster.toml with a test of 40 images every four iterations."""
    cluster = configure(
        directory,
        preset,
        workers=workers,
        groups=groups,
        iterations=iterations,
        test=True,
        batch=16,
    )
    file = directory / "solver.prototxt"
    text = file.read_text().replace("snapshot: 0", f"snapshot: {snapshot}")
    file.write_text(
        (f"{text}\ntest_interval: 4 test_iter: 1\n")
        + ("" if last else "snapshot_after_train: false\n")
    )
    cluster.write_text(cluster.read_text() + more)
    return cluster


def resume_from(cluster: Path, file: Path) -> None:
    cluster.write_text(cluster.read_text().replace("[train]\n", f"[train]\nresume = '{file}'\n", 1))


def scores(run: Simulated, name: str = "loss") -> list[tuple[int, float]]:
    return [(fields["iteration"], fields[name]) for fields in run.journal.of("test")]


def ends_at(tests: list[tuple[int, float]], patience: int = 2, delta: float = 0.2) -> int:
    """The rule for the end, written a second time as a loop over the tests of a loss."""
    best = tests[0][1]
    since = 0
    for iteration, value in tests[1:]:
        if value < best - delta:
            best = value
            since = 0
        else:
            since += 1
        if since == patience:
            return iteration
    return -1


@pytest.mark.few("[single-", "[omnivore-")
@pytest.mark.parametrize(("preset", "workers", "groups"), PRESETS)
def test_a_run_ends_when_its_tests_stop_improving_and_keeps_its_best_model(
    tmp_path: Path, preset: str, workers: int, groups: int
) -> None:
    run = train(configured(tmp_path, preset, workers, groups))
    (stopped,) = run.journal.of("stopping early")
    tests = scores(run)
    assert stopped["iteration"] == ends_at(tests) == tests[-1][0] < 60
    assert run.journal.of("finished")[-1]["iterations"] == stopped["iteration"]
    best = run.journal.of("best")
    accuracies = scores(run, "accuracy")
    top = max(value for _, value in accuracies)
    assert (best[-1]["iteration"], best[-1]["accuracy"]) == next(
        each for each in accuracies if each[1] == top
    )
    arrays, facts = checkpoint.load(tmp_path / "best.safetensors")
    assert int(facts["iteration"]) == best[-1]["iteration"]
    assert set(arrays) == set(run.arrays)
    last = run.journal.of("checkpoint")[-1]["file"]
    assert int(checkpoint.load(tmp_path / last)[1]["iteration"]) == stopped["iteration"]


def test_a_resumed_run_ends_where_the_unbroken_one_does_with_its_best_model(
    tmp_path: Path,
) -> None:
    whole = train(configured(tmp_path / "whole", snapshot=8))
    (stopped,) = whole.journal.of("stopping early")
    assert stopped["iteration"] > 8
    cluster = configured(tmp_path / "rest")
    resume_from(cluster, tmp_path / "whole" / "checkpoint-0000008.safetensors")
    rest = train(cluster)
    assert rest.journal.of("stopping early") == [stopped]
    assert (tmp_path / "rest" / "best.safetensors").read_bytes() == (
        tmp_path / "whole" / "best.safetensors"
    ).read_bytes()


@pytest.mark.slow
def test_a_run_that_ended_early_is_resumed_only_with_more_patience(tmp_path: Path) -> None:
    first = train(configured(tmp_path / "first"))
    ended = first.journal.of("finished")[-1]["iterations"]
    file = tmp_path / "first" / first.journal.of("checkpoint")[-1]["file"]
    again = configured(tmp_path / "again")
    resume_from(again, file)
    same = train(again, checkpoint=False)
    assert same.journal.of("finished")[-1]["iterations"] == ended
    assert same.journal.of("stopping early")[-1]["tests_since"] == 2
    longer = configured(tmp_path / "longer", more=STOP.replace("patience = 2", "patience = 4"))
    resume_from(longer, file)
    assert train(longer).journal.of("finished")[-1]["iterations"] > ended


def test_the_best_model_is_kept_where_no_other_is_saved_and_no_other_metadata_changes(
    tmp_path: Path,
) -> None:
    run = train(configured(tmp_path / "a", iterations=8, more=BEST, last=False), checkpoint=False)
    assert not run.journal.of("checkpoint")
    assert (tmp_path / "a" / "best.safetensors").is_file()
    plain = train(configured(tmp_path / "b", iterations=8, more=""))
    facts = checkpoint.load(tmp_path / "b" / plain.journal.of("checkpoint")[-1]["file"])[1]
    assert set(facts) == {
        "iteration",
        "images",
        "net",
        "seed",
        "solver",
        "batch",
        "losses",
        "deployment",
    }


def test_where_a_checkpoint_is_due_too_the_best_model_is_that_file(tmp_path: Path) -> None:
    run = train(configured(tmp_path, iterations=12, more=BEST, snapshot=4))
    best = run.journal.of("best")[-1]["iteration"]
    assert [each["iteration"] for each in run.journal.of("checkpoint")] == [4, 8, 12]
    assert (tmp_path / "best.safetensors").samefile(tmp_path / f"checkpoint-{best:07d}.safetensors")
    (tmp_path / f"checkpoint-{best:07d}.safetensors").unlink()
    assert int(checkpoint.verify(tmp_path / "best.safetensors")["iteration"]) == best


@pytest.mark.slow
def test_a_real_run_ends_early_with_exit_code_0_and_its_best_model_can_be_used(
    tmp_path: Path,
) -> None:
    cluster = configured(tmp_path, "sync", 2)
    ended = run_up(cluster)
    assert ended.returncode == 0, ended.stderr
    directory = run_directory(cluster)
    (stopped,) = events(directory, "stopping early")
    assert events(directory, "finished")[-1]["iterations"] == stopped["iteration"]
    assert "stopping early iteration" in ended.stdout
    assert Predictor.load(directory / "best.safetensors").classes == tuple("0123456789")


@pytest.mark.slow
def test_a_run_with_a_tuner_ends_early_too(tmp_path: Path) -> None:
    cluster = configured(tmp_path, "omnivore", 2, iterations=400)
    cluster.write_text(cluster.read_text().replace("groups = 1", 'groups = "auto"'))
    ended = run_up(cluster)
    assert ended.returncode == 0, ended.stderr
    directory = run_directory(cluster)
    (stopped,) = events(directory, "stopping early")
    tests = [(each["iteration"], each["loss"]) for each in events(directory, "test")]
    assert stopped["iteration"] == ends_at(tests)
    assert (directory / "best.safetensors").is_file()


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (
            ["checkpoint.best=acuracy"],
            ("tests report no such score (did you mean 'accuracy'?); they report accuracy, loss"),
        ),
        (
            ["train.stop={by='top5',patience=1}"],
            ("train.stop: found 'top5', but tests report no such score"),
        ),
        (["train.stop={by='loss',patience=0}"], "train.stop.patience: found 0"),
        (["train.stop={by='loss'}"], "train.stop.patience: missing"),
        (
            ["train.stop={patience=3}", "train.solver='never.prototxt'"],
            "the solver tests at the end only",
        ),
        (["checkpoint.best=loss", "train.data={train={format='digits'}}"], "but nothing is tested"),
    ],
)
def test_a_score_that_cannot_be_watched_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], settings: list[str], expected: str
) -> None:
    cluster = configured(tmp_path, more="")
    (tmp_path / "never.prototxt").write_text(
        (tmp_path / "solver.prototxt").read_text().replace("interval: 4", "interval: 0")
    )
    assert main(["check", str(cluster), *(f"--set={each}" for each in settings)]) == 2
    assert expected in capsys.readouterr().err
