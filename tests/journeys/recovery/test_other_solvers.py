"""A checkpoint belongs to one type of solver: its histories mean nothing to another type."""

from __future__ import annotations

from pathlib import Path

import pytest

from nets.files import checkpoint
from nets.files.histories import SOLVER
from roles.planning.strategies import PRESETS
from runtime.cli.main import main
from runtime.config.file import load_with_program
from runtime.errors import ConfigError
from tests.helpers.support import configure, run_directory, train

VIRTUAL = '[run]\ndirectory = "runs"\n[simulation]\nclock = "virtual"\n'
SOLVERS = {
    "SGD": "momentum: 0.9",
    "Nesterov": "momentum: 0.9",
    "AdaGrad": "",
    "RMSProp": "rms_decay: 0.9",
    "AdaDelta": "momentum: 0.95",
    "Adam": "momentum: 0.9 momentum2: 0.999",
}


def of_type(cluster: Path, solver: str, iterations: int) -> Path:
    """Change the solver of a cluster.toml to this type. Returns the cluster.toml."""
    text = (
        'net: "lenet.prototxt" base_lr: 0.001 lr_policy: "fixed" display: 1 type: '
        f'"{solver}" {SOLVERS[solver]}\n'
    )
    cluster.with_name("solver.prototxt").write_text(f"{text}max_iter: {iterations}\n")
    return cluster


def resuming(cluster: Path, file: Path) -> Path:
    """Let a cluster.toml resume from this checkpoint. Returns the cluster.toml."""
    cluster.write_text(cluster.read_text().replace("[train]\n", f'[train]\nresume = "{file}"\n', 1))
    return cluster


def without_type(file: Path) -> None:
    """Turn a checkpoint into one of an earlier version."""
    arrays, facts = checkpoint.load(file)
    assert facts.pop(SOLVER)
    checkpoint.save(file, arrays, facts)


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return configure(tmp_path, "single", batch=4, more=VIRTUAL)


# every type resumes from another type at least once; AdaDelta and Adam, and SGD and the rest, have
# equally many histories
PAIRS = [
    ("SGD", "AdaGrad"),
    ("SGD", "RMSProp"),
    ("SGD", "Nesterov"),
    ("SGD", "Adam"),
    ("AdaDelta", "Adam"),
    ("Nesterov", "SGD"),
    ("AdaGrad", "RMSProp"),
    ("RMSProp", "AdaGrad"),
    ("Adam", "AdaDelta"),
]


@pytest.mark.few("[SGD-AdaGrad]", "[AdaDelta-Adam]")
@pytest.mark.parametrize(("before", "after"), PAIRS)
def test_a_checkpoint_of_another_type_of_solver_is_refused_and_skipped_with_both_types(
    cluster: Path, capsys: pytest.CaptureFixture[str], before: str, after: str
) -> None:
    assert main(["up", of_type(cluster, before, 2).name]) == 0
    (file,) = run_directory(cluster).glob("checkpoint-*")
    assert checkpoint.metadata(file)[SOLVER] == before
    capsys.readouterr()
    of_type(cluster, after, 4)
    assert main(["up", "--resume", cluster.name]) == 2
    said = f"its solver is {before}, but this solver is {after}: start with train.weights"
    skipped = f"skipped runs/{run_directory(cluster).name}/{file.name}: {said}"
    assert capsys.readouterr().err.splitlines()[1:] == [skipped]
    resuming(cluster, file)
    assert main(["up", cluster.name]) == 2
    assert capsys.readouterr().err.endswith(f": train.resume: {file.absolute()}: {said}\n")
    assert len(list(Path("runs").iterdir())) == 1
    cluster.write_text(cluster.read_text().replace("resume = ", "weights = ", 1))
    assert main(["up", cluster.name]) == 0, "the remedy of the message must work"


def test_a_checkpoint_of_an_earlier_version_is_resumed_with_a_warning_that_its_type_is_not_known(
    cluster: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["up", of_type(cluster, "Adam", 2).name]) == 0
    (file,) = run_directory(cluster).glob("checkpoint-*")
    without_type(file)
    of_type(cluster, "Adam", 3)
    assert main(["up", "--resume", cluster.name]) == 0
    told = (
        f"{file.absolute()} does not name its solver: its histories are used as histories of Adam"
    )
    assert f": train.resume: {told}\n" in capsys.readouterr().err
    later = next(Path("runs").rglob("checkpoint-0000003.safetensors"))
    assert checkpoint.metadata(later)[SOLVER] == "Adam"
    of_type(cluster, "Adam", 4)
    assert main(["up", "--resume", cluster.name]) == 0
    assert "does not name its solver" not in capsys.readouterr().err


@pytest.mark.few("[single]", "[sync]", "[replicas]", "[sparknet]", "[local-fc-shards]")
@pytest.mark.parametrize("preset", PRESETS)
def test_checkpoints_of_every_preset_have_the_type_of_their_solver(
    tmp_path: Path, preset: str
) -> None:
    cluster = of_type(configure(tmp_path, preset, workers=2, batch=8), "Nesterov", 2)
    train(cluster)
    file = tmp_path / "checkpoint-0000002.safetensors"
    assert checkpoint.metadata(file)[SOLVER] == "Nesterov"
    resuming(of_type(cluster, "SGD", 4), file)
    with pytest.raises(ConfigError, match="its solver is Nesterov, but this solver is SGD: start"):
        loaded = load_with_program(cluster)
        loaded.program.plan(loaded.config, loaded.options)


def test_a_snapshot_of_caffe_has_no_type_which_is_reported_and_the_solvers_type_is_assumed(
    cluster: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    assert main(["up", of_type(cluster, "AdaGrad", 2).name]) == 0
    (file,) = run_directory(cluster).glob("checkpoint-*")
    for suffix in ("solverstate", "solverstate.h5"):
        snapshot = ["a.caffemodel", "--state", f"a.{suffix}"]
        assert main(["convert", str(file), *snapshot]) == 0
        assert caplog.messages == []
        assert main(["convert", "a.caffemodel", "b.safetensors", "--state", f"a.{suffix}"]) == 0
        told = (
            f"a.{suffix}: a solver state does not name its solver: its history "
            "is used as history of "
        )
        assert caplog.messages == [f"{told}AdaGrad"]
        caplog.clear()
        assert checkpoint.metadata(Path("b.safetensors"))[SOLVER] == "AdaGrad"
    of_type(cluster, "Adam", 4)
    capsys.readouterr()
    assert main(["convert", str(file), "c.caffemodel", "--state", "c.solverstate"]) == 2
    said = (
        f"{file.name}: its solver is AdaGrad, but this solver is Adam: expected the solver of its "
        "run, of type AdaGrad\n"
    )
    assert capsys.readouterr().err == said
    assert not Path("c.caffemodel").exists()
    without_type(file)
    of_type(cluster, "AdaGrad", 4)
    assert main(["convert", str(file), "c.caffemodel", "--state", "c.solverstate"]) == 0
    assert [text.partition(": its")[0] for text in caplog.messages] == [
        f"{file.name} does not name its solver"
    ]
