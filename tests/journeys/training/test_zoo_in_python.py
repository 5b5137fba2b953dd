"""The zoo's nets in Python train by name with their own solvers, start from weights with the names
of torch's modules, and are used like every other net."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from nets import Net, load_net
from nets.definition.zoo import NETS
from nets.files.shared import Weights
from nets.files.weights import load_weights, write_weights
from ops import get_backend
from runtime.cli.main import main
from tests.helpers.support import train
from tests.nets.support import some_values

SMALL = "mobilenet_v3_small(classes=10, image=32)"
CLUSTER = """
[train]
net = "{net}"
solver = "{solver}_solver"
batch = 4
max_iter = 2
kernels = "numpy"
{more}
[train.data]
train = {{ format = "synthetic", shape = [3, 36, 36], classes = 10, size = 8 }}
{test}
[train.strategy]
preset = "{preset}"
workers = {workers}
"""
TEST = 'test = { format = "synthetic", shape = [3, 36, 36], classes = 10, size = 8 }'


def configured(
    directory: Path, name: str, preset: str = "single", more: str = "", test: str = ""
) -> Path:
    file = directory / "cluster.toml"
    net = f"{name}(classes=10, image=32)"
    workers = 1 if preset == "single" else 2
    file.write_text(
        CLUSTER.format(net=net, solver=name, preset=preset, workers=workers, more=more, test=test)
    )
    return file


@pytest.fixture
def weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Weights:
    """Values of the small net, which are also in the file w.safetensors of this folder, with the
    names of torch's modules."""
    monkeypatch.chdir(tmp_path)
    net = Net(load_net(SMALL), "TEST", ops=get_backend("numpy"), input_shape=(3, 36, 36), batch=1)
    found = {layer: tuple(map(np.asarray, of)) for layer, of in some_values(net).items()}
    write_weights(Path("w.safetensors"), found, net.spec, torch=True)
    return found


@pytest.mark.few("[mobilenet_v3_small]")
@pytest.mark.parametrize("name", sorted(NETS))
def test_every_net_trains_by_name_with_its_own_solver(tmp_path: Path, name: str) -> None:
    journal = train(configured(tmp_path, name), checkpoint=False).journal
    losses = [event["loss"] for event in journal.of("progress")]
    assert np.isfinite(losses).all()


@pytest.mark.few("[sync]", "[one-weird-trick]")
@pytest.mark.parametrize(
    "preset", ["sync", "omnivore", "one-weird-trick", "local-fc-shards", "firecaffe", "replicas"]
)
def test_presets_that_cut_nets_train_them(tmp_path: Path, preset: str) -> None:
    journal = train(configured(tmp_path, "mobilenet_v3_small", preset), checkpoint=False).journal
    assert np.isfinite(journal.of("progress")[-1]["loss"])


def test_a_run_starts_from_torchs_names_and_keeps_the_statistics(weights: Weights) -> None:
    more = 'weights = "w.safetensors"\nbase_lr = 1e-12'
    found = train(configured(Path(), "mobilenet_v3_small", more=more)).arrays
    for layer, blobs in weights.items():
        if len(blobs) < 3:
            for at, blob in enumerate(blobs):
                assert np.allclose(found[f"{layer}.{at}"], blob, rtol=1e-6, atol=1e-9), layer
    # 64 batches from the file, 1 - 0.99 of which two updates forget, and two batches
    assert found["features.0.1.2"] == pytest.approx(64 * 0.99**2 + 0.99 + 1)


def test_weights_return_under_torchs_names(weights: Weights) -> None:
    assert main(["convert", "w.safetensors", "c.safetensors", "--net", SMALL]) == 0
    assert main(["convert", "c.safetensors", "b.safetensors", "--net", SMALL, "--torch"]) == 0
    assert Path("b.safetensors").read_bytes() == Path("w.safetensors").read_bytes()


def test_predict_reads_torchs_names_and_gives_the_net_red_first(
    weights: Weights, capsys: pytest.CaptureFixture[str]
) -> None:
    image = np.random.default_rng(1).integers(0, 256, (32, 32, 3), np.uint8)
    Path("x.ppm").write_bytes(b"P6 32 32 255\n" + image.tobytes())  # red, green, blue
    assert (
        main(["predict", "w.safetensors", "x.ppm", "--net", SMALL, "--size", "32x32", "--json"])
        == 0
    )
    found = json.loads(capsys.readouterr().out)["classes"][0]
    net = Net(load_net(SMALL), "TEST", ops=get_backend("numpy"), input_shape=(3, 32, 32), batch=1)
    blobs = load_weights(Path("w.safetensors"), net.params, net.spec.layers).blobs
    mean, deviation = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
    planes = (image.transpose(2, 0, 1) / 255 - np.reshape(mean, (3, 1, 1))) / np.reshape(
        deviation, (3, 1, 1)
    )
    net.run({"data": planes[None].astype(np.float32), "label": np.zeros(1)}, blobs)
    scores = np.asarray(net.blob("classifier.3"))[0]
    likely = np.exp(scores - scores.max())
    assert found["number"] == int(scores.argmax())
    assert found["score"] == pytest.approx(likely.max() / likely.sum(), rel=1e-3)


def test_a_checkpoint_of_such_a_net_describes_itself(
    weights: Weights, capsys: pytest.CaptureFixture[str]
) -> None:
    more = 'weights = "w.safetensors"\nbase_lr = 1e-12'
    cluster = configured(Path(), "mobilenet_v3_small", more=more, test=TEST)
    journal = train(cluster, checkpoint=False).journal
    file = journal.of("checkpoint")[-1]["file"]
    image = np.random.default_rng(1).integers(0, 256, (40, 40, 3), np.uint8)
    Path("x.ppm").write_bytes(b"P6 40 40 255\n" + image.tobytes())
    assert main(["predict", str(file), "x.ppm", "--json"]) == 0
    assert main(["test", str(file), "cluster.toml", "--json"]) == 0
    assert main(["convert", str(file), "b.safetensors", "--torch"]) == 0
    capsys.readouterr()
    assert main(["predict", "b.safetensors", "x.ppm", "--net", SMALL, "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["classes"]) == 5


def test_a_net_has_its_own_solver_by_default(
    weights: Weights, capsys: pytest.CaptureFixture[str]
) -> None:
    file = configured(Path(), "mobilenet_v3_small", more="recipe = 'finetune'")
    file.write_text(file.read_text().replace('solver = "mobilenet_v3_small_solver"\n', ""))
    assert main(["check"]) == 0
    assert "of mobilenet_v3_small_solver.prototxt" in "".join(capsys.readouterr())


def no_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    Path("w.pth").write_bytes(b"anything")


def damaged(monkeypatch: pytest.MonkeyPatch) -> None:
    data = Path("w.safetensors").read_bytes()
    Path("w.safetensors").write_bytes(data[: len(data) // 2])


def nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    pass


@pytest.mark.parametrize(
    ("change", "words", "expected"),
    [
        (nothing, ["convert", "w.safetensors", "c.safetensors"], "name the net with --net"),
        (nothing, ["predict", "w.safetensors", "x.png"], "the file does not name its net"),
        (
            nothing,
            ["convert", "w.safetensors", "c.safetensors", "--net", "resnet18(clases=10)"],
            "found 'clases=10' (did you mean 'classes'?), expected classes and image",
        ),
        (
            nothing,
            ["convert", "w.safetensors", "c.safetensors", "--net", "resnet19"],
            "the zoo has no such name (did you mean 'resnet18'?)",
        ),
        (damaged, ["convert", "w.safetensors", "c.safetensors", "--net", SMALL], "damaged"),
        (
            no_torch,
            ["convert", "w.pth", "c.safetensors", "--net", SMALL],
            "needs the package 'torch', which is not installed",
        ),
        (
            nothing,
            ["convert", "w.safetensors", "b.safetensors", "--net", "lenet"],
            "w.safetensors: no layer of the net is in the file; it has classifier.0, ",
        ),
    ],
)
def test_mistakes_are_answered_in_words(
    weights: Weights,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    change: Callable[[pytest.MonkeyPatch], None],
    words: list[str],
    expected: str,
) -> None:
    change(monkeypatch)
    assert main(words) == 2
    assert expected in capsys.readouterr().err


def test_weights_of_another_shape_are_named_in_check(
    weights: Weights, capsys: pytest.CaptureFixture[str]
) -> None:
    file = configured(Path(), "mobilenet_v3_small", more='weights = "w.safetensors"')
    file.write_text(file.read_text().replace("classes=10", "classes=7"))
    assert main(["check"]) == 2
    assert "layer 'classifier.3': found blobs of shapes" in capsys.readouterr().err
