"""`predict` and `test` with several WEIGHTS: the average of what these nets give each image."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from nets import load_net
from nets.data import Transform, open_source
from nets.files import checkpoint
from nets.files.weights import read_weights, write_weights
from nets.predict import Deployment, Ensemble, Predictor, Seen
from nets.predict.deployment import KEY
from ops import get_backend
from runtime.cli.main import main
from runtime.records.run_identity import Identity
from tests.helpers.support import configure, train

DIGITS = {"format": "digits", "split": "test"}
COUNT = 359  # the digits' test images
SMALL = """
layer { name: "in" type: "Data" top: "data" top: "label" transform_param { scale: 0.01 }
  data_param { batch_size: 4 } }
layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip"
  inner_product_param { num_output: 10 } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with three nets that differ in their seed, trained for 8 iterations, and a fourth
    that reads images of another scale."""
    folder = tmp_path_factory.mktemp("ensemble")
    for seed in (3, 2, 1):
        found = train(configure(folder, "single", iterations=8, seed=seed, test=True))
        shutil.move(
            folder / found.journal.of("checkpoint")[-1]["file"], folder / f"{seed}.safetensors"
        )
    arrays, facts = checkpoint.load(folder / "1.safetensors")
    said = json.loads(facts[KEY])
    said["transform"]["scale"] /= 2
    arrays["conv1.0"] = np.asarray(arrays["conv1.0"]) * 2
    checkpoint.save(folder / "scaled.safetensors", arrays, {**facts, KEY: json.dumps(said)})
    return folder


@pytest.fixture
def here(trained: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(trained)
    return trained


def names(*members: object) -> list[str]:
    return [f"{member}.safetensors" for member in members]


def digits() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    images, labels = open_source(DIGITS, Path()).read(np.arange(COUNT))
    return images, labels


def mean_of(*members: object) -> np.ndarray[Any, Any]:
    backend = get_backend("numpy")
    images, _ = digits()
    return np.mean(
        [Predictor.load(name, backend=backend).scores(images) for name in names(*members)], axis=0
    )


@pytest.mark.usefixtures("here")
def test_test_scores_each_member_and_the_averaged_probabilities(
    capsys: pytest.CaptureFixture[str],
) -> None:
    expected = mean_of(1, 2, 3)
    _, labels = digits()
    own = expected[np.arange(COUNT), labels]
    alone = []
    for name in names(1, 2, 3):
        assert main(["test", name, "--json", "--top", "2"]) == 0
        alone.append(json.loads(capsys.readouterr().out))
    assert main(["test", *names(1, 2, 3), "--json", "--top", "2", "--confusion"]) == 0
    told = capsys.readouterr()
    found = json.loads(told.out)
    assert found.pop("members") == [
        {"weights": name, **one} for name, one in zip(names(1, 2, 3), alone, strict=True)
    ]
    right = expected.argmax(axis=1) == labels
    assert found["scores"] == {
        "accuracy": pytest.approx(right.mean()),
        "loss": pytest.approx(-np.log(own).mean(), abs=1e-5),
    }
    among = (np.argsort(-expected)[:, :2] == labels[:, None]).any(axis=1)
    assert found["top"] == {"k": 2, "accuracy": pytest.approx(among.mean()), "labels": COUNT}
    assert np.trace(found["confusion"]) == right.sum()
    assert found["classes"] == list("0123456789")
    assert "missing" not in found
    assert told.err == f"ensemble   the average of 3 nets: {' '.join(names(1, 2, 3))}\n"


@pytest.mark.usefixtures("here")
def test_test_prints_a_line_for_each_score_of_each_member_and_of_the_ensemble(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["test", *names(1, 2), "cluster.toml", "--top", "2", "--confusion"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [
        line.partition(" 0.")[0].partition(" 1.")[0].partition(" 2.")[0] for line in lines[:9]
    ] == [
        f"{name}: {score}"
        for name in (*names(1, 2), "ensemble")
        for score in ("accuracy", "loss", "top-2 accuracy")
    ]
    assert all(line.endswith(" on 359 images") or " on 359 labels" in line for line in lines[:9])
    assert lines[9].split() == ["label", *"0123456789", "found"]
    assert len(lines) == 20


@pytest.mark.usefixtures("here")
def test_predict_averages_the_members_for_files_and_sources(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = mean_of(1, 2, 3)
    words = ["predict", *names(1, 2, 3)]
    assert main([*words, "--data", "format=digits,split=test", "--json", "--top", "10"]) == 0
    told = capsys.readouterr()
    assert told.err == f"ensemble   the average of 3 nets: {' '.join(names(1, 2, 3))}\n"
    for line, row in zip(told.out.splitlines(), expected, strict=True):
        scores = {each["number"]: each["score"] for each in json.loads(line)["classes"]}
        assert [scores[at] for at in range(10)] == pytest.approx(row, abs=1e-4)
    images, _ = digits()
    Image.fromarray(images[0][0]).save(tmp_path / "0.png")
    (tmp_path / "broken.png").touch()
    assert main([*words, str(tmp_path), "--json"]) == 1
    of_file, broken = map(json.loads, capsys.readouterr().out.splitlines())
    assert of_file["classes"][0]["score"] == pytest.approx(expected[0].max(), abs=1e-4)
    assert "error" in broken


@pytest.mark.usefixtures("here")
def test_a_member_with_another_transform_computes_with_its_own(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The fourth net computes the same as the first: its transform halves the images, and its first
    weights double them."""
    assert main(["test", *names(1, "scaled"), "--json"]) == 0
    told = capsys.readouterr()
    assert "ensemble   scaled.safetensors: its own net and transform are used\n" in told.err
    one, other = (each["scores"] for each in json.loads(told.out)["members"])
    assert other == {name: pytest.approx(value, abs=1e-4) for name, value in one.items()}
    assert main(["test", *names("scaled", 1), "--json"]) == 0
    again, found = capsys.readouterr().out, json.loads(told.out)
    assert json.loads(again)["scores"] == pytest.approx(found["scores"], abs=1e-4)
    together = Ensemble.load(names(1, "scaled"), backend=get_backend("numpy"))
    images, labels = digits()
    right = (together.scores(images).argmax(axis=1) == labels).mean()
    assert found["scores"]["accuracy"] == pytest.approx(right)


@pytest.mark.usefixtures("here")
def test_a_member_may_be_another_net_that_reads_smaller_images(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "small.prototxt").write_text(SMALL)
    spec = load_net(tmp_path / "small.prototxt").for_phase("TEST")
    seen = Seen((1, 14, 14), "gray", (), {"data": (1, 14, 14), "label": ()})
    said = Deployment.of(spec, seen, Transform.of_net(spec, "TEST"))
    small = str(tmp_path / "small.safetensors")
    weight = np.random.default_rng(1).normal(0, 0.1, (10, 196)).astype("f4")
    checkpoint.save(
        Path(small), {"ip.0": weight, "ip.1": np.zeros(10, "f4")}, {KEY: said.to_text()}
    )
    together = Ensemble.load(["1.safetensors", small], backend=get_backend("numpy"))
    images, labels = digits()
    expected = together.scores(images)
    for members in (["1.safetensors", small], [small, "1.safetensors"]):
        assert main(["test", *members, "--json"]) == 0
        told = capsys.readouterr()
        assert f"ensemble   {small}: its own net and transform are used\n" in told.err
        assert json.loads(told.out)["scores"] == {
            "accuracy": pytest.approx((expected.argmax(axis=1) == labels).mean()),
            "loss": pytest.approx(-np.log(expected[np.arange(COUNT), labels]).mean(), abs=1e-5),
        }


@pytest.mark.usefixtures("here")
def test_members_may_be_files_of_caffe_s_in_parts_and_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    weights = read_weights(Path("2.safetensors"))
    parts = [tmp_path / f"{start}.caffemodel" for start in ("conv", "ip")]
    for part in parts:
        of = {name: blobs for name, blobs in weights.items() if name.startswith(part.stem)}
        write_weights(part, of)
    run = Path("runs", "20260101-000000-digits")
    run.mkdir(parents=True)
    Identity.new("digits", 1.0).write(run)
    shutil.copy("3.safetensors", run / "best.safetensors")
    assert main(["test", *names(1, 2, 3), "--json"]) == 0
    expected = json.loads(capsys.readouterr().out)
    assert main(["test", "1.safetensors", ",".join(map(str, parts)), "digits", "--json"]) == 0
    told = capsys.readouterr()
    assert json.loads(told.out)["scores"] == expected["scores"]
    assert f"weights    {run.name}: using the best model by its tests: best.safetensors" in told.err
    shutil.rmtree("runs")


@pytest.mark.usefixtures("here")
def test_a_label_that_the_loss_ignores_is_not_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    net = load_net("lenet").path.read_text()
    kind = 'type: "SoftmaxWithLoss"'
    assert kind in net
    (tmp_path / "net.prototxt").write_text(
        net.replace(kind, f"{kind} loss_param {{ ignore_label: 3 }}")
    )
    _, labels = digits()
    known = labels != 3
    for members in (names(1), names(1, 2)):
        words = ["--set", f"train.net={tmp_path / 'net.prototxt'}", "--top", "1", "--json"]
        assert main(["test", *members, *words]) == 0
        found = json.loads(capsys.readouterr().out)
        expected = mean_of(*(Path(name).stem for name in members))
        right = expected.argmax(axis=1)[known] == labels[known]
        assert found["top"] == {
            "k": 1,
            "accuracy": pytest.approx(right.mean()),
            "labels": known.sum(),
        }
        own = expected[known, labels[known]]
        if len(members) > 1:
            assert found["scores"]["loss"] == pytest.approx(-np.log(own).mean(), abs=1e-5)


@pytest.mark.usefixtures("here")
def test_an_ensemble_of_other_classes_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arrays, facts = checkpoint.load(Path("1.safetensors"))
    said = json.loads(facts[KEY])
    said["classes"] = ["nought", *said["classes"][1:]]
    other = str(tmp_path / "other.safetensors")
    checkpoint.save(Path(other), arrays, {**facts, KEY: json.dumps(said)})
    for words in (["test"], ["predict", "--data", "format=digits"]):
        assert main([words[0], "1.safetensors", other, *words[1:]]) == 2
        text = f"found class 0: 'nought' and '0' in {other} and 1.safetensors: nets of an ensemble"
        assert text in capsys.readouterr().err


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (
            ["test", "1.safetensors", "./1.safetensors"],
            "./1.safetensors: found the same weights as",
        ),
        (["test", "1.safetensors", "gone.h5"], "gone.h5: no such file"),
        (
            ["test", "1.safetensors", "nobody"],
            "nobody: found no such file, and no run of this name",
        ),
        (["test", "1.safetensors", "a.toml", "b.toml"], "found a.toml, b.toml, expected one descr"),
        (["predict", "1.safetensors", "2.safetensors"], "predict: found neither images nor --data"),
        (["predict", "1.safetensors", "x.png", "2.safetensors"], "found weights after the image x"),
        (["predict", "1.safetensors", "no.h5", "x.png"], "no.h5: no such file"),
    ],
)
def test_mistakes_are_reported_in_words(
    words: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    said = capsys.readouterr()
    assert expected in said.err
    assert said.out == ""
