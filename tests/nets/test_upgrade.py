"""Nets in Caffe's older formats keep their meaning."""

import pytest

from nets import PrototxtError
from nets.graph.graph import Net
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
    assert [layer.proto.type for layer in spec.layers] == [
        "Data",
        "InnerProduct",
        "SoftmaxWithLoss",
    ]
    assert [(p.lr_mult, p.decay_mult) for p in spec.layers[1].proto.param] == [(1, 2), (3, 0)]
    assert spec.layers[1].proto.inner_product_param.num_output == 3
    assert [layer.proto.name for layer in spec.for_phase("TEST").layers] == ["d", "loss"]
    first = spec.layers[0].proto
    assert (
        first.transform_param.scale,
        first.transform_param.mirror,
        first.transform_param.crop_size,
    ) == (
        0.5,
        True,
        5,
    )
    assert not first.data_param.HasField("scale")


def test_a_loss_without_a_top_gets_one_with_its_name(tmp_path):
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
    assert caught.value.problems[0].startswith(
        "net.prototxt:4: layer 'i': key 'bottom': found 'date'"
    )


@pytest.mark.parametrize(
    "shape",
    [("input_dim: 2 input_dim: 3 input_dim: 4 input_dim: 5"), "input_shape { dim: [2, 3, 4, 5] }"],
)
def test_inputs_at_the_top_of_a_net_become_a_layer(tmp_path, shape):
    text = f'input: "data" {shape} layer {{ name: "r" type: "ReLU" bottom: "data" top: "r" }}'
    net = Net(spec_of(tmp_path, text), "TEST", ops=get_backend())
    assert net.input_shapes == {"data": (2, 3, 4, 5)}
    assert Net(net.spec, "TEST", ops=get_backend(), batch=7).shape("r") == (7, 3, 4, 5)


V0 = """
layers { layer { name: "d" type: "data" source: "db" batchsize: 4 scale: 0.5 cropsize: 5 mirror: true
  meanfile: "m" } top: "data" top: "label" }
layers { layer { name: "pad1" type: "padding" pad: 2 } bottom: "data" top: "padded" }
layers { layer { name: "c" type: "conv" num_output: 3 kernelsize: 3 stride: 2 group: 1 biasterm: true blobs_lr: 1
  blobs_lr: 2 weight_decay: 1 weight_decay: 0 weight_filler { type: "gaussian" std: 0.1 } } bottom: "padded" top: "c" }
layers { layer { name: "p" type: "pool" pool: AVE kernelsize: 2 stride: 1 } bottom: "c" top: "p" }
layers { layer { name: "n" type: "lrn" local_size: 3 alpha: 0.1 beta: 0.5 } bottom: "p" top: "n" }
layers { layer { name: "i" type: "innerproduct" num_output: 7 } bottom: "n" top: "i" }
layers { layer { name: "drop" type: "dropout" dropout_ratio: 0.2 } bottom: "i" top: "i" }
layers { layer { name: "loss" type: "softmax_loss" } bottom: "i" bottom: "label" }
"""


def test_an_input_without_a_shape_beside_the_layer_that_makes_it_has_no_effect_as_in_caffe(
    tmp_path,
):
    layers = """layer { name: "in" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 } } }
        layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip"
          inner_product_param { num_output: 2 } }"""
    plain = spec_of(tmp_path, layers)
    both = spec_of(tmp_path, f'input: "data" {layers}')
    assert [layer.proto for layer in both.layers] == [layer.proto for layer in plain.layers]
    assert both.layers[1].where.node.line == 2
    for text in (
        f'input: "other" {layers}',
        f'input: "data" input: "other" {layers}',
        f'input: "data" input: "ip" input_dim: 1 {layers}',
        'input: "data"',
    ):
        with pytest.raises(PrototxtError, match="expected one input_shape"):
            spec_of(tmp_path, text)


def test_v0_layers_keep_their_options_and_padding_moves_into_the_convolution(tmp_path):
    spec = spec_of(tmp_path, V0)
    assert [layer.proto.type for layer in spec.layers] == [
        "Data", "Convolution", "Pooling", "LRN", "InnerProduct", "Dropout", "SoftmaxWithLoss",
    ]  # fmt: skip
    data, conv, pool, lrn, _, drop, _ = (layer.proto for layer in spec.layers)
    transform = data.transform_param
    assert (data.data_param.source, data.data_param.batch_size, transform.crop_size) == ("db", 4, 5)
    assert (transform.scale, transform.mirror, transform.mean_file) == (0.5, True, "m")
    assert (list(conv.bottom), list(conv.convolution_param.pad)) == (["data"], [2])
    assert [(p.lr_mult, p.decay_mult) for p in conv.param] == [(1, 1), (2, 0)]
    assert (pool.pooling_param.pool, lrn.lrn_param.local_size) == (1, 3)
    assert drop.dropout_param.dropout_ratio == pytest.approx(0.2)
    net = Net(spec, "TRAIN", ops=get_backend(), input_shape=(1, 6, 6))
    assert [net.shape(name) for name in ("c", "p", "i", "loss")] == [
        (4, 3, 4, 4),
        (4, 3, 3, 3),
        (4, 7),
        (),
    ]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            'type: "lrn"',
            'type: "lnr"',
            ("net.prototxt:8: layer 'n': key 'layer.type': found 'lnr', expected one of"),
        ),
        (
            "local_size: 3",
            "group: 3",
            ("layer 'n': key 'layer.group': means nothing to a layer of type 'lrn'"),
        ),
        ('bottom: "c" top: "p"', 'bottom: "padded" top: "p"', None),
        (
            'bottom: "p" top: "n"',
            'bottom: "padded" top: "n"',
            "key 'bottom': padding 'pad1' is read by a layer of 'lrn'",
        ),
    ],
)
def test_mistakes_in_v0_layers_name_their_line(tmp_path, old, new, message):
    if message is None:
        assert spec_of(tmp_path, V0.replace(old, new)).layers[2].proto.pooling_param.pad == 2
        return
    with pytest.raises(PrototxtError) as caught:
        spec_of(tmp_path, V0.replace(old, new))
    assert message in caught.value.problems[0]


def test_the_three_params_that_older_nets_give_batch_norm_have_no_effect(tmp_path):
    text = (
        'layer { name: "b" type: "BatchNorm" bottom: "x" top: "b" param { lr_mult: 1 } '
        "param { } param { } }"
    )
    assert not spec_of(tmp_path, text).layers[0].proto.param


def test_the_two_formats_in_one_file_are_refused(tmp_path):
    with pytest.raises(
        PrototxtError, match=r"net.prototxt:2: key 'layers': given together with 'layer'"
    ):
        spec_of(tmp_path, OLD + 'layer { name: "x" type: "ReLU" }')
