"""Mistakes in `train.freeze`, `train.fresh` and `train.lr_scale`: each is one line with the key, what
was found and what is allowed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nets.files.weights import write_weights
from runtime.cli.main import main

FILE = "train.weights"
ALL = "conv1, conv2, ip1, ip2"
BROKEN = {
    "a frozen layer that is not in the net": (
        "weights = 'w.safetensors'\nfreeze = ['cnov1']\n",
        "3: train.freeze",
        f"'cnov1' fits no layer with parameters (did you mean 'conv1'?); these have some: {ALL}",
    ),
    "a frozen layer without parameters": (
        "weights = 'w.safetensors'\nfreeze = ['pool1']\n",
        "3: train.freeze",
        f"'pool1' fits no layer with parameters; these have some: {ALL}",
    ),
    "everything frozen": (
        "weights = 'w.safetensors'\nfreeze = ['conv*', 'ip*']\n",
        "3: train.freeze",
        f"which leaves no layer to learn, expected patterns that leave some of {ALL}",
    ),
    "frozen layers without weights": (
        "freeze = ['conv*']\n",
        "2: train.freeze",
        "found ['conv*'], but train.weights is not given: these layers would stay random",
    ),
    "a frozen layer that the file does not have": (
        "weights = 'conv.safetensors'\nfreeze = ['conv*', 'ip1']\n",
        "3: train.freeze",
        "layers ip1 would stay random, since conv.safetensors does not have them",
    ),
    "a layer both frozen and fresh": (
        "weights = 'w.safetensors'\nfreeze = ['conv1']\nfresh = ['conv1']\n",
        "3: train.freeze",
        "layers conv1 would stay random, since train.fresh leaves them out",
    ),
    "a word in place of a list": (
        "weights = 'w.safetensors'\nfreeze = 'conv*'\n",
        "3: train.freeze",
        "expected an array",
    ),
    "a fresh layer that is not in the net": (
        "weights = 'w.safetensors'\nfresh = ['fc8']\n",
        "3: train.fresh",
        f"'fc8' fits no layer with parameters; these have some: {ALL}",
    ),
    "a fresh layer that is not in the net, and the rate that a recipe gives it": (
        "weights = 'w.safetensors'\nrecipe = 'finetune'\nfresh = ['fc8']\n",
        "4: train.fresh",
        "'fc8' fits no layer",
    ),
    "fresh layers without weights": (
        "fresh = ['ip2']\n",
        "2: train.fresh",
        "found ['ip2'], but train.weights is not given: all layers start afresh",
    ),
    "all layers fresh": (
        "weights = 'w.safetensors'\nfresh = ['*']\n",
        "3: train.fresh",
        "found ['*'], which fits every layer, so nothing would be taken from train.weights: name "
        'only those that begin afresh, such as ["ip2"], or remove both keys',
    ),
    "a rate of frozen layers": (
        "weights = 'w.safetensors'\nfreeze = ['conv*']\nlr_scale = { 'conv1' = 0.1 }\n",
        "4: train.lr_scale.conv1",
        "fits only layers of train.freeze (conv1), expected layers that learn: ip1, ip2",
    ),
    "a rate of zero": (
        "lr_scale = { 'conv1' = 0 }\n",
        "2: train.lr_scale.conv1",
        "expected a finite number > 0",
    ),
    "a rate of a layer without a name": (
        "lr_scale = { '' = 0.1 }\n",
        "2: train.lr_scale.''",
        "found '' (string), expected a non-empty string",
    ),
    "weights of another shape": (
        "weights = 'other.safetensors'\n",
        "2: train.weights",
        "layer 'ip2': found blobs of shapes [(4, 500), (4,)], expected [(10, 500), (10,)]; rename "
        "the layer, or name it in train.fresh to begin it afresh",
    ),
    "the name of a key in another program": (
        "frozen = ['conv1']\n",
        "2: train.frozen",
        "freeze",
    ),
    "a frozen conv phase where servers have the dense layers": (
        "weights = 'w.safetensors'\nfreeze = ['conv*']\n[train.strategy]\npreset = 'omnivore'\n",
        "5: train.strategy.preset",
        "found a net whose conv phase is frozen (LeNet): only presets",
    ),
}
SHAPES = {
    "conv1": ((20, 1, 5, 5), (20,)),
    "conv2": ((50, 20, 5, 5), (50,)),
    "ip1": ((500, 800), (500,)),
    "ip2": ((10, 500), (10,)),
}


def weights(directory: Path) -> None:
    """Files of LeNet's weights: whole, of its convolutions, and for four classes."""
    whole = {layer: [np.zeros(s, np.float32) for s in of] for layer, of in SHAPES.items()}
    write_weights(directory / "w.safetensors", whole)
    convs = {layer: of for layer, of in whole.items() if layer.startswith("conv")}
    write_weights(directory / "conv.safetensors", convs)
    last = [np.zeros((4, 500), np.float32), np.zeros(4, np.float32)]
    write_weights(directory / "other.safetensors", whole | {"ip2": last})


@pytest.mark.parametrize("name", BROKEN)
def test_a_mistake_names_the_key_and_what_is_allowed(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    toml, place, text = BROKEN[name]
    monkeypatch.chdir(tmp_path)
    weights(tmp_path)
    Path("cluster.toml").write_text(f"[train]\n{toml}")
    assert main(["check", "cluster.toml"]) == 2
    lines = capsys.readouterr().err.splitlines()
    found = [line for line in lines if line.startswith(f"cluster.toml:{place}: ")]
    assert found, lines
    assert text in found[0]


def test_a_fresh_layer_begins_with_its_own_first_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    weights(tmp_path)
    Path("cluster.toml").write_text("[train]\nweights = 'other.safetensors'\nfresh = ['ip2']\n")
    assert main(["check", "cluster.toml"]) == 0
    assert "random" not in caplog.text


def test_a_fresh_layer_without_a_name_is_one_mistake_with_a_recipe(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "cluster.toml"
    file.write_text("[train]\nrecipe = 'finetune'\nfresh = ['']\n")
    assert main(["check", str(file)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith(
        "cluster.toml:3: train.fresh[0]: found '' (string), expected a non-empty string"
    )
