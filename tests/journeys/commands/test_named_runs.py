"""Commands that need a trained model also accept the run that trained it. They take its best model,
or else its newest checkpoint."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from nets.files import checkpoint
from nets.files.weights import read_weights
from runtime.cli.main import main
from runtime.records.run_identity import Identity
from tests.helpers.support import configure, train

RUN = "20260101-000000-digits.v2"  # the directory of a run with run.name = "digits.v2"
BEST = "best.safetensors, iteration 4"
NEWEST = "checkpoint-10000008.safetensors, iteration 8"
BEST_LINE = f"weights    {RUN}: using the best model by its tests: {BEST}\n"
NEWEST_LINE = f"weights    {RUN}: using its newest checkpoint: {NEWEST}\n"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with checkpoints of iterations 4 and 8."""
    folder = tmp_path_factory.mktemp("model")
    cluster = configure(folder, "single", iterations=8, batch=8, test=True)
    solver = folder / "solver.prototxt"
    solver.write_text(solver.read_text().replace("snapshot: 0", "snapshot: 4"))
    train(cluster)
    return folder


@pytest.fixture
def run(tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of a run with a best model and two checkpoints; the newer one has a longer
    name. A third checkpoint is just being written."""
    monkeypatch.chdir(tmp_path)
    configure(
        tmp_path,
        "single",
        iterations=8,
        batch=8,
        test=True,
        more='[run]\ndirectory = "elsewhere"\n',
    )
    found = tmp_path / "elsewhere" / RUN
    found.mkdir(parents=True)
    shutil.copy(model / "checkpoint-0000004.safetensors", found / "best.safetensors")
    shutil.copy(model / "checkpoint-0000004.safetensors", found / "checkpoint-9999999.safetensors")
    shutil.copy(model / "checkpoint-0000008.safetensors", found / "checkpoint-10000008.safetensors")
    (found / ".checkpoint-10000009.safetensors.tmp").write_bytes(b"half")
    return found


def test_test_takes_the_best_model_of_a_run_or_else_the_newest_and_names_it(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = {}
    for file, line in (
        ("best.safetensors", BEST_LINE),
        ("checkpoint-10000008.safetensors", NEWEST_LINE),
    ):
        assert main(["test", str(run / file), "--json"]) == 0
        expected = capsys.readouterr()
        assert expected.err == "", "a file that is named must be taken silently"
        for named in (str(run), f"elsewhere/{RUN}", RUN):
            assert main(["test", named, "--json"]) == 0
            assert capsys.readouterr() == (expected.out, line)
        said[file] = json.loads(expected.out)["scores"]
        (run / "best.safetensors").unlink(missing_ok=True)
    assert said["best.safetensors"] != said["checkpoint-10000008.safetensors"]


def test_test_finds_a_run_by_its_name_below_the_folder_of_the_cluster_toml_that_it_is_given(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("cluster.toml").rename("other.toml")
    assert main(["test", RUN, "other.toml"]) == 0
    assert capsys.readouterr().err == BEST_LINE


def test_predict_and_convert_take_the_same_of_a_run(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for named in (str(run), RUN):
        assert (
            main(["predict", named, "--data", "format=digits,split=test", "--top", "1", "--json"])
            == 0
        )
        said = capsys.readouterr()
        assert said.err == BEST_LINE
        assert [json.loads(line)["image"] for line in said.out.splitlines()[:2]] == [
            "digits 0",
            "digits 1",
        ]
    best = read_weights(run / "best.safetensors")
    for target, *more in (
        ["a.safetensors"],
        ["b.caffemodel"],
        ["c.caffemodel", "--state", "c.solverstate"],
    ):
        assert main(["convert", RUN, target, *more]) == 0
        assert capsys.readouterr().err == BEST_LINE
        assert (read_weights(Path(target))["ip2"][0] == best["ip2"][0]).all()


def test_a_folder_without_a_model_does_not_hide_the_run_of_its_name(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`init digits` makes such a folder, and its runs have its name."""
    Identity.new("digits", 1.0).write(run)
    Path("digits").mkdir()
    assert main(["test", "digits"]) == 0
    assert capsys.readouterr().err == BEST_LINE
    Path("empty").mkdir()
    assert main(["test", "empty"]) == 2
    assert "empty: found no best.safetensors" in capsys.readouterr().err


def test_a_run_begins_with_the_weights_of_another_and_a_warning_names_the_file(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [
        "--set",
        "train.max_iter=1",
        "--set",
        "simulation.clock=virtual",
        "--set",
        "run.directory=runs",
    ]
    assert main(["up", *words, "--set", f"train.weights=elsewhere/{RUN}"]) == 0
    assert f": train.weights: {BEST_LINE.removeprefix('weights    ')}" in capsys.readouterr().err
    (plan,) = Path("runs").glob("*/config.toml")
    assert f'weights = "elsewhere/{RUN}"' in plan.read_text()


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (
            ["test", "nobody"],
            (
                "nobody: found no such file, and no run of this name in "
                "elsewhere; expected a file of"
            ),
        ),
        (
            ["predict", "nobody", "a.png"],
            ("nobody: found no such file, and no run of this name in elsewhere; expected"),
        ),
        (
            ["convert", "nobody", "a.onnx"],
            ("nobody: found no such file, and no run of this name in elsewhere; expected"),
        ),
        (["test", "gone.safetensors"], "gone.safetensors: no such checkpoint"),
        (
            ["test", "elsewhere"],
            ("elsewhere: found no best.safetensors and no checkpoint-*.safetensors in this folder"),
        ),
        (
            ["check", "--set", "train.weights=elsewhere"],
            ("elsewhere: found no best.safetensors and no checkpoint-*.saf"),
        ),
        (
            ["check", "--set", f"train.resume=elsewhere/{RUN}"],
            (f"{RUN}: it is a folder: name a checkpoint in it, or gi"),
        ),
    ],
)
@pytest.mark.usefixtures("run")
def test_a_file_that_is_not_a_model_is_reported_with_the_expected_kind_in_one_line(
    capsys: pytest.CaptureFixture[str], words: list[str], text: str
) -> None:
    assert main(words) == 2
    said = capsys.readouterr().err
    assert text in said
    assert said.count("\n") == 1


def test_a_damaged_best_model_is_named_and_nothing_else_is_taken_in_its_place(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = (run / "best.safetensors").read_bytes()
    (run / "best.safetensors").write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    for words in (
        ["test", RUN],
        ["predict", RUN, "--data", "format=digits"],
        ["convert", RUN, "a.caffemodel"],
    ):
        assert main(words) == 2
        assert capsys.readouterr().err.endswith(
            "best.safetensors: damaged: its content does not match its SHA-256; use another one\n"
        )
    (run / "best.safetensors").write_bytes(b"")
    assert main(["check", "--set", f"train.weights=elsewhere/{RUN}"]) == 2
    assert (
        "best.safetensors: found an empty file, expected a checkpoint\n"
    ) in capsys.readouterr().err
    assert checkpoint.verify(run / "checkpoint-10000008.safetensors")
