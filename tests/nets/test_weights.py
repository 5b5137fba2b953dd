"""Weights, solver states and means are read back as they were written. Caffe's own files are read.
Files that do not fit are refused by name."""

import sys

import numpy as np
import pytest

from nets import DataError, Net, NetError, load_net
from nets.data import Batches, Transform, open_source
from nets.files.blobs import from_array, same_shape, to_array
from nets.files.caffemodel import read_caffemodel, write_caffemodel
from nets.files.mean import read_mean, write_mean
from nets.files.solverstate import (
    SolverState,
    join_history,
    read_solverstate,
    split_history,
    write_solverstate,
)
from nets.files.weights import load_weights, match, read_weights, write_weights
from nets.schema import caffe_pb2 as caffe
from ops import get_backend
from tests.nets.support import MODELS, SHARED, lenet, needs_shared

WEIGHTS = SHARED / "caffe" / "weights"


def some_weights():
    rng = np.random.default_rng(3)
    return {
        layer: tuple(rng.standard_normal(param.shape).astype(np.float32) for param in params)
        for layer, params in lenet().params.items()
    }


@pytest.mark.parametrize("name", ["net.caffemodel", "net.caffemodel.h5", "net.safetensors"])
def test_weights_come_back_bit_for_bit_in_every_format(tmp_path, name):
    weights = some_weights()
    write_weights(tmp_path / name, weights, load_net("lenet"))
    found = read_weights(tmp_path / name)
    assert sorted(found) == sorted(weights)
    for layer, blobs in weights.items():
        assert [blob.tobytes() for blob in found[layer]] == [blob.tobytes() for blob in blobs]
        assert [blob.shape for blob in found[layer]] == [blob.shape for blob in blobs]
    assert [file.name for file in tmp_path.iterdir()] == [name]


def test_a_caffemodel_names_types_and_blobs_as_caffe_does(tmp_path):
    write_caffemodel(
        tmp_path / "net.caffemodel", some_weights(), load_net("lenet").for_phase("TRAIN")
    )
    net = caffe.NetParameter.FromString((tmp_path / "net.caffemodel").read_bytes())
    assert net.name == "LeNet"
    assert [(layer.name, layer.type, list(layer.bottom), len(layer.blobs)) for layer in net.layer][
        1:3
    ] == [
        ("conv1", "Convolution", ["data"], 2),
        ("pool1", "Pooling", ["conv1"], 0),
    ]
    assert list(net.layer[1].blobs[0].shape.dim) == [20, 1, 5, 5]
    assert list(net.layer[1].blobs[0].data) == some_weights()["conv1"][0].ravel().tolist()


def test_doubles_stay_doubles_and_old_shapes_are_four_numbers():
    array = np.random.default_rng(0).random((2, 3))
    blob = from_array(array)
    assert list(blob.double_data) == array.ravel().tolist()
    assert to_array(blob, "x").dtype == np.float64
    old = caffe.BlobProto(num=1, channels=1, height=2, width=3, data=range(6))
    assert np.array_equal(to_array(old, "x"), np.arange(6).reshape(1, 1, 2, 3))
    with pytest.raises(NetError, match=r"x: found 6 numbers for shape \(1, 1, 2, 4\)"):
        old.width = 4
        to_array(old, "x")


@pytest.mark.parametrize(
    ("found", "expected", "same"),
    [
        ((1, 1, 1, 5), (5,), True), ((1, 1, 3, 5), (3, 5), True), ((3, 5), (3, 5), True), ((3, 5, 1, 1), (3, 5), False),
        ((5, 1), (5,), False), ((1, 1, 5, 3), (3, 5), False), ((2, 1, 1, 5), (5,), False), ((1, 5), (5,), False),
    ],
)  # fmt: skip
def test_shapes_agree_only_if_the_extra_axes_are_leading_ones(found, expected, same):
    assert same_shape(found, expected) is same


def v1_model(path):
    """A model as Caffe wrote it before 2014: V1 layers, four numbers a blob."""
    net = caffe.NetParameter(name="old")
    net.layers.add(name="d", type=caffe.V1LayerParameter.DATA)
    layer = net.layers.add(name="ip", type=caffe.V1LayerParameter.INNER_PRODUCT)
    layer.blobs.add(num=1, channels=1, height=2, width=3, data=range(6))
    layer.blobs.add(num=1, channels=1, height=1, width=2, data=[7, 8])
    v0 = net.layers.add()
    v0.layer.name = "oldest"
    v0.layer.blobs.add(num=1, channels=1, height=1, width=1, data=[9])
    path.write_bytes(net.SerializeToString())


def test_models_of_both_older_formats_are_read(tmp_path):
    v1_model(tmp_path / "old.caffemodel")
    found = read_caffemodel(tmp_path / "old.caffemodel")
    assert [blob.ravel().tolist() for blob in found["ip"]] == [[0, 1, 2, 3, 4, 5], [7, 8]]
    assert list(found) == ["ip", "oldest"]


def test_layers_that_do_not_fit_are_all_named_and_others_are_reported():
    params = lenet().params
    weights = some_weights()
    weights["conv1"] = weights["conv1"][:1]
    weights["ip2"] = (weights["ip2"][0].T, weights["ip2"][1])
    with pytest.raises(NetError) as caught:
        match(weights, params, "f")
    assert caught.value.problems == [
        "f: layer 'conv1': found blobs of shapes [(20, 1, 5, 5)], expected [(20, 1, 5, 5), (20,)]",
        "f: layer 'ip2': found blobs of shapes [(500, 10), (10,)], expected [(10, 500), (10,)]",
    ]
    weights = some_weights()
    weights["ip3"] = weights.pop("ip2")
    matched = match(weights, params, "f")
    assert (matched.missing, matched.extra, list(matched.blobs)) == (
        ("ip2",),
        ("ip3",),
        ["conv1", "conv2", "ip1"],
    )
    with pytest.raises(
        NetError, match=r"no layer of the net is in the file \(did you mean 'conv_1'\?\)"
    ):
        match({"conv_1": weights["conv1"]}, params, "f")


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.caffemodel", None, "no such file"),
        ("a.caffemodel", b"\xff" * 9, r"a.caffemodel: damaged or not a .caffemodel \(9 bytes\)"),
        ("a.caffemodel", b"", "found no layer"),
        (
            "a.weights",
            b"",
            ("found suffix '.weights', expected one of .caffemodel, .caffemodel.h5, .safetensors"),
        ),
        ("a.h5", b"no", "a.h5: damaged or not an HDF5 file"),
    ],
)
def test_files_without_weights_are_refused_by_name(tmp_path, name, data, message):
    if data is not None:
        (tmp_path / name).write_bytes(data)
    with pytest.raises(NetError, match=message):
        read_weights(tmp_path / name)


def test_an_hdf5_file_that_promises_more_than_it_can_hold_is_refused(tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("data/conv/0", shape=(1 << 40,), dtype="f4", chunks=(1024,))
    with pytest.raises(
        NetError, match=(r"a.h5: /data/conv/0: found shape \(1099511627776,\), " r"too large")
    ):
        read_weights(tmp_path / "a.h5")
    with h5py.File(tmp_path / "b.h5", "w") as file:
        file.create_dataset("data/conv/1", data=[1.0])
    with pytest.raises(NetError, match=r"b.h5: layer 'conv': found blobs \[1\], but not \[0\]"):
        read_weights(tmp_path / "b.h5")
    with h5py.File(tmp_path / "c.h5", "w") as file:
        file.create_group("data/conv")["0"] = h5py.ExternalLink("b.h5", "data/conv/1")
    with pytest.raises(NetError, match="found a group or a link, expected a dataset"):
        read_weights(tmp_path / "c.h5")


def test_a_missing_package_is_named_with_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(DataError) as caught:
        read_weights(tmp_path / "a.h5")
    assert str(caught.value) == (
        f"{tmp_path}/a.h5: HDF5 needs the package 'h5py', which is not installed: pip install "
        '"convoy-runtime[caffe]"'
    )


@pytest.mark.parametrize("name", ["a.solverstate", "a.solverstate.h5"])
def test_solver_states_come_back_as_they_were(tmp_path, name):
    arrays = tuple(array for blobs in some_weights().values() for array in blobs)
    write_solverstate(tmp_path / name, SolverState(1234, arrays, "lenet.caffemodel", 3))
    found = read_solverstate(tmp_path / name)
    assert (found.iteration, found.current_step, found.learned_net) == (1234, 3, "lenet.caffemodel")
    assert [array.tobytes() for array in found.history] == [array.tobytes() for array in arrays]


def test_history_is_split_by_layer_in_caffes_order_and_joined_again():
    params = lenet().params
    flat = [param for blobs in params.values() for param in blobs]
    for count in (1, 2):
        arrays = tuple(
            np.full(param.shape, at + 100 * k)
            for k in range(count)
            for at, param in enumerate(flat)
        )
        split = split_history(SolverState(0, arrays), params)
        assert [array.flat[0] for array in split["conv2"][1]] == [3 + 100 * k for k in range(count)]
        assert [array.shape for array in join_history(split)] == [array.shape for array in arrays]
        assert all(
            a is b or np.array_equal(a, b) for a, b in zip(join_history(split), arrays, strict=True)
        )
    with pytest.raises(NetError, match="found 3 arrays of history, expected 8 or 16"):
        split_history(SolverState(0, arrays[:3]), params)
    with pytest.raises(
        NetError,
        match=(r"history 0 \(layer 'conv1'\): found shape \(20,\), " r"expected \(20, 1, 5, 5\)"),
    ):
        split_history(SolverState(0, (arrays[1], *arrays[1:8])), params)


def test_a_mean_image_comes_back_and_others_are_refused(tmp_path):
    mean = np.random.default_rng(0).random((3, 5, 4)).astype(np.float32)
    write_mean(tmp_path / "m", mean)
    assert np.array_equal(read_mean(tmp_path / "m"), mean)
    blob = caffe.BlobProto.FromString((tmp_path / "m").read_bytes())
    assert (blob.num, blob.channels, blob.height, blob.width) == (1, 3, 5, 4)
    for array, message in (
        (np.zeros((2, 3, 5, 4)), "found shape"),
        (np.full((1, 1, 2, 2), np.nan), "not finite"),
    ):
        (tmp_path / "bad").write_bytes(from_array(array).SerializeToString())
        with pytest.raises(DataError, match=message):
            read_mean(tmp_path / "bad")


def score(net_file, weights, config, transform):
    source = open_source(config, SHARED)
    net = Net(load_net(net_file), "TEST", ops=get_backend(), batch=1000, input_shape=source.shape)
    batch = Batches(source, transform, 1000, shuffle=False, seed=0, train=False).read(0, 0, 1000)
    matched = load_weights(WEIGHTS / weights, net.params)
    assert not matched.missing
    return net.run(dict(zip(net.inputs, batch, strict=True)), matched.blobs)["accuracy"]


@needs_shared
def test_caffes_lenet_has_the_same_scores_as_in_caffe():
    images = "mnist/t10k-images-idx3-ubyte.gz"
    labels = "mnist/t10k-labels-idx1-ubyte.gz"
    config = {"format": "idx", "images": images, "labels": labels}
    found = score("lenet", "lenet_iter_10000.caffemodel", config, Transform(scale=1 / 256))
    assert found == pytest.approx(0.990, abs=1e-6)


@pytest.mark.slow
@needs_shared
@pytest.mark.parametrize(
    ("weights", "accuracy"),
    [
        ("cifar10_quick_iter_4000.caffemodel", 0.678),
        ("cifar10_quick_iter_5000.caffemodel", 0.744),
        ("cifar10_quick_iter_5000.caffemodel.h5", 0.753),
    ],
)
@pytest.mark.parametrize(
    "net", ["cifar10_quick", MODELS / "cifar10_quick" / "cifar10_quick_train_test.prototxt"]
)
def test_caffes_cifar10_weights_have_the_same_scores_as_in_caffe(weights, accuracy, net):
    transform = Transform(
        mean_image=read_mean(SHARED / "caffe" / "means" / "cifar10_mean.binaryproto")
    )
    config = {"format": "cifar10", "files": ["cifar10/test_batch_1000.bin.gz"]}
    assert score(net, weights, config, transform) == pytest.approx(accuracy, abs=1e-6)


@needs_shared
def test_caffes_solver_states_fit_this_net():
    source_shape = (3, 32, 32)
    net = Net(load_net("cifar10_quick"), "TRAIN", ops=get_backend(), input_shape=source_shape)
    for name, iteration in (("4000.solverstate", 4000), ("5000.solverstate.h5", 5000)):
        state = read_solverstate(WEIGHTS / f"cifar10_quick_iter_{name}")
        assert state.iteration == iteration
        split = split_history(state, net.params)
        assert {layer: [b[0].shape for b in blobs] for layer, blobs in split.items()} == {
            layer: [param.shape for param in params] for layer, params in net.params.items()
        }
