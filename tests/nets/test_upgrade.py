"""Nets in Caffe's older formats mean what they meant."""

import pytest

from nets import PrototxtError
from nets.graph import Net
from ops import get_backend
from tests.nets.support import spec_of

OLD = """
layers { name: "d" type: DATA top: "data" top: "label"
  data_param { batch_size: 4 scale: 0.5 mirror: true crop_size: 5 } }
layers { name: "i" type: INNER_PRODUCT bottom: "data" top: "i" blobs_lr: 1 blobs_lr: 3 weight_decay: 2 weight_decay: 0
  inner_product_param { num_output: 3 } include { phase: TRAIN } }
layers { name: "loss" type: SOFTMAX_LOSS bottom: "i" bottom: "label" }
"""


def test_v1_layers_keep_their_types_multipliers_rules_and_transform(tmp_path):
    spec = spec_of(tmp_path, OLD)
    assert [layer.proto.type for layer in spec.layers] == ["Data", "InnerProduct", "SoftmaxWithLoss"]
    assert [(p.lr_mult, p.decay_mult) for p in spec.layers[1].proto.param] == [(1, 2), (3, 0)]
    assert spec.layers[1].proto.inner_product_param.num_output == 3
    assert [layer.proto.name for layer in spec.for_phase("TEST").layers] == ["d", "loss"]
    first = spec.layers[0].proto
    assert (first.transform_param.scale, first.transform_param.mirror, first.transform_param.crop_size) == (
        0.5,
        True,
        5,
    )
    assert not first.data_param.HasField("scale")


def test_a_loss_without_a_top_gets_one_of_its_own_name(tmp_path):
    net = Net(spec_of(tmp_path, OLD), "TRAIN", ops=get_backend(), input_shape=(1, 6, 6))
    assert net.outputs == ["loss"]
    assert net.input_shapes == {"data": (4, 1, 5, 5), "label": (4,)}


def test_mistakes_in_v1_layers_name_their_line(tmp_path):
    with pytest.raises(PrototxtError) as caught:
        Net(
            spec_of(tmp_path, OLD.replace('bottom: "data"', 'bottom: "date"')),
            "TRAIN",
            ops=get_backend(),
            input_shape=(1, 6, 6),
        )
    assert caught.value.problems[0].startswith("net.prototxt:4: layer 'i': key 'bottom': found 'date'")


@pytest.mark.parametrize(
    "shape", ["input_dim: 2 input_dim: 3 input_dim: 4 input_dim: 5", "input_shape { dim: [2, 3, 4, 5] }"]
)
def test_inputs_at_the_top_of_a_net_become_a_layer(tmp_path, shape):
    text = f'input: "data" {shape} layer {{ name: "r" type: "ReLU" bottom: "data" top: "r" }}'
    net = Net(spec_of(tmp_path, text), "TEST", ops=get_backend())
    assert net.input_shapes == {"data": (2, 3, 4, 5)}
    assert Net(net.spec, "TEST", ops=get_backend(), batch=7).shape("r") == (7, 3, 4, 5)


def test_the_two_formats_in_one_file_and_v0_are_refused_by_name(tmp_path):
    with pytest.raises(PrototxtError, match=r"net.prototxt:2: key 'layers': given besides 'layer'"):
        spec_of(tmp_path, OLD + 'layer { name: "x" type: "ReLU" }')
    with pytest.raises(
        PrototxtError, match="layer 'x': key 'layer': this is Caffe's V0 format, which is not supported"
    ):
        spec_of(tmp_path, 'layers { layer { name: "x" type: "relu" } }')
