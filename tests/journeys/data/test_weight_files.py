"""Weights of one net in two files, wherever a user names weights: the solver's field,
train.weights, `predict`, `test` and `convert`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from nets.files.checkpoint import save
from nets.files.weights import read_weights, write_weights
from runtime.cli.main import main
from tests.helpers.support import configure, train
from tests.nets.support import lenet, some_values

BOTH = "conv.caffemodel,ip.h5"


@pytest.fixture
def whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple[np.ndarray, ...]]:
    """LeNet's weights, which are also in the files conv.caffemodel and ip.h5 of this folder, next to
    a cluster.toml that hardly changes them."""
    monkeypatch.chdir(tmp_path)
    configure(tmp_path, "single", iterations=1, test=True)
    solver = Path("solver.prototxt")
    solver.write_text(solver.read_text().replace("base_lr: 0.01", "base_lr: 0"))
    weights = {
        layer: tuple(map(np.asarray, of))
        for layer, of in some_values(lenet("TEST", batch=1)).items()
    }
    for file in BOTH.split(","):
        part = {name: of for name, of in weights.items() if name.startswith(Path(file).stem)}
        write_weights(Path(file), part)
    return weights


def named_in_train(value: str) -> None:
    cluster = Path("cluster.toml")
    cluster.write_text(cluster.read_text().replace("[train]\n", f"[train]\nweights = {value}\n", 1))


def named_in_solver(value: str) -> None:
    with Path("solver.prototxt").open("a") as file:
        file.write(f"weights: {value}\n")


WAYS = pytest.mark.parametrize(
    ("name", "value"),
    [
        (named_in_train, f'"{BOTH}"'),
        (named_in_train, '"conv.caffemodel , ip.h5"'),
        (named_in_train, '["conv.caffemodel", "ip.h5"]'),
        (named_in_train, '["whole,in.one.caffemodel"]'),
        (named_in_train, '"whole,in.one.caffemodel"'),
        (named_in_solver, f'"{BOTH}"'),
        (named_in_solver, '"conv.caffemodel" weights: "ip.h5"'),
        (named_in_solver, '"whole,in.one.caffemodel"'),
    ],
)


@WAYS
def test_a_run_starts_from_the_weights_of_several_files(
    whole: dict[str, tuple[np.ndarray, ...]], name: Callable[[str], None], value: str
) -> None:
    write_weights(Path("whole,in.one.caffemodel"), whole)
    name(value)
    found = train(Path("cluster.toml")).arrays
    for layer, blobs in whole.items():
        assert (found[f"{layer}.0"] == blobs[0]).all()


def test_test_predict_and_convert_take_the_same_names(
    whole: dict[str, tuple[np.ndarray, ...]], capsys: pytest.CaptureFixture[str]
) -> None:
    write_weights(Path("one,file.safetensors"), whole)
    predict = ["--net", "lenet", "--size", "28x28", "--data", "format=digits,split=test"]
    said = []
    for named in (BOTH, "one,file.safetensors", "./conv.caffemodel, ip.h5"):
        assert main(["test", named, "--json"]) == 0
        assert main(["predict", named, *predict, "--json"]) == 0
        said.append(capsys.readouterr())
        assert main(["convert", named, "out.caffemodel", "--net", "lenet"]) == 0
        assert (read_weights(Path("out.caffemodel"))["ip1"][0] == whole["ip1"][0]).all()
        capsys.readouterr()
    assert said[0].err == ""
    assert said[0].out == said[1].out == said[2].out
    for target in ("x.onnx", "x.safetensors"):
        net = ["--net", "lenet", "--new-height", "28", "--new-width", "28"]
        assert main(["convert", BOTH, target, *(net if target == "x.onnx" else ())]) == 0


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["test", "conv.caffemodel,no.h5"], "no.h5: no such file\n"),
        (["predict", "conv.caffemodel,no.h5", "x.png", "--net", "lenet"], "no.h5: no such file\n"),
        (["convert", "no.h5,conv.caffemodel", "x.h5"], "no.h5: no such file\n"),
        (
            ["convert", "conv.caffemodel,nobody", "x.h5"],
            "nobody: found no such file, and no run of",
        ),
        (["test", "conv.caffemodel,"], "'conv.caffemodel,': found an empty name next to a comma"),
        (
            ["check", "--set", "train.weights=conv.caffemodel,no.h5"],
            "/no.h5: no such file\n",
        ),
        (
            ["check", "--set", "train.weights=['conv.caffemodel', 'no.h5', 'gone.caffemodel']"],
            "/gone.caffemodel: no such file\n",
        ),
        (
            ["check", "--set", "train.weights=[]"],
            "train.weights: found an array, expected a non-empty string or a non-empty array",
        ),
    ],
)
@pytest.mark.usefixtures("whole")
def test_a_missing_part_is_named(
    words: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    said = capsys.readouterr().err
    assert expected in said
    assert "Traceback" not in said
    assert not Path("x.h5").exists()


@pytest.mark.usefixtures("whole")
def test_a_missing_part_of_the_solver_s_field_is_named_with_its_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    named_in_solver('"conv.caffemodel, no.h5"')
    assert main(["check"]) == 2
    text = "key 'weights': found 'no.h5', but no such file exists here or next to the solver"
    assert text in capsys.readouterr().err


@pytest.mark.usefixtures("whole")
def test_a_layer_in_both_files_is_reported_by_every_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    write_weights(Path("more.h5"), {"ip2": (np.zeros((10, 500), "f4"), np.zeros(10, "f4"))})
    named = f"{BOTH},more.h5"
    predict = ["--net", "lenet", "--size", "28x28", "--data", "format=digits", "--top", "1"]
    for words in (
        ["test", named],
        ["predict", named, *predict],
        ["convert", named, "x.h5"],
        ["check", "--set", f"train.weights={named}"],
    ):
        capsys.readouterr()
        caplog.clear()
        assert main(words) == 0
        told = capsys.readouterr().err + caplog.text
        for file in ("ip.h5", "more.h5"):
            assert file in told
        assert "layers ip2: the weights in " in told
    assert (read_weights(Path("x.h5"))["ip2"][0] == 0).all()


def test_two_files_of_one_name_are_both_compared_between_machines(tmp_path: Path) -> None:
    from roles.base.reads import ReadsJob
    from roles.planning.planner import job_of
    from runtime.config.file import load_with_program

    cluster = configure(tmp_path, "single", iterations=1)
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        save(tmp_path / folder / "w.safetensors", {"ip2.1": np.zeros(10, "f4")}, {"of": folder})
    text = cluster.read_text()
    named = '["one/w.safetensors", "two/w.safetensors"]'
    cluster.write_text(text.replace("[train]\n", f"[train]\nweights = {named}\n", 1))
    loaded = load_with_program(cluster)
    reads = ReadsJob()
    reads._job = job_of(loaded.config, loaded.options)
    found = {name: what for name, what in reads.reads().items() if "train.weights" in name}
    assert list(found) == ["train.weights 1 w.safetensors", "train.weights 2 w.safetensors"]
    assert len(set(found.values())) == 2
