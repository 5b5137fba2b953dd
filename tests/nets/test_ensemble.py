"""Ensembles: the averages of what several nets give an image."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from nets import NetError, load_net
from nets.data import Transform
from nets.files import checkpoint
from nets.graph.graph import Net
from nets.predict import (
    Deployment,
    Ensemble,
    Given,
    Output,
    Predictor,
    Seen,
    common_classes,
)
from nets.predict.deployment import KEY
from nets.predict.image_files import fitted
from ops import Backend, get_backend
from tests.nets.support import spec_of

DIGITS = tuple("0123456789")
COLOURS = """
layer {{ name: "in" type: "Data" top: "data" top: "label" transform_param {{ {transform} }} data_param {{ batch_size: 4 }} }}
layer {{ name: "conv" type: "Convolution" bottom: "data" top: "conv" convolution_param {{ num_output: 2 kernel_size: 3
  weight_filler {{ type: "xavier" }} }} }}
layer {{ name: "ip" type: "InnerProduct" bottom: "conv" top: "ip" inner_product_param {{ num_output: {classes}
  weight_filler {{ type: "gaussian" std: 0.05 }} }} }}
layer {{ name: "loss" type: "{loss}" bottom: "ip" bottom: "label" top: "loss" }}
"""


def member(
    folder: Path,
    name: str,
    seed: int,
    *,
    size: tuple[int, int] = (8, 9),
    order: str = "bgr",
    transform: str = "crop_size: 6 scale: 0.01",
    classes: int = 3,
    names: tuple[str, ...] = ("a", "b", "c"),
    loss: str = "SoftmaxWithLoss",
) -> Path:
    """A checkpoint of a small net with random weights, which describes its use."""
    spec = spec_of(folder, COLOURS.format(transform=transform, classes=classes, loss=loss))
    spec = spec.for_phase("TEST")
    crop = Transform.of_net(spec, "TEST").crop
    inside = (3, crop, crop) if crop else (3, *size)
    seen = Seen((3, *size), order, names, {"data": inside, "label": ()})
    said = Deployment.of(spec, seen, Transform.of_net(spec, "TEST"))
    net = Net(said.net, "TEST", ops=get_backend(), batch=1, seed=seed)
    arrays = {
        f"{layer}.{at}": np.asarray(blob)
        for layer, blobs in net.initial_blobs().items()
        for at, blob in enumerate(blobs)
    }
    checkpoint.save(folder / name, arrays, {"net": name, KEY: said.to_text()})
    return folder / name


def some_images(count: int, shape: tuple[int, ...] = (3, 8, 9)) -> np.ndarray[Any, Any]:
    return np.random.default_rng(1).integers(0, 256, (count, *shape), np.uint8)


@pytest.fixture
def backend() -> Backend:
    return get_backend("numpy")


def test_the_scores_are_the_means_of_the_members_probabilities(
    tmp_path: Path, backend: Backend
) -> None:
    files = [member(tmp_path, f"{seed}.safetensors", seed) for seed in range(3)]
    images = some_images(7)
    alone = [Predictor.load(file, backend=backend).scores(images) for file in files]
    for batch in (3, 64):
        together = Ensemble.load(files, batch=batch, backend=backend)
        assert np.abs(together.scores(images) - np.mean(alone, axis=0)).max() < 1e-6
    assert np.abs(alone[0] - alone[1]).max() > 0.01
    assert together.scores(images[:0]).shape == (0, 3)
    assert together.classes == ("a", "b", "c")
    assert repr(together).startswith("<Ensemble of ")
    (first, *_) = together.classify(list(images), top=2)
    best = np.argsort(-np.mean(alone, axis=0)[0])[:2]
    assert [each.number for each in first.classes] == best.tolist()


def test_each_member_sees_images_in_its_own_size_order_and_transform(
    tmp_path: Path, backend: Backend
) -> None:
    files = [
        member(tmp_path, "a.safetensors", 1),
        member(tmp_path, "b.safetensors", 2, size=(12, 7), order="rgb", transform="scale: 0.02"),
        member(tmp_path, "c.safetensors", 3, transform="mean_value: 90 scale: 0.01"),
    ]
    images = some_images(4)
    first, second, third = (Predictor.load(file, backend=backend) for file in files)
    flipped = np.stack([fitted(image[::-1], (3, 12, 7)) for image in images])
    expected = np.mean([first.scores(images), second.scores(flipped), third.scores(images)], axis=0)
    together = Ensemble.load(files, backend=backend)
    assert np.abs(together.scores(images) - expected).max() < 1e-6
    with pytest.raises(NetError, match=r"images: found shape \(1, 3, 12, 7\), expected \(N, 3, 8"):
        together.scores(flipped[:1])
    # files are read for each member, so that no member sees an image resized twice
    Image.fromarray(images[0].transpose(1, 2, 0)[:, :, ::-1]).save(tmp_path / "0.png")
    (tmp_path / "broken.png").write_bytes(b"no image")
    broken, found = together.files([tmp_path / "broken.png", tmp_path / "0.png"])
    assert broken.error.startswith("damaged or not an image")
    scores = {each.number: each.score for each in found.classes}
    assert np.abs(expected[0] - [scores[at] for at in range(3)]).max() < 1e-6


def test_nets_without_a_softmax_are_averaged_as_they_are(tmp_path: Path, backend: Backend) -> None:
    files = [member(tmp_path, f"{at}.safetensors", at, loss="HingeLoss") for at in range(2)]
    images = some_images(3)
    alone = [Predictor.load(file, backend=backend).scores(images) for file in files]
    assert np.abs(alone[0].sum(axis=1) - 1).max() > 0.01
    together = Ensemble.load(files, backend=backend).scores(images)
    assert np.abs(together - np.mean(alone, axis=0)).max() < 1e-6


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        (
            {"classes": 4, "names": ()},
            "found 4 scores in .*b.safetensors, but 3 in .*a.safetensors",
        ),
        ({"names": ("a", "c", "b")}, "found class 1: 'c' and 'b' in .*b.saf.* and .*a.saf"),
        ({"names": ("a", "b")}, "found class 2: nothing and 'c' in .*b.saf.* and .*a.saf"),
        ({"loss": "HingeLoss"}, "found no softmax at the end of .*b.saf.*, but Softmax at .*a.saf"),
        (
            {"loss": "SigmoidCrossEntropyLoss"},
            "found Sigmoid at the end of .*b.saf.*, but Softmax at the end of .*a.saf",
        ),
    ],
)
def test_members_that_differ_in_their_classes_are_refused(
    tmp_path: Path, backend: Backend, more: dict[str, Any], expected: str
) -> None:
    files = [
        member(tmp_path, "a.safetensors", 1),
        member(tmp_path, "b.safetensors", 2, **more),
    ]
    with pytest.raises(NetError, match=expected):
        Ensemble.load(files, backend=backend)


def test_the_names_of_classes_come_from_the_member_that_knows_them() -> None:
    named = Output("a", 2, "Softmax", ("x", "y"))
    unnamed = Output("b", 2, "Softmax")
    assert common_classes([unnamed, named, unnamed]) == ("x", "y")
    assert common_classes([unnamed]) == ()
    with pytest.raises(NetError, match="found class 0: 'z' and 'x' in c and a"):
        common_classes([unnamed, named, Output("c", 2, "Softmax", ("z", "y"))])


def test_an_ensemble_of_one_is_its_member_and_of_none_is_refused(
    tmp_path: Path, backend: Backend
) -> None:
    file = member(tmp_path, "a.safetensors", 1)
    images = some_images(2)
    alone = Predictor.load(file, backend=backend).scores(images)
    for named in ([file], str(file), {"x": file}):
        assert (Ensemble.load(named, backend=backend).scores(images) == alone).all()
    with pytest.raises(NetError, match="ensemble: found no member"):
        Ensemble.load([], backend=backend)


def test_given_facts_count_for_each_member(tmp_path: Path, backend: Backend) -> None:
    files = [member(tmp_path, f"{at}.safetensors", at) for at in range(2)]
    found = Ensemble.load(files, Given(scale=0.5, classes=("x", "y", "z")), backend=backend)
    assert [each.deployment.transform.scale for each in found.members] == [0.5, 0.5]
    assert found.classes == ("x", "y", "z")


def test_members_compute_in_one_memory(tmp_path: Path, backend: Backend) -> None:
    files = [
        member(tmp_path, f"{at}.safetensors", at, size=(64, 64), transform="scale: 0.01")
        for at in range(4)
    ]
    images = some_images(64, (3, 64, 64))

    def peak(count: int) -> int:
        together = Ensemble.load(files[:count], backend=backend)
        tracemalloc.start()
        together.scores(images)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    peak(1)  # what the first pass of a process keeps
    assert peak(4) < 1.1 * peak(1)


def test_nets_of_different_sizes_that_share_memory_compute_as_alone(
    tmp_path: Path, backend: Backend
) -> None:
    sizes = [(8, 9), (40, 40), (8, 9), (20, 20)]
    files = [
        member(tmp_path, f"{at}.safetensors", at, size=size, transform="scale: 0.01")
        for at, size in enumerate(sizes)
    ]
    together = Ensemble.load(files, batch=5, backend=backend)
    for count in (5, 2, 5):  # other rows are placed anew
        for file, one in zip(files, together.members, strict=True):
            images = some_images(count, one.deployment.shape)
            alone = Predictor.load(file, batch=5, backend=backend)
            assert (one.scores(images) == alone.scores(images)).all()


def test_the_description_in_the_last_file_counts_and_a_warning_tells(
    tmp_path: Path, backend: Backend, caplog: pytest.LogCaptureFixture
) -> None:
    one = member(tmp_path, "a.safetensors", 1)
    two = member(tmp_path, "b.safetensors", 2, names=("x", "y", "z"))
    found = Predictor.load([one, two], backend=backend)
    assert found.classes == ("x", "y", "z")
    assert f"the description of the net in {two} replaces that in {one}" in caplog.text
    caplog.clear()
    weights = checkpoint.load(two)[0]
    checkpoint.save(tmp_path / "c.safetensors", weights, {"net": "c"})
    assert Predictor.load([one, tmp_path / "c.safetensors"], backend=backend).classes == (
        "a",
        "b",
        "c",
    )
    assert "the description of" not in caplog.text
    said = replace(found.deployment, classes=())
    assert said.ending == "Softmax"


def test_the_zoo_s_nets_end_in_a_softmax() -> None:
    spec = load_net("lenet").for_phase("TEST")
    seen = Seen((1, 28, 28), "gray", DIGITS, {"data": (1, 28, 28), "label": ()})
    assert Deployment.of(spec, seen, Transform.of_net(spec, "TEST")).ending == "Softmax"
