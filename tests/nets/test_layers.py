"""Every layer kind proves its gradient and its shapes."""

import numpy as np
import pytest

from nets.errors import NetError
from nets.layers import KINDS, Run, Setup, Values, make_layer
from nets.prototxt import Node, Where, parse
from nets.schema import caffe_pb2 as caffe
from nets.spec import LayerSpec
from ops import get_backend
from ops.gradcheck import check_gradient

SCORES = np.random.default_rng(5).permutation(4 * 3 * 6 * 6).reshape(4, 3, 6, 6) / 50.0 - 3.01  # no ties, no zeros
LABELS = np.array([2, 0, 1, 2])

# One line per kind: its options and the shape of its top for a bottom (4, 3, 6, 6).
KIND_LINES = [
    ("Convolution", "convolution_param { num_output: 6 kernel_size: 3 pad: 1 stride: 2 group: 3 }", (4, 6, 3, 3)),
    ("Convolution", "convolution_param { num_output: 2 kernel_h: 1 kernel_w: 3 dilation: 2 bias_term: false }",
     (4, 2, 6, 2)),
    ("Pooling", "pooling_param { pool: MAX kernel_size: 3 stride: 2 }", (4, 3, 3, 3)),
    ("Pooling", "pooling_param { pool: AVE kernel_size: 3 stride: 2 pad: 1 }", (4, 3, 4, 4)),
    ("Pooling", "pooling_param { pool: AVE global_pooling: true }", (4, 3, 1, 1)),
    ("InnerProduct", "inner_product_param { num_output: 5 }", (4, 5)),
    ("InnerProduct", "inner_product_param { num_output: 5 axis: 2 bias_term: false }", (4, 3, 5)),
    ("ReLU", "", (4, 3, 6, 6)),
    ("ReLU", "relu_param { negative_slope: 0.1 }", (4, 3, 6, 6)),
    ("Dropout", "dropout_param { dropout_ratio: 0.3 }", (4, 3, 6, 6)),
    ("Flatten", "", (4, 108)),
    ("Flatten", "flatten_param { axis: 2 end_axis: -1 }", (4, 3, 36)),
    ("Softmax", "", (4, 3, 6, 6)),
    ("SoftmaxWithLoss", "", ()),
    ("SoftmaxWithLoss", "loss_param { ignore_label: 2 normalization: FULL }", ()),
]  # fmt: skip

RUN = Run("TRAIN", 1, 3, 0, 4, 4)


def layer_of(kind, options, bottoms=1):
    text = f'name: "x" type: "{kind}" top: "t" ' + 'bottom: "b" ' * bottoms + options
    proto, node = parse(text, caffe.LayerParameter(), "x")
    return make_layer(LayerSpec(proto, Where("x", node, "layer 'x'")), get_backend(), np.float64)


@pytest.mark.parametrize(("kind", "options", "top"), KIND_LINES)
def test_every_layer_kind_has_its_shape_and_a_backward_pass_that_is_its_gradient(kind, options, top):
    extra = [np.arange(4 * 36).reshape(4, 6, 6) % 3] if kind == "SoftmaxWithLoss" else []
    layer = layer_of(kind, options, 1 + len(extra))
    assert layer.setup([SCORES.shape, *(array.shape for array in extra)], Setup("TRAIN", None, None)) == [top]
    blobs = [np.random.default_rng(7).standard_normal(param.shape) for param in layer.params]

    def forward(x, *parameters):
        return layer.forward([x, *extra], parameters, RUN)[0].copy()

    def backward(dy, x, *parameters):
        tops = layer.forward([x, *extra], parameters, RUN)
        values, wanted = Values([x, *extra], tops, parameters), [True, False][: 1 + len(extra)]
        layer.loss_weight = float(dy) if layer.scores else 0.0
        bottoms, grads = layer.backward([dy], values, RUN, wanted, None)
        return [bottoms[0], *grads]

    check_gradient(forward, backward, SCORES, *blobs)


def test_the_table_above_names_every_kind_that_computes_a_gradient():
    assert {kind for kind, _, _ in KIND_LINES} == {
        name for name, cls in KINDS.items() if cls.differentiable and not cls.is_source
    }


@pytest.mark.parametrize(
    ("options", "expected"),
    [("", 1 / 4), ("accuracy_param { top_k: 2 }", 2 / 4), ("accuracy_param { ignore_label: 2 }", 1 / 2)],
)
def test_accuracy_is_the_share_of_labels_among_the_best_scores(options, expected):
    # Labels 2 0 1 2: the first scores rank its label last, the second first, the third second, the fourth last.
    scores = np.array([[3.0, 2, 1], [9, 3, 2], [1, 2, 3], [3, 2, 1]])
    layer = layer_of("Accuracy", options, 2)
    layer.setup([scores.shape, LABELS.shape], Setup("TEST", None, None))
    assert layer.forward([scores, LABELS], (), RUN)[0] == expected


def test_a_layer_with_a_wrong_window_names_the_key():
    layer = layer_of("Pooling", "pooling_param { kernel_size: 2 pad: 2 }")
    with pytest.raises(NetError, match=r"layer 'x': key 'pooling_param': .*pad"):
        layer.setup([(1, 1, 4, 4)], Setup("TRAIN", None, None))


def test_the_data_layer_crops_and_takes_the_batch_of_the_caller():
    proto = caffe.LayerParameter(name="d", type="Data", top=["data", "label"])
    proto.data_param.batch_size, proto.transform_param.crop_size = 8, 20
    layer = make_layer(LayerSpec(proto, Where("x", Node(1))), get_backend())
    assert layer.setup([], Setup("TRAIN", None, (3, 24, 22))) == [(8, 3, 20, 20), (8,)]
    assert layer.setup([], Setup("TRAIN", 5, (3, 24, 22))) == [(5, 3, 20, 20), (5,)]
    with pytest.raises(NetError, match="found 20, expected at most 19"):
        layer.setup([], Setup("TRAIN", 5, (3, 24, 19)))
