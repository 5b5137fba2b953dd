"""Weights of one net in several files: their names, and the layers that count."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nets import NetError
from nets.files.parts import parts_of
from nets.files.weights import load_weights, read_each, write_weights
from nets.graph.graph import Net
from nets.predict import Given, Predictor, for_use
from nets.tools.convert import convert_weights
from ops import get_backend
from tests.nets.support import lenet, some_values


def filled(value: float) -> dict[str, tuple[np.ndarray, ...]]:
    return {"ip2": (np.full((10, 500), value, "f4"), np.zeros(10, "f4"))}


@pytest.fixture
def halves(tmp_path: Path) -> tuple[Path, Path, Net]:
    """LeNet's weights in two files: the convolutions, and the inner products."""
    net = lenet("TEST", batch=1)
    weights = {layer: tuple(map(np.asarray, of)) for layer, of in some_values(net).items()}
    files = tmp_path / "conv.caffemodel", tmp_path / "ip.h5"
    for file, start in zip(files, ("conv", "ip"), strict=True):
        part = {layer: of for layer, of in weights.items() if layer.startswith(start)}
        write_weights(file, part)
    return *files, net


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        ("a", ("a",)),
        ("a,b", ("a", "b")),
        (" a , b", ("a", "b")),
        (["a,b", "c"], ("a", "b", "c")),
        (("a",), ("a",)),
        ((), ()),
        (Path("a,b"), ("a,b",)),
        ("here,there", ("here,there",)),
        (["x", "here,there"], ("x", "here,there")),
    ],
)
def test_commas_separate_files_unless_a_file_has_the_whole_name(
    named: object, expected: tuple[str, ...]
) -> None:
    assert parts_of(named, lambda name: name == "here,there") == expected  # type: ignore[arg-type]


@pytest.mark.parametrize("named", ["a,", ",a", "a,,b", ",", "a, ,b"])
def test_an_empty_name_next_to_a_comma_is_refused(named: str) -> None:
    with pytest.raises(NetError, match=f"'{named}': found an empty name next to a comma"):
        parts_of(named)


def test_of_a_layer_in_several_files_the_last_one_counts_and_a_line_names_both(
    tmp_path: Path,
) -> None:
    names = [tmp_path / "one.caffemodel", tmp_path / "two.h5", tmp_path / "three.safetensors"]
    for value, name in enumerate(names):
        write_weights(name, filled(value))
    found = read_each(names)
    assert (found.weights["ip2"][0] == 2).all()
    assert found.told == (
        f"layers ip2: the weights in {names[1]} replace the weights in {names[0]}",
        f"layers ip2: the weights in {names[2]} replace the weights in {names[1]}",
    )
    assert (read_each(names[::-1]).weights["ip2"][0] == 0).all()
    assert read_each(names[:1]).told == ()


def test_a_layer_without_blobs_replaces_nothing(tmp_path: Path) -> None:
    """Caffe writes all layers of a net into each file, also those without blobs."""
    spec = lenet("TEST", batch=1).spec.for_phase("TEST")
    write_weights(tmp_path / "one.h5", filled(1))
    for other in ("two.h5", "two.caffemodel"):
        empty = {"ip1": (np.zeros((500, 800), "f4"), np.zeros(500, "f4"))}
        write_weights(tmp_path / other, empty, spec)
        found = read_each([tmp_path / "one.h5", tmp_path / other])
        assert (found.weights["ip2"][0] == 1).all()
        assert found.told == ()


def test_the_files_of_one_net_load_together(halves: tuple[Path, Path, Net]) -> None:
    conv, ip, net = halves
    matched = load_weights((conv, ip), net.params)
    assert (matched.missing, matched.extra, matched.told) == ((), (), ())
    assert load_weights(conv, net.params).missing == ("ip1", "ip2")


def test_every_missing_part_is_named(tmp_path: Path, halves: tuple[Path, Path, Net]) -> None:
    conv, _, net = halves
    with pytest.raises(NetError) as caught:
        load_weights((tmp_path / "x.h5", conv, tmp_path / "y.caffemodel"), net.params)
    assert caught.value.problems == [
        f"{tmp_path / 'x.h5'}: no such file",
        f"{tmp_path / 'y.caffemodel'}: no such file",
    ]


def test_blobs_of_another_shape_name_all_files(tmp_path: Path) -> None:
    write_weights(tmp_path / "a.h5", filled(1))
    write_weights(tmp_path / "b.h5", {"ip1": (np.zeros((1, 2), "f4"),)})
    with pytest.raises(NetError, match=r"^a.h5, b.h5: layer 'ip1': found blobs of shapes"):
        load_weights((tmp_path / "a.h5", tmp_path / "b.h5"), lenet("TEST").params)


def test_a_predictor_and_a_conversion_take_several_files(
    tmp_path: Path, halves: tuple[Path, Path, Net], monkeypatch: pytest.MonkeyPatch
) -> None:
    conv, ip, net = halves
    monkeypatch.chdir(tmp_path)
    given = Given(net=net.spec, size=(28, 28))
    images = np.random.default_rng(1).integers(0, 256, (3, 1, 28, 28), np.uint8)
    backend = get_backend("numpy")
    of_list = Predictor.load([conv, ip], given, backend=backend).scores(images)
    of_text = Predictor.load("conv.caffemodel,ip.h5", given, backend=backend).scores(images)
    assert convert_weights((conv, ip), tmp_path / "all,in.safetensors") == (
        "conv1",
        "conv2",
        "ip1",
        "ip2",
    )
    whole = Predictor.load("all,in.safetensors", given, backend=backend).scores(images)
    assert (of_list == whole).all()
    assert (of_text == whole).all()


def test_layers_that_one_file_replaces_are_reported(
    tmp_path: Path, halves: tuple[Path, Path, Net], caplog: pytest.LogCaptureFixture
) -> None:
    *files, net = halves
    write_weights(tmp_path / "more.h5", filled(3))
    given = Given(net=net.spec, size=(28, 28))
    expected = (
        f"layers ip2: the weights in {tmp_path / 'more.h5'} replace the weights in {files[1]}"
    )
    for work in (
        lambda: for_use([*files, tmp_path / "more.h5"], given),
        lambda: convert_weights([*files, tmp_path / "more.h5"], tmp_path / "x.h5"),
    ):
        caplog.clear()
        work()
        assert [record.getMessage() for record in caplog.records] == [expected]
