"""`init --net --weights`, training from its files, and `extract`."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from nets import load_net
from nets.data.sources.cifar10 import NAMES, read
from nets.definition.spec import ZOO
from nets.files import checkpoint
from nets.files.weights import write_weights
from runtime.cli.main import main
from tests.helpers.pictures import png
from tests.helpers.support import ROOT, train
from tests.helpers.typed_page import ended, type_page


def folder(path: Path, classes: tuple[str, ...], count: int, side: int = 70) -> Path:
    """A folder of images per class; the classes differ in colour."""
    random = np.random.default_rng(1)
    for number, name in enumerate(classes):
        (path / name).mkdir(parents=True)
        for at in range(count):
            pixels = random.integers(0, 80, (side, side, 3), dtype=np.uint8)
            pixels[..., number % 3] += 120
            (path / name / f"{at}.png").write_bytes(png(pixels))
    return path


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CONVOY_THREADS", "1")
    return tmp_path


def trained(here: Path, cluster: Path, more: str) -> str:
    """Train by the files of `init`, and return the checkpoint."""
    text = cluster.read_text()
    cluster.write_text(text.replace("[train]\n", f"[train]\n{more}", 1))
    run = train(cluster)
    cluster.write_text(text)
    return str((cluster.parent / run.journal.of("checkpoint")[-1]["file"]).relative_to(here))


def test_init_makes_a_trained_net_learn_other_classes_and_extract_gives_its_features(
    here: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    folder(here / "three", ("blue", "green", "red"), 10)
    folder(here / "two", ("grass", "sky"), 10)
    assert main(["init", "known", "--images", "three"]) == 0
    known = trained(here, here / "known" / "cluster.toml", "max_iter = 4\n")
    words = ["--images", "two", "--net", "known/net.prototxt", "--weights", known]
    assert main(["init", "new", *words]) == 0
    said = capsys.readouterr()
    assert "to correct" not in said.err
    net = load_net("new/net.prototxt")
    outputs = [
        layer.proto.inner_product_param.num_output
        for layer in net.layers
        if layer.proto.name == "classes"
    ]
    assert outputs == [2]
    text = Path("new/cluster.toml").read_text()
    assert 'recipe = "finetune"' in text
    assert 'fresh = ["classes"]' in text
    assert "new_height = 64, new_width = 64" in text
    for mean, told in (("[110.0, 115.0, 120.0]", False), ("[10.0]", True)):
        caplog.clear()
        assert main(["check", "new/cluster.toml", "--set", f"train.data.mean={mean}"]) == 0
        line = (
            "trained on images with mean 110, 115, 120 and deviation 62.5, and this run has mean 10"
        )
        assert (line in caplog.text) == told
    frozen = 'freeze = ["conv*", "bn*", "scale*"]\nmax_iter = 4\n'
    new = trained(here, here / "new" / "cluster.toml", frozen)
    before, after = (checkpoint.load(Path(file))[0] for file in (known, new))
    for name in ("conv3.0", "bn2.1", "scale1.0"):
        assert after[name].tobytes() == before[name].tobytes(), name
    capsys.readouterr()

    assert main(["extract", new, "two", "--layer", "places", "--output", "f.safetensors"]) == 0
    assert "wrote f.safetensors: 20 x 864 numbers of layer places" in capsys.readouterr().out
    found, facts = checkpoint.load(Path("f.safetensors"))
    assert json.loads(facts["names"])[::10] == ["two/grass/0.png", "two/sky/0.png"]
    assert main(["extract", new, "two", "--layer", "places"]) == 0
    lines = [line.split(",") for line in capsys.readouterr().out.splitlines()]
    printed = np.array([line[1:] for line in lines], np.float32)
    np.testing.assert_allclose(printed, found["features"], rtol=1e-6)
    assert main(["predict", new, "two", "--json"]) == 0
    scores = []
    for line in capsys.readouterr().out.splitlines():
        by_name = {each["name"]: each["score"] for each in json.loads(line)["classes"]}
        scores.append([by_name["grass"], by_name["sky"]])
    weight, bias = (after[f"classes.{at}"].astype(np.float64) for at in (0, 1))
    logits = found["features"].astype(np.float64) @ weight.reshape(2, -1).T + bias
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    np.testing.assert_allclose(powers / powers.sum(axis=1, keepdims=True), scores, atol=1e-4)


def test_weights_of_red_first_images_are_reported_unless_the_net_turns_the_planes(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder(here / "two", ("a", "b"), 5)
    assert main(["init", "known", "--images", "two"]) == 0
    net = here / "known" / "net.prototxt"
    text = (here / "known" / "cluster.toml").read_text()
    order = text.replace("[train.data] ", '[train.data]\norder = "rgb" ', 1)
    assert order != text
    (here / "known" / "cluster.toml").write_text(order)
    known = trained(here, here / "known" / "cluster.toml", "max_iter = 1\n")
    words = ["--images", "two", "--net", str(net), "--weights", known]
    for turned in (False, True):
        if turned:
            net.write_text(
                net.read_text().replace("transform_param {", "transform_param { rgb: true")
            )
        capsys.readouterr()
        assert main(["init", f"new-{turned}", *words]) == 0
        said = capsys.readouterr()
        assert ("add rgb: true to the transform_param" in said.out + said.err) is not turned


@pytest.mark.parametrize(
    ("net", "fresh", "size"),
    [
        ("caffenet", '"fc8"', 256),
        ("googlenet", '"loss1/classifier", "loss2/classifier", "loss3/classifier"', 256),
    ],
)
def test_init_takes_nets_of_the_zoo_and_their_caffe_weights(
    here: Path, net: str, fresh: str, size: int, capsys: pytest.CaptureFixture[str]
) -> None:
    folder(here / "two", ("a", "b"), 5)
    first = {"caffenet": ("conv1", (96, 3, 11, 11)), "googlenet": ("conv1/7x7_s2", (64, 3, 7, 7))}
    layer, shape = first[net]
    blobs = [np.ones(shape, np.float32), np.zeros(shape[0], np.float32)]
    write_weights(Path("w.caffemodel"), {layer: blobs}, None)
    assert main(["init", "new", "--images", "two", "--net", net, "--weights", "w.caffemodel"]) == 0
    said = capsys.readouterr()
    assert "to correct" not in said.err, said.err
    text = Path("new/cluster.toml").read_text()
    assert f"fresh = [{fresh}]" in text
    assert f"new_height = {size}" in text


def test_init_takes_weights_by_the_names_of_timm(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder(here / "two", ("a", "b"), 5, side=32)
    arrays = {"stem.conv.weight": np.ones((32, 3, 3, 3), np.float32)}
    arrays |= {"head.fc.weight": np.ones((1000, 440), np.float32)}
    save_file(arrays, "timm.safetensors")
    words = ["--net", "regnet_y_400mf(image=32)", "--weights", "timm.safetensors"]
    assert main(["init", "new", "--images", "two", *words]) == 0
    said = capsys.readouterr()
    assert "to correct" not in said.err, said.err
    assert 'fresh = ["fc"]' in Path("new/cluster.toml").read_text()


WRONG = {
    "a net without weights": (
        ["--images", "two", "--net", "caffenet"],
        "init: found --images and --net, expected --images, --net and --weights together",
    ),
    "weights without images": (
        ["--net", "lenet", "--weights", "w.safetensors"],
        "init: found --net and --weights, expected --images, --net and --weights together",
    ),
    "an unknown net": (
        ["--images", "two", "--net", "cafenet", "--weights", "w.safetensors"],
        "cafenet: no such file, and the zoo has no such name (did you mean 'caffenet'?)",
    ),
    "no such weights": (
        ["--images", "two", "--net", "caffenet", "--weights", "no.safetensors"],
        "no.safetensors: ",
    ),
    "weights of another net": (
        ["--images", "two", "--net", "caffenet", "--weights", "w.safetensors"],
        "w.safetensors: no layer of net 'CaffeNet' is in the file; it has ip1: name the net of "
        "these weights with --net",
    ),
    "a net without a crop": (
        ["--images", "two", "--net", "lenet", "--weights", "w.safetensors"],
        "lenet.prototxt: its data layers have no crop_size, so the size of its images is not known",
    ),
    "a net without a loss": (
        ["--images", "two", "--net", "deploy.prototxt", "--weights", "w.safetensors"],
        "deploy.prototxt: found no loss, expected a net for training, with a loss",
    ),
    "one class": (
        ["--images", "one", "--net", "lenet", "--weights", "w.safetensors"],
        "one: found images of one class (a), expected two classes at least",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_init_answers_what_it_cannot_fine_tune(
    here: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder(here / "two", ("a", "b"), 5, side=8)
    folder(here / "one", ("a",), 5, side=8)
    write_weights(Path("w.safetensors"), {"ip1": [np.ones((2, 2), np.float32)]})
    text = (ZOO / "lenet.prototxt").read_text()
    Path("deploy.prototxt").write_text(re.sub(r'layer \{[^{}]*"loss"[^{}]*\}', "", text))
    words, expected = WRONG[name]
    assert main(["init", "new", *words]) == 2
    assert expected in capsys.readouterr().err
    assert not Path("new").exists()


def test_extract_names_the_layers_and_the_formats_that_it_has(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder(here / "three", ("blue", "green", "red"), 5)
    (here / "three" / "red" / "bad.png").write_bytes(b"no image")
    assert main(["init", "known", "--images", "three"]) == 0
    (here / "three" / "red" / "bad.png").unlink()
    assert main(["init", "good", "--images", "three"]) == 0
    saved = trained(here, here / "good" / "cluster.toml", "max_iter = 1\n")
    capsys.readouterr()
    assert main(["extract", saved, "three", "--layer", "conv4"]) == 2
    assert "layer 'conv4': net 'photographs' has no such layer (did you mean" in (
        capsys.readouterr().err
    )
    assert main(["extract", saved, "three", "--layer", "conv3", "--output", "f.txt"]) == 2
    assert "found f.txt, expected a file that ends with .safetensors or .csv" in (
        capsys.readouterr().err
    )
    (here / "three" / "red" / "bad.png").write_bytes(b"no image")
    assert main(["extract", saved, "three", "--layer", "conv3", "--output", "f.csv"]) == 1
    said = capsys.readouterr()
    assert "bad.png" in said.err
    written = Path("f.csv").read_text()
    assert len(written.splitlines()) == 15
    for name in ("f.csv", "f.safetensors"):
        words = ["three/red/bad.png", "--layer", "conv3", "--output", name]
        assert main(["extract", saved, *words]) == 1
        assert f"no image could be read, so {name} is not written" in capsys.readouterr().err
    assert Path("f.csv").read_text() == written
    assert not Path("f.safetensors").exists()


@pytest.mark.slow  # half a minute
@pytest.mark.timeout(300)
def test_the_page_on_fine_tuning_can_be_typed_as_it_stands(
    tmp_path: Path, shared_data: Path
) -> None:
    at = shared_data / "cifar10"
    images, labels, _ = read(base_dir=at, files=["test_batch_1000.bin.gz"])
    work = tmp_path / "folder"
    for name, classes, count in (("six", range(6), 40), ("four", range(6, 10), 50)):
        for each in classes:
            (work / name / NAMES[each]).mkdir(parents=True)
            for place in np.flatnonzero(labels == each)[:count]:
                pixels = np.ascontiguousarray(images[place].transpose(1, 2, 0))
                (work / name / NAMES[each] / f"{place}.png").write_bytes(png(pixels))
    with ended() as behind:
        type_page((ROOT / "docs" / "finetune.md").read_text("utf-8"), work, behind)
