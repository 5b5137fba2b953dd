"""An independent importer of Caffe's files, OpenCV's dnn. From a .caffemodel written by Convoy it
computes the same outputs as Convoy.

It has no layers Embed and GELU, so it cannot run `char_lstm` and `airbench94`. It runs all other nets
of the zoo.
"""

from pathlib import Path

import numpy as np
import pytest
from google.protobuf import text_format

from nets import NetSpec, load_net
from nets.definition.spec import ZOO
from nets.files.weights import write_weights
from nets.graph.graph import Net
from nets.layers import kind_of
from nets.schema import caffe_pb2 as caffe
from ops import get_backend
from tests.nets.support import some_values, spec_of

cv2 = pytest.importorskip("cv2", reason="needs OpenCV: pip install -e '.[caffe-reference]'")
if not hasattr(cv2.dnn, "readNetFromCaffe"):
    pytest.skip("needs an OpenCV below 5, which reads Caffe's files", allow_module_level=True)

IMAGES = {
    "lenet": (1, 28, 28),
    "cifar10_quick": (3, 32, 32),
    "cifar10_full": (3, 32, 32),
    "resnet20": (3, 32, 32),
    "caffenet": (3, 227, 227),
    "alexnet": (3, 227, 227),
}
SMALL = ["lenet", "cifar10_quick", "cifar10_full", "resnet20"]
NOT_READ = ("char_lstm", "airbench94")
NAMES = sorted(path.stem for path in ZOO.glob("*.prototxt") if not path.stem.endswith("_solver"))


def deployed(spec: NetSpec, image: tuple[int, ...], rows: int) -> caffe.NetParameter:
    """The net in its form for deployment: its data come from outside, and losses and accuracies are
    removed."""
    net = caffe.NetParameter(name=spec.name)
    entry = net.layer.add(name="data", type="Input", top=["data"])
    entry.input_param.shape.add(dim=[rows, *image])
    for layer in spec.for_phase("TEST").layers:
        kind = kind_of(layer)
        if not (kind.is_source or kind.scores):
            copied = net.layer.add()
            copied.CopyFrom(layer.proto)
            for field in ("include", "exclude"):
                copied.ClearField(field)
    return net


def agree(tmp_path: Path, proto: caffe.NetParameter) -> None:
    """Write the net and random weights, read them with OpenCV, and compare every output."""
    text = text_format.MessageToString(proto)
    net = Net(spec_of(tmp_path, text), "TEST", ops=get_backend("numpy"))
    blobs = some_values(net)
    write_weights(tmp_path / "w.caffemodel", blobs, net.spec)
    images = np.random.default_rng(2).standard_normal(net.input_shapes["data"]).astype(np.float32)
    net.run({"data": images}, blobs)
    theirs = cv2.dnn.readNetFromCaffe(
        str(tmp_path / "net.prototxt"), str(tmp_path / "w.caffemodel")
    )
    theirs.setInput(images, "data")
    made = {
        top: node.layer.name
        for stage in net.stages
        for node in stage.nodes
        for top in node.layer.proto.top
    }
    for name in net.outputs:
        expected = np.asarray(net.blob(name))
        found = theirs.forward(made[name]).reshape(expected.shape)
        assert np.abs(found - expected).max() <= 1e-5 * np.abs(expected).max(), name


@pytest.mark.few(*(f"[{name}" for name in SMALL))
@pytest.mark.parametrize("name", [name for name in NAMES if name not in NOT_READ])
def test_a_net_of_the_zoo_gives_the_same_outputs_there(tmp_path, name):
    proto = deployed(load_net(name), IMAGES.get(name, (3, 224, 224)), 2 if name in SMALL else 1)
    for layer in proto.layer if name.startswith("vgg") else ():
        if layer.inner_product_param.num_output == 4096:
            # 550 MB of weights would only keep the disk busy
            layer.inner_product_param.num_output = 256
    agree(tmp_path, proto)


def test_char_lstm_has_a_layer_that_it_does_not_know(tmp_path):
    shape = "shape { dim: 64 dim: 64 }"
    # OpenCV expects one shape for each top
    text = (ZOO / "char_lstm.prototxt").read_text().replace(shape, 3 * shape)
    (tmp_path / "net.prototxt").write_text(text)
    theirs = cv2.dnn.readNetFromCaffe(str(tmp_path / "net.prototxt"))
    with pytest.raises(cv2.error, match='of type "Embed"'):
        theirs.forward("embed")


def test_airbench94_has_a_layer_that_it_does_not_know(tmp_path):
    with pytest.raises(cv2.error, match='of type "GELU"'):
        agree(tmp_path, deployed(load_net("airbench94"), (3, 32, 32), 1))


def test_layers_that_share_parameters_find_them_in_the_file(tmp_path):
    twins = [
        f"""layer {{ name: "ip{at}" type: "InnerProduct" bottom: "{bottom}" top: "y{at}" param {{ name: "w" }}
          {bias} inner_product_param {{ num_output: 5 weight_filler {{ type: "xavier" }} }} }}"""
        for at, bottom, bias in (
            (0, "data", 'param { name: "b" }'),
            (1, "y0", 'param { name: "b" }'),
            (2, "y1", ""),
        )
    ]
    entry = (
        'layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 3 dim: 5 } } }'
    )
    agree(tmp_path, text_format.Parse(entry + "".join(twins), caffe.NetParameter()))
