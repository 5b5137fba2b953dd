"""Several data layers with their own sources: which source each reads, in step, and the errors if
it cannot."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest

from nets import DataError, NetError, load_net
from nets.data import Batches, MemorySource, Transform, open_data
from nets.data.joined import JoinedSource
from nets.data.lmdb.writers import write_lmdb
from nets.graph.inputs import data_layers
from nets.schema import caffe_pb2 as caffe

TWO = """
layer { name: "images" type: "Data" top: "data" data_param { source: "examples/img_lmdb" backend: LMDB batch_size: 4 } }
layer { name: "targets" type: "HDF5Data" top: "label" hdf5_data_param { source: "examples/labels.h5" batch_size: 4 } }
"""
DIGITS = {"format": "digits"}


def layers_of(tmp_path: Path, text: str):
    (tmp_path / "net.prototxt").write_text(text)
    return data_layers(load_net(tmp_path / "net.prototxt").for_phase("TRAIN"))


def numbered(count: int) -> MemorySource:
    """A source in which image n is full of n and has the label n."""
    images = np.broadcast_to(
        np.arange(count, dtype=np.uint8)[:, None, None, None], (count, 1, 2, 2)
    )
    return MemorySource("numbered", images.copy(), np.arange(count))


def labels_file(path: Path, count: int, **more: tuple[int, ...]) -> None:
    with h5py.File(path, "w") as file:
        file["label"] = np.arange(count, dtype=np.float32)[:, None]
        for name, shape in more.items():
            file[name] = np.zeros((count, *shape), np.float32)


def lmdb_at(path: Path, count: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    data = (caffe.Datum(channels=1, height=2, width=2, data=bytes([n] * 4)) for n in range(count))
    write_lmdb(path, ((b"%08d" % n, datum.SerializeToString()) for n, datum in enumerate(data)))


def test_rows_of_joined_sources_stay_in_step_when_they_are_shuffled() -> None:
    joined = JoinedSource({"a": (numbered(50), 1), "b": (numbered(50), 2)})
    batches = Batches(
        joined, [Transform(), Transform(scale=0.5)], 20, shuffle=True, seed=3, train=True
    )
    order = []
    for ticket in range(5):  # two epochs
        a, b, label = batches.read(ticket, 0, 20)
        assert np.array_equal(a[:, 0, 0, 0], label)
        assert np.array_equal(b[:, 0, 0, 0], label / 2)
        order += label.tolist()
    assert sorted(order[:50]) == sorted(order[50:]) == list(range(50))
    assert order[:50] != order[50:]


def test_sources_of_other_lengths_and_too_few_arrays_are_refused_by_the_names_of_their_layers() -> (
    None
):
    with pytest.raises(DataError) as caught:
        JoinedSource({"a": (numbered(50), 1), "b": (numbered(49), 3)})
    assert caught.value.problems == [
        (
            "layer 'b': found 49 samples, but layer 'a' has 50 samples, expected the same "
            "for all data layers"
        ),
        "layer 'b': found 2 arrays per sample (numbered), expected 3, one for each top",
    ]


def test_a_table_names_the_source_of_each_layer_and_datasets_are_called_as_the_tops(
    tmp_path: Path,
) -> None:
    layers = layers_of(tmp_path, TWO)
    lmdb_at(tmp_path / "img", 6)
    labels_file(tmp_path / "y.h5", 6)
    tables = {
        "images": {"format": "lmdb", "source": "img"},
        "targets": {"format": "hdf5", "source": "y.h5"},
    }
    images, labels = open_data(tables, tmp_path, layers, tmp_path).read(np.array([5, 2]))
    assert images[:, 0, 0, 0].tolist() == labels.tolist() == [5, 2]


@pytest.mark.parametrize("beside", ["cluster", "net", "bare"])
def test_a_source_without_a_table_is_read_from_the_place_that_the_net_names(
    tmp_path: Path, beside: str
) -> None:
    layers = layers_of(tmp_path, TWO)
    base = tmp_path / "cluster"
    net = tmp_path / "net"
    folder = {"cluster": base / "examples", "net": net / "examples", "bare": net}[beside]
    lmdb_at(folder / "img_lmdb", 6)
    labels_file(folder / "labels.h5", 6)
    images, labels = open_data({"format": "net"}, base, layers, net).read(np.array([1, 4]))
    assert images[:, 0, 0, 0].tolist() == labels.tolist() == [1, 4]


def test_image_lists_are_read_with_the_settings_of_the_layer(tmp_path: Path) -> None:
    pillow = pytest.importorskip("PIL.Image")
    for name in ("a", "b"):
        pillow.new("RGB", (6, 5), (10, 20, 30)).save(tmp_path / f"{name}.png")
    (tmp_path / "list.txt").write_text("a.png 3\nb.png 4\n")
    text = """layer { name: "d" type: "ImageData" top: "data" top: "label" image_data_param {
        source: "list.txt" new_height: 4 new_width: 3 is_color: false batch_size: 2 } }"""
    images, labels = open_data(
        {"format": "net"}, tmp_path, layers_of(tmp_path, text), tmp_path
    ).read(np.arange(2))
    assert images.shape == (2, 1, 4, 3)
    assert labels.tolist() == [3, 4]


@pytest.mark.parametrize(
    ("tables", "problems"),
    [
        (
            {"images": DIGITS, "target": DIGITS, "targets": DIGITS},
            [
                (
                    "target: the net has no such data layer (did you mean 'targets'?), it has "
                    "images, targets"
                )
            ],
        ),
        (
            {"images": DIGITS, "targets": {"format": "idx"}},
            [
                "targets: idx: images: missing, expected a string",
                "targets: idx: labels: missing, expected a string",
            ],
        ),
        (
            {"images": DIGITS},
            [
                "net.prototxt:3: layer 'targets': key 'hdf5_data_param.source': found "
                "'examples/labels.h5', but no "
                "such file exists next to cluster.toml or the net; name the layer's source in "
                "the configuration: targets = { format = ... }"
            ],
        ),
    ],
)
def test_mistakes_of_tables_are_reported_with_the_layer(tmp_path: Path, tables, problems) -> None:
    with pytest.raises(NetError) as caught:
        open_data(tables, tmp_path, layers_of(tmp_path, TWO), tmp_path)
    assert caught.value.problems == problems


def test_a_leveldb_is_named(tmp_path: Path) -> None:
    (tmp_path / "old_leveldb").mkdir()
    layers = layers_of(
        tmp_path, ('layer { name: "d" type: "Data" top: "x" data_param { source: "old_leveldb" } }')
    )
    with pytest.raises(
        NetError,
        match=(
            r"layer 'd': key 'data_param.source': found 'old_leveldb', a folder "
            r"without data.mdb"
        ),
    ):
        open_data({"format": "net"}, tmp_path, layers, tmp_path)


def test_the_error_for_a_layer_without_a_source_names_the_missing_key(tmp_path: Path) -> None:
    layers = layers_of(
        tmp_path,
        ('layer { name: "d" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 } } }'),
    )
    with pytest.raises(
        NetError,
        match=(
            r"layer 'd'.*name the layer's source in the configuration: d = \{ format " r"= ... \}"
        ),
    ):
        open_data({"format": "net"}, tmp_path, layers, tmp_path)


def test_data_layers_of_other_batches_are_refused(tmp_path: Path) -> None:
    layers = layers_of(tmp_path, TWO.replace("batch_size: 4 } }\n", "batch_size: 5 } }\n", 1))
    with pytest.raises(
        NetError,
        match=(
            "found 4, but layer 'images' has 5: all data layers must have the same number of rows"
        ),
    ):
        open_data(DIGITS, tmp_path, layers, tmp_path)
