"""Parameters that layers share, in Caffe's files: Convoy reads the files that Caffe wrote, and
Caffe can read Convoy's files.

`caffes_files` and `Caffe` are plain versions of Net::ToProto, Net::ToHDF5,
Net::CopyTrainedLayersFrom and CopyTrainedLayersFromHDF5 of BVLC's Caffe 1.0.
"""

import h5py
import numpy as np
import pytest

from nets import CheckpointError, NetError
from nets.files import checkpoint
from nets.files.blobs import from_array, to_array
from nets.files.shared import lent
from nets.files.weights import load_weights, match, read_weights, write_weights
from nets.graph.graph import Net
from nets.schema import caffe_pb2 as caffe
from nets.tools.convert import (
    blob_shapes,
    checkpoint_from_caffe,
    checkpoint_to_caffe,
    convert_weights,
)
from ops import get_backend
from tests.nets.support import MODELS, spec_of
from tests.nets.test_sharing import SIAMESE

TIED = """
layer { name: "d" type: "Input" top: "x" input_param { shape { dim: 4 dim: 6 } } }
layer { name: "encode" type: "InnerProduct" bottom: "x" top: "h" param { name: "w" }
  inner_product_param { num_output: 4 weight_filler { type: "xavier" } } }
layer { name: "decode" type: "InnerProduct" bottom: "h" top: "y" param { name: "w" share_mode: PERMISSIVE }
  inner_product_param { num_output: 6 weight_filler { type: "xavier" } bias_filler { type: "constant" value: 2 } } }
layer { name: "loss" type: "EuclideanLoss" bottom: "y" bottom: "x" top: "loss" }
"""
NETS = {"siamese": SIAMESE, "tied": TIED}


def net_of(tmp_path, name="siamese"):
    return Net(spec_of(tmp_path, NETS[name]), "TRAIN", ops=get_backend(), seed=5)


class Caffe:
    """A net's blobs as Caffe has them: a list for each layer. Shared blobs are one array that is
    seen in two shapes."""

    def __init__(self, net, fill=True):
        blobs = net.initial_blobs()
        self.owners = lent(net.spec.layers)
        self.blobs = {}
        rank = {}
        for (layer, at), shape in blob_shapes(net).items():
            owner, place = self.owners.get((layer, at), (layer, at))
            if (layer, at) == (owner, place):
                rank[layer] = rank.get(layer, -1) + 1
                array = np.array(blobs[layer][rank[layer]]) if fill else np.zeros(shape, np.float32)
            else:
                array = self.blobs[owner][place].reshape(shape)
                assert array.base is not None  # a shared blob is a view of the owner's memory
            self.blobs.setdefault(layer, []).append(array)
        self.layers = [layer.proto.name for layer in net.spec.layers]

    def to_proto(self, path):
        net = caffe.NetParameter(name="siamese")
        for name in self.layers:
            net.layer.add(name=name).blobs.extend(
                from_array(array) for array in self.blobs.get(name, ())
            )
        path.write_bytes(net.SerializeToString())

    def to_hdf5(self, path):
        with h5py.File(path, "w") as file:
            data = file.create_group("data")
            for name in self.layers:
                group = data.create_group(name)
                for at, array in enumerate(self.blobs.get(name, ())):
                    if (name, at) not in self.owners:
                        group[str(at)] = array

    def read_proto(self, path):
        for layer in caffe.NetParameter.FromString(path.read_bytes()).layer:
            target = self.blobs.get(layer.name, [])
            assert len(target) == len(layer.blobs), "Incompatible number of blobs"
            for mine, blob in zip(target, layer.blobs, strict=True):
                assert mine.shape == tuple(blob.shape.dim), "Cannot copy param, shape mismatch"
                mine[...] = to_array(blob, layer.name)

    def read_hdf5(self, path):
        with h5py.File(path) as file:
            for name in file["data"]:
                group = file["data"][name]
                target = self.blobs.get(name, [])
                assert len(group) <= len(target), "Incompatible number of blobs"
                for at, mine in enumerate(target):
                    if str(at) in group:
                        mine[...] = group[str(at)]
                    else:
                        assert (name, at) in self.owners, "Incompatible number of blobs"


def same(a, b):
    assert a.keys() == b.keys()
    return all(np.array_equal(x, y) for name in a for x, y in zip(a[name], b[name], strict=True))


@pytest.mark.parametrize("suffix", [".caffemodel", ".caffemodel.h5"])
@pytest.mark.parametrize("name", NETS)
def test_files_that_caffe_wrote_are_read(tmp_path, name, suffix):
    net = net_of(tmp_path, name)
    path = tmp_path / f"w{suffix}"
    theirs = Caffe(net)
    (theirs.to_hdf5 if suffix.endswith("h5") else theirs.to_proto)(path)
    found = load_weights(path, net.params, net.spec.layers)
    assert same(found.blobs, net.initial_blobs())
    assert (found.missing, found.extra) == ((), ())


@pytest.mark.parametrize("suffix", [".caffemodel", ".caffemodel.h5"])
@pytest.mark.parametrize("name", NETS)
def test_caffe_reads_the_written_files(tmp_path, name, suffix):
    net = net_of(tmp_path, name)
    path = tmp_path / f"w{suffix}"
    write_weights(path, net.initial_blobs(), net.spec, blob_shapes(net))
    theirs = Caffe(net, fill=False)
    (theirs.read_hdf5 if suffix.endswith("h5") else theirs.read_proto)(path)
    assert same(theirs.blobs, Caffe(net).blobs)
    assert same(read_weights(path, net.spec.layers), net.initial_blobs())


def test_the_last_of_a_files_layers_counts_as_in_caffe(tmp_path):
    net = net_of(tmp_path)
    path = tmp_path / "w.caffemodel"
    theirs = Caffe(net)
    theirs.blobs["ip_p"][0] = theirs.blobs["ip_p"][0] + 1
    theirs.to_proto(path)
    found = load_weights(path, net.params, net.spec.layers).blobs
    assert np.array_equal(found["ip"][0], net.initial_blobs()["ip"][0] + 1)


def test_a_borrower_alone_gives_its_blobs_to_the_owner(tmp_path):
    net = net_of(tmp_path)
    path = tmp_path / "w.caffemodel"
    theirs = Caffe(net)
    theirs.layers.remove("ip")
    theirs.to_proto(path)
    found = load_weights(path, net.params, net.spec.layers)
    assert np.array_equal(found.blobs["ip"][0], net.initial_blobs()["ip"][0])
    assert found.missing == ()


def test_snapshots_of_caffe_become_checkpoints_and_snapshots_again(tmp_path):
    net = net_of(tmp_path)
    theirs = Caffe(net)
    state = tmp_path / "w.solverstate"
    theirs.to_proto(tmp_path / "w.caffemodel")
    owned = [blob for blobs in net.initial_blobs().values() for blob in blobs]
    # only owners' blobs are learnable
    message = caffe.SolverState(iter=7, history=[from_array(2 * blob) for blob in owned])
    state.write_bytes(message.SerializeToString())
    layers = net.spec.layers
    target = tmp_path / "c.safetensors"
    files = tmp_path / "w.caffemodel", target, net.params, state
    assert checkpoint_from_caffe(*files, solver="SGD", layers=layers) == 7
    arrays, facts = checkpoint.load(target)
    assert facts["shares"] == "yes"
    assert np.array_equal(arrays["conv_p.0.history"], 2 * arrays["conv_p.0"])
    assert same(match(read_weights(target, layers), net.params, "c").blobs, net.initial_blobs())
    back = tmp_path / "b.caffemodel", tmp_path / "b.solverstate"
    checkpoint_to_caffe(
        target, *back, net.params, solver="SGD", net=net.spec, shapes=blob_shapes(net)
    )
    empty = Caffe(net, fill=False)
    empty.read_proto(back[0])
    assert same(empty.blobs, theirs.blobs)


def test_without_the_net_a_checkpoint_of_shared_parameters_is_not_converted_for_caffe(tmp_path):
    net = net_of(tmp_path)
    write_weights(tmp_path / "w.safetensors", net.initial_blobs(), net.spec)
    expected = (
        "w.safetensors: its net shares parameters between layers, and Caffe's files "
        "list the blobs of each layer"
    )
    for suffix in (".caffemodel", ".h5"):
        with pytest.raises(CheckpointError, match=f"{expected}: name the net with --net"):
            convert_weights(tmp_path / "w.safetensors", tmp_path / f"x{suffix}")
        convert_weights(tmp_path / "w.safetensors", tmp_path / f"x{suffix}", net.spec)
        assert same(read_weights(tmp_path / f"x{suffix}", net.spec.layers), net.initial_blobs())


def test_shapes_that_need_the_whole_net_are_asked_for(tmp_path):
    net = net_of(tmp_path, "tied")
    with pytest.raises(
        NetError,
        match=(r"layer 'decode': blob 0 is shared in another " r"shape.*with --state"),
    ):
        write_weights(tmp_path / "w.caffemodel", net.initial_blobs(), net.spec)


def test_a_missing_blob_that_is_not_shared_is_named(tmp_path):
    net = net_of(tmp_path)
    write_weights(tmp_path / "w.h5", net.initial_blobs(), net.spec)
    with pytest.raises(NetError, match=r"w.h5: layer 'conv_p': found blobs \[1\], but not \[0\]"):
        read_weights(tmp_path / "w.h5")


def test_bvlcs_siamese_net_finds_its_weights_in_every_format(tmp_path):
    if not MODELS.is_dir():
        pytest.skip("needs BVLC's mnist_siamese in ../shared/data, which is not here")
    text = (MODELS / "mnist_siamese" / "mnist_siamese_train_test.prototxt").read_text()
    net = Net(spec_of(tmp_path, text), "TRAIN", ops=get_backend(), input_shape=(2, 28, 28))
    assert len(lent(net.spec.layers)) == 10
    for suffix in (".caffemodel", ".caffemodel.h5"):
        write_weights(tmp_path / f"w{suffix}", net.initial_blobs(), net.spec)
        theirs = Caffe(net, fill=False)
        (theirs.read_hdf5 if suffix.endswith("h5") else theirs.read_proto)(tmp_path / f"w{suffix}")
        assert same(theirs.blobs, Caffe(net).blobs)
