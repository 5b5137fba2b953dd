"""Conversions lose nothing: a converted file has the same content as its source."""

import os

import numpy as np
import pytest

from nets import CheckpointError, DataError, Net, NetError, load_net, load_solver
from nets.data import MemorySource, open_source
from nets.files import checkpoint
from nets.files.mean import read_mean
from nets.files.solverstate import SolverState, read_solverstate, write_solverstate
from nets.files.weights import read_weights, write_weights
from nets.tools.convert import (
    checkpoint_from_caffe,
    checkpoint_to_caffe,
    convert_solverstate,
    convert_weights,
    images_to_lmdb,
    mean_of,
    mean_to_binaryproto,
    source_to_lmdb,
)
from ops import get_backend
from roles.learning.parameter_store import ParameterStore
from tests.nets.support import SHARED, lenet, needs_shared
from tests.nets.test_weights import some_weights

lmdb = pytest.importorskip("lmdb")
pillow = pytest.importorskip("PIL.Image")
SNAPSHOT = ("caffemodel", "solverstate")
RNG = np.random.default_rng(2)


def test_a_source_and_the_database_made_of_it_hold_the_same(tmp_path):
    digits = open_source({"format": "digits", "split": "test"}, tmp_path)
    assert source_to_lmdb(digits, tmp_path / "db") == 359
    database = open_source({"format": "lmdb", "source": "db"}, tmp_path)
    for found, expected in zip(
        database.read(np.arange(359)), digits.read(np.arange(359)), strict=True
    ):
        assert np.array_equal(found, expected)


def test_images_of_a_list_become_records_under_caffes_keys(tmp_path):
    for at in range(3):
        pillow.fromarray(RNG.integers(0, 256, (4, 4, 3), dtype=np.uint8)).save(
            tmp_path / f"{at}.png"
        )
    (tmp_path / "list.txt").write_text("0.png 5\n1.png 6\n2.png 7\n")
    assert images_to_lmdb(tmp_path / "list.txt", tmp_path / "db", new_height=2, new_width=3) == 3
    with (
        lmdb.open(str(tmp_path / "db"), readonly=True, lock=False) as env,
        env.begin() as transaction,
    ):
        assert [key for key, _ in transaction.cursor()] == [
            b"00000000_0.png",
            b"00000001_1.png",
            b"00000002_2.png",
        ]
    assert open_source({"format": "lmdb", "source": "db"}, tmp_path).shape == (3, 2, 3)
    for name in ("mixed", "again"):
        images_to_lmdb(tmp_path / "list.txt", tmp_path / name, shuffle_seed=4)
    labels = [
        open_source({"format": "lmdb", "source": n}, tmp_path).read(np.arange(3))[1]
        for n in ("mixed", "again")
    ]
    assert labels[0].tolist() == labels[1].tolist() != [5, 6, 7]
    assert sorted(labels[0]) == [5, 6, 7]
    with pytest.raises(DataError, match="encoded images are stored unchanged"):
        images_to_lmdb(
            tmp_path / "list.txt", tmp_path / "x", new_height=2, new_width=3, encoded=True
        )


def test_the_mean_is_every_pixels_mean(tmp_path):
    images = RNG.integers(0, 256, (700, 2, 3, 4), dtype=np.uint8)
    source = MemorySource("x", images, np.zeros(700, np.int64))
    np.testing.assert_allclose(mean_of(source, 64), images.mean(axis=0), rtol=1e-6)
    assert np.array_equal(mean_to_binaryproto(source, tmp_path / "m"), read_mean(tmp_path / "m"))


@needs_shared
def test_the_mean_of_real_cifar10_images_is_near_caffes():
    files = [f"cifar10/data_batch_{at}.bin.gz" for at in (1, 2, 3)]
    found = mean_of(open_source({"format": "cifar10", "files": files}, SHARED))
    # the mean is over 30 000 images here, and over 50 000 in Caffe's file
    known = read_mean(SHARED / "caffe" / "means" / "cifar10_mean.binaryproto")
    assert np.abs(found - known).max() < 3
    assert np.abs(found.mean((1, 2)) - known.mean((1, 2))).max() < 0.5


@pytest.mark.parametrize("first", ["a.caffemodel", "a.caffemodel.h5", "a.safetensors"])
@pytest.mark.parametrize("second", ["b.caffemodel", "b.caffemodel.h5", "b.safetensors"])
def test_weights_survive_any_conversion_and_the_way_back(tmp_path, first, second):
    weights = some_weights()
    write_weights(tmp_path / first, weights)
    assert set(convert_weights(tmp_path / first, tmp_path / second, load_net("lenet"))) == set(
        weights
    )
    convert_weights(tmp_path / second, tmp_path / f"c{first}")
    found = read_weights(tmp_path / f"c{first}")
    assert all(
        np.array_equal(a, b)
        for layer in weights
        for a, b in zip(found[layer], weights[layer], strict=True)
    )


@pytest.mark.parametrize("target", ["b.safetensors", "b.caffemodel", "b.caffemodel.h5"])
def test_weights_that_are_not_finite_are_refused_by_name_as_in_training(tmp_path, target):
    weights = some_weights()
    layer = list(weights)[1]
    weights[layer][0].reshape(-1)[5] = np.nan
    write_weights(tmp_path / "a.safetensors", weights)
    with pytest.raises(NetError, match=rf"a\.safetensors: '{layer}': found numbers that are not"):
        convert_weights(tmp_path / "a.safetensors", tmp_path / target)
    assert not (tmp_path / target).exists()


def test_a_history_that_is_not_finite_is_refused(tmp_path):
    state = SolverState(9, (np.array([1, np.inf], np.float32),), "a.caffemodel", 2)
    write_solverstate(tmp_path / "a.solverstate", state)
    with pytest.raises(NetError, match=r"a\.solverstate: 'history': found numbers that are not"):
        convert_solverstate(tmp_path / "a.solverstate", tmp_path / "b.solverstate.h5")
    assert not (tmp_path / "b.solverstate.h5").exists()


def test_weights_of_a_layer_the_net_lacks_are_refused(tmp_path):
    write_weights(tmp_path / "a.caffemodel.h5", {"fc9": (np.zeros(2, np.float32),)})
    with pytest.raises(NetError, match=r"b.caffemodel: layer 'fc9': net 'LeNet' has no such layer"):
        convert_weights(tmp_path / "a.caffemodel.h5", tmp_path / "b.caffemodel", load_net("lenet"))


def test_solver_states_survive_the_other_format(tmp_path):
    state = SolverState(9, (np.arange(4, dtype=np.float32),), "a.caffemodel", 2)
    write_solverstate(tmp_path / "a.solverstate", state)
    convert_solverstate(tmp_path / "a.solverstate", tmp_path / "b.solverstate.h5")
    found = convert_solverstate(tmp_path / "b.solverstate.h5", tmp_path / "c.solverstate")
    assert (found.iteration, found.current_step, found.learned_net) == (9, 2, "a.caffemodel")
    assert (tmp_path / "a.solverstate").read_bytes() == (tmp_path / "c.solverstate").read_bytes()


def test_a_checkpoint_of_caffes_snapshot_goes_back_to_the_same_snapshot(tmp_path):
    params = lenet().params
    weights = some_weights()
    history = tuple(
        np.full(array.shape, at, np.float32)
        for at, array in enumerate(a for b in weights.values() for a in b)
    )
    write_weights(tmp_path / "a.caffemodel", weights)
    write_solverstate(tmp_path / "a.solverstate", SolverState(500, history))
    target = tmp_path / "a.safetensors"
    files = tmp_path / "a.caffemodel", target, params, tmp_path / "a.solverstate"
    assert checkpoint_from_caffe(*files, solver="Nesterov", name="LeNet") == 500
    arrays, facts = checkpoint.load(target)
    assert facts == {"iteration": "500", "net": "LeNet", "solver": "Nesterov"}
    assert np.array_equal(arrays["ip2.1"], weights["ip2"][1])
    assert arrays["ip2.1.history"].tolist() == [7.0] * 10
    back = tmp_path / "b.caffemodel", tmp_path / "b.solverstate", params
    assert checkpoint_to_caffe(target, *back, solver="Nesterov") == 500
    found = read_solverstate(tmp_path / "b.solverstate")
    assert found.learned_net == "b.caffemodel"
    assert all(np.array_equal(a, b) for a, b in zip(found.history, history, strict=True))
    assert np.array_equal(read_weights(tmp_path / "b.caffemodel")["conv2"][0], weights["conv2"][0])


def test_a_checkpoint_needs_weights_for_every_layer(tmp_path):
    params = lenet().params
    weights = some_weights()
    write_weights(tmp_path / "a.caffemodel", {"conv1": weights["conv1"]})
    with pytest.raises(
        CheckpointError, match=("found no weights for conv2, ip1, ip2, expected all layers")
    ):
        checkpoint_from_caffe(
            tmp_path / "a.caffemodel", tmp_path / "x.safetensors", params, solver="SGD"
        )
    write_weights(tmp_path / "b.safetensors", weights)
    with pytest.raises(CheckpointError, match=r"'conv1.0.history': missing"):
        checkpoint_to_caffe(
            tmp_path / "b.safetensors",
            *(tmp_path / f"x.{s}" for s in SNAPSHOT),
            params,
            solver="SGD",
        )


@pytest.mark.parametrize("other", ["Nesterov", "AdaGrad", "Adam"])
def test_a_checkpoint_of_another_type_of_solver_becomes_no_snapshot(tmp_path, other):
    """SGD's snapshot could hold only the first of Adam's two histories."""
    params = lenet().params
    write_weights(tmp_path / "a.caffemodel", some_weights())
    checkpoint_from_caffe(
        tmp_path / "a.caffemodel", tmp_path / "a.safetensors", params, solver=other
    )
    files = [tmp_path / f"b.{suffix}" for suffix in SNAPSHOT]
    with pytest.raises(
        CheckpointError, match=(f"^a.safetensors: its solver is {other}, but this solver is SGD: ")
    ):
        checkpoint_to_caffe(tmp_path / "a.safetensors", *files, params, solver="SGD")
    assert not any(file.exists() for file in files)


def test_a_solver_state_with_too_few_arrays_is_of_another_type_of_solver(tmp_path):
    params = lenet().params
    weights = some_weights()
    write_weights(tmp_path / "a.caffemodel", weights)
    history = tuple(array for blobs in weights.values() for array in blobs)
    write_solverstate(tmp_path / "a.solverstate", SolverState(500, history))
    files = (
        tmp_path / "a.caffemodel",
        tmp_path / "a.safetensors",
        params,
        tmp_path / "a.solverstate",
    )
    text = (
        "^a.solverstate: found 1 arrays of history for each blob, but Adam has 2: it "
        "belongs to another type of solver$"
    )
    with pytest.raises(CheckpointError, match=text):
        checkpoint_from_caffe(*files, solver="Adam")


def test_the_parameter_store_resumes_where_caffe_stopped(tmp_path):
    """Caffe has a history for BatchNorm's running statistics, and Convoy has none. Adam has two
    histories per blob."""
    net = Net(load_net("resnet20"), "TRAIN", ops=get_backend(), input_shape=(3, 32, 32))
    flat = [param for blobs in net.params.values() for param in blobs]
    initial = {
        layer: tuple(np.asarray(blob) for blob in blobs)
        for layer, blobs in net.initial_blobs().items()
    }
    for kind, histories in (("SGD", 1), ("Adam", 2)):
        arrays = tuple(np.full(p.shape, at, np.float32) for at, p in enumerate(flat * histories))
        write_weights(tmp_path / "a.caffemodel", initial)
        write_solverstate(tmp_path / "a.solverstate", SolverState(640, arrays))
        target = tmp_path / f"{kind}.safetensors"
        files = tmp_path / "a.caffemodel", target, net.params, tmp_path / "a.solverstate"
        assert checkpoint_from_caffe(*files, solver=kind) == 640
        (tmp_path / "s.prototxt").write_text(
            f'base_lr: 0.1 lr_policy: "fixed" max_iter: 9 type: "{kind}"'
        )
        solver = load_solver(tmp_path / "s.prototxt")
        store = ParameterStore(net.params, net.initial_blobs(), solver, get_backend())
        store.restore(checkpoint.load(target)[0], 640)
        state = store.state()
        last = len(flat) * histories - 1
        assert state[f"fc.1.history{'' if histories == 1 else 2}"].tolist() == [last] * 10
        assert set(state) == set(checkpoint.load(target)[0])
        back = tmp_path / "b.caffemodel", tmp_path / "b.solverstate", net.params
        checkpoint_to_caffe(target, *back, solver=kind)
        found = read_solverstate(tmp_path / "b.solverstate").history
        kept = [param.keep is None for param in flat * histories]
        assert [bool(a.any()) for a in found[1:]] == kept[1:]
        assert all(
            np.array_equal(a, b) for a, b, keep in zip(found, arrays, kept, strict=True) if keep
        )


def test_a_snapshot_has_the_weights_that_training_goes_on_from_not_their_averages(tmp_path, caplog):
    params = lenet().params
    write_weights(tmp_path / "a.caffemodel", some_weights())
    checkpoint_from_caffe(
        tmp_path / "a.caffemodel", tmp_path / "a.safetensors", params, solver="SGD"
    )
    arrays, facts = checkpoint.load(tmp_path / "a.safetensors")
    trained = {f"{layer}.{at}": p.shape for layer, of in params.items() for at, p in enumerate(of)}
    arrays |= {f"{name}.trained": np.full(shape, 7, "f") for name, shape in trained.items()}
    checkpoint.save(tmp_path / "b.safetensors", arrays, facts)
    files = [tmp_path / f"b.{suffix}" for suffix in SNAPSHOT]
    checkpoint_to_caffe(tmp_path / "b.safetensors", *files, params, solver="SGD")
    found = read_weights(files[0])
    assert all((blob == 7).all() for blobs in found.values() for blob in blobs)
    assert "not their averages over time" in caplog.text


@pytest.mark.parametrize("kind", ["AdamW", "LARS", "Muon", "SGDW", "NesterovW"])
def test_histories_of_types_that_caffe_lacks_become_no_snapshot(tmp_path, kind):
    params = lenet().params
    text = f"found solver type '{kind}', which Caffe does not have"
    files = [tmp_path / f"b.{suffix}" for suffix in SNAPSHOT]
    with pytest.raises(CheckpointError, match=text):
        checkpoint_to_caffe(tmp_path / "a.safetensors", *files, params, solver=kind)
    with pytest.raises(CheckpointError, match=text):
        checkpoint_from_caffe(
            tmp_path / "a.caffemodel", tmp_path / "a.safetensors", params, solver=kind
        )


@pytest.mark.parametrize("encoded", [False, True])
def test_a_file_whose_name_is_not_utf_8_keeps_its_bytes_in_the_key(tmp_path, encoded):
    (tmp_path / "set" / "oak").mkdir(parents=True)
    name = b"\xff.png"
    path = tmp_path / "set" / "oak" / os.fsdecode(name)
    try:
        pillow.new("RGB", (4, 4)).save(path)
    except OSError:
        pytest.skip("this file system has only names in UTF-8")
    assert images_to_lmdb(tmp_path / "set", tmp_path / "db", encoded=encoded) == 1
    with (
        lmdb.open(str(tmp_path / "db"), readonly=True, lock=False) as env,
        env.begin() as transaction,
    ):
        assert [key for key, _ in transaction.cursor()] == [b"00000000_" + name]
    source = open_source({"format": "images", "source": "set"}, tmp_path)
    assert next(source.stored(np.arange(1))) == name
