"""The gradient and the shapes of every layer type."""

import numpy as np
import pytest

from nets import Net, unknown_numbers
from nets.definition.prototxt import Where, parse
from nets.definition.spec import LayerSpec
from nets.errors import NetError
from nets.layers import KINDS, REFUSED, Run, Setup, Values, make_layer
from nets.layers.softmax import MOST_COUNTED
from nets.schema import caffe_pb2 as caffe
from nets.schema.layer_types import ADDED_TYPES, LAYER_TYPES
from ops import get_backend
from ops.gradcheck import check_gradient
from tests.nets.support import spec_of

RANDOM = np.random.default_rng(5)


def spread(*shape, scale=50.0):
    """Numbers of both signs that differ by at least 1 / scale, none of them near zero."""
    size = int(np.prod(shape))
    return (RANDOM.permutation(size).reshape(shape) - size // 2 + 0.5) / scale


SCORES = spread(4, 3, 6, 6)
LABELS = np.array([2, 0, 1, 2])

# The blobs that the lines below may name as bottoms. Names in capitals get a gradient.
BOTTOMS = {
    "X": SCORES,
    "Y": spread(4, 3, 6, 6),
    "Z": spread(4, 5, 6, 6),
    "POSITIVE": np.abs(SCORES) + 0.5,
    "PLANE": spread(3, 6),
    "like": np.zeros((4, 3, 2, 5)),
    "ROWS": spread(4, 7),
    "ROWS2": spread(4, 7),
    "FAR": 30 * RANDOM.standard_normal((4, 7)),
    "FAR2": 30 * RANDOM.standard_normal((4, 7)),
    "CHANCE": RANDOM.uniform(0.1, 0.9, (4, 7)),
    "labels": LABELS,
    "plane_labels": np.arange(4 * 36).reshape(4, 6, 6) % 3,
    "last_labels": np.arange(4 * 18).reshape(4, 3, 6) % 6,
    "targets": RANDOM.random((4, 3, 6, 6)),
    "matrix": RANDOM.random((1, 1, 7, 7)),
    "similar": np.array([1, 0, 1, 0]),
    "SEQUENCE": spread(5, 2, 3, 1),
    "STATIC": spread(2, 4),
    "H": spread(1, 2, 4),
    "C": spread(1, 2, 4),
    "cont": np.array([[0, 0], [1, 1], [1, 0], [1, 1], [0, 1]]),
    "going": np.array([[1, 1], [1, 1], [1, 0], [1, 1], [0, 1]]),
}

IMAGE = (4, 3, 6, 6)
LSTM = "recurrent_param { num_output: 4 %s }"

# One line per type: its options, its bottoms, the shapes of its tops. A type that Caffe does not
# have gets its line from its class (`usual_line`), unless it has one here.
KIND_LINES = [
    (
        "Convolution",
        ("convolution_param { num_output: 6 kernel_size: 3 pad: 1 stride: 2 group: 3 }"),
        "X",
        [(4, 6, 3, 3)],
    ),
    (
        "Convolution",
        (
            "convolution_param { num_output: 2 kernel_h: 1 kernel_w: 3 dilation: 2 "
            "bias_term: false }"
        ),
        "X",
        [(4, 2, 6, 2)],
    ),
    (
        "DepthwiseConvolution",
        ("convolution_param { num_output: 6 kernel_size: 3 pad: 1 stride: 2 }"),
        "X",
        [(4, 6, 3, 3)],
    ),
    (
        "ConvolutionDepthwise",
        (
            "convolution_param { num_output: 3 kernel_h: 1 kernel_w: 3 dilation: 2 group: 3 "
            "bias_term: false }"
        ),
        "X",
        [(4, 3, 6, 2)],
    ),
    (
        "Deconvolution",
        ("convolution_param { num_output: 6 kernel_size: 4 pad: 1 stride: 2 group: 3 }"),
        "X",
        [(4, 6, 12, 12)],
    ),
    (
        "Deconvolution",
        ("convolution_param { num_output: 2 kernel_size: 2 bias_term: false }"),
        "X",
        [(4, 2, 7, 7)],
    ),
    ("Pooling", "pooling_param { pool: MAX kernel_size: 3 stride: 2 }", "X", [(4, 3, 3, 3)]),
    ("Pooling", "pooling_param { pool: AVE kernel_size: 3 stride: 2 pad: 1 }", "X", [(4, 3, 4, 4)]),
    ("Pooling", "pooling_param { pool: AVE global_pooling: true }", "X", [(4, 3, 1, 1)]),
    (
        "Pooling",
        "pooling_param { pool: MAX kernel_size: 3 stride: 2 round_mode: FLOOR }",
        "X",
        [(4, 3, 2, 2)],
    ),
    (
        "Pooling",
        ("pooling_param { pool: STOCHASTIC kernel_size: 2 stride: 2 }"),
        "POSITIVE",
        [(4, 3, 3, 3)],
    ),
    ("AdaptivePooling", "adaptive_pooling_param { output_size: 4 }", "X", [(4, 3, 4, 4)]),
    (
        "AdaptivePooling",
        "adaptive_pooling_param { output_h: 2 output_w: 3 }",
        "X",
        [(4, 3, 2, 3)],
    ),
    ("SPP", "spp_param { pyramid_height: 3 }", "X", [(4, 63)]),
    ("Permute", "permute_param { order: [0, 2, 3, 1] }", "X", [(4, 6, 6, 3)]),
    ("Pad", "pad_param { top: 1 left: 2 right: 3 value: 0.5 }", "X", [(4, 3, 7, 11)]),
    ("Pad", "pad_param { top: 1 left: 2 right: 3 mode: EDGE }", "X", [(4, 3, 7, 11)]),
    ("InnerProduct", "inner_product_param { num_output: 5 }", "X", [(4, 5)]),
    (
        "InnerProduct",
        ("inner_product_param { num_output: 5 axis: 2 bias_term: false }"),
        "X",
        [(4, 3, 5)],
    ),
    (
        "InnerProduct",
        ("inner_product_param { num_output: 5 axis: -1 transpose: true }"),
        "X",
        [(4, 3, 6, 5)],
    ),
    ("Embed", "embed_param { num_output: 5 input_dim: 3 }", "labels", [(4, 5)]),
    (
        "Embed",
        ("embed_param { num_output: 2 input_dim: 9 bias_term: false }"),
        "plane_labels",
        [(4, 6, 6, 2)],
    ),
    ("ReLU", "", "X", [IMAGE]),
    ("ReLU", "relu_param { negative_slope: 0.1 }", "X", [IMAGE]),
    ("PReLU", "", "X", [IMAGE]),
    ("PReLU", "prelu_param { channel_shared: true }", "ROWS", [(4, 7)]),
    ("ELU", "elu_param { alpha: 0.7 }", "X", [IMAGE]),
    ("Sigmoid", "", "X", [IMAGE]),
    ("TanH", "", "X", [IMAGE]),
    ("Power", "power_param { power: 2.5 scale: 0.5 shift: 6 }", "X", [IMAGE]),
    ("Power", "power_param { scale: 3 shift: -1 }", "X", [IMAGE]),
    ("Exp", "exp_param { base: 2 scale: 0.5 shift: 0.1 }", "X", [IMAGE]),
    ("Exp", "", "X", [IMAGE]),
    ("Log", "log_param { base: 10 scale: 2 shift: 0.5 }", "POSITIVE", [IMAGE]),
    ("AbsVal", "", "X", [IMAGE]),
    ("BNLL", "", "X", [IMAGE]),
    ("Clip", "clip_param { min: -2 max: 1.5 }", "X", [IMAGE]),
    ("Swish", "swish_param { beta: 1.5 }", "X", [IMAGE]),
    ("GELU", "", "X", [IMAGE]),
    ("GELU", "gelu_param { approximate: TANH }", "X", [IMAGE]),
    ("Dropout", "dropout_param { dropout_ratio: 0.3 }", "X", [IMAGE]),
    ("StochasticDepth", "dropout_param { dropout_ratio: 0.5 }", "X", [IMAGE]),
    ("StochasticDepth", "dropout_param { dropout_ratio: 0 }", "X", [IMAGE]),
    ("LRN", "lrn_param { local_size: 3 alpha: 0.5 k: 2 }", "X", [IMAGE]),
    ("LRN", "lrn_param { local_size: 3 beta: 0.5 norm_region: WITHIN_CHANNEL }", "X", [IMAGE]),
    ("BatchNorm", "", "X", [IMAGE]),
    ("BatchNorm", "batch_norm_param { use_global_stats: true eps: 0.1 }", "X", [IMAGE]),
    ("GroupNorm", "group_norm_param { groups: 3 eps: 0.1 }", "X", [IMAGE]),
    ("GroupNorm", "group_norm_param { groups: 1 }", "ROWS", [(4, 7)]),
    ("LayerNorm", "", "X", [IMAGE]),
    ("LayerNorm", "layer_norm_param { axis: -1 eps: 0.1 }", "X", [IMAGE]),
    ("MVN", "", "X", [IMAGE]),
    ("MVN", "mvn_param { across_channels: true normalize_variance: false }", "X", [IMAGE]),
    ("Scale", "scale_param { bias_term: true }", "X", [IMAGE]),
    ("Scale", "scale_param { axis: 2 num_axes: -1 }", "X", [IMAGE]),
    ("Scale", "scale_param { num_axes: 0 }", "X", [IMAGE]),
    ("Scale", "scale_param { bias_term: true }", "X PLANE", [IMAGE]),
    ("Bias", "bias_param { axis: 0 num_axes: 2 }", "X", [IMAGE]),
    ("Bias", "", "X PLANE", [IMAGE]),
    ("Concat", "", "X Z Y", [(4, 11, 6, 6)]),
    ("Concat", "concat_param { axis: -4 }", "X Y", [(8, 3, 6, 6)]),
    ("Slice", "", "X", [(4, 1, 6, 6)] * 3),
    (
        "Slice",
        ("slice_param { axis: 2 slice_point: 1 slice_point: 4 }"),
        "X",
        [(4, 3, 1, 6), (4, 3, 3, 6), (4, 3, 2, 6)],
    ),
    ("Split", "", "X", [IMAGE] * 2),
    ("Eltwise", "", "X Y", [IMAGE]),
    ("Eltwise", "eltwise_param { coeff: 2 coeff: -1 }", "X Y", [IMAGE]),
    ("Eltwise", "eltwise_param { operation: PROD }", "X Y POSITIVE", [IMAGE]),
    ("Eltwise", "eltwise_param { operation: MAX }", "X POSITIVE", [IMAGE]),
    ("Flatten", "", "X", [(4, 108)]),
    ("Flatten", "flatten_param { axis: 2 end_axis: -1 }", "X", [(4, 3, 36)]),
    ("Reshape", "reshape_param { shape { dim: 0 dim: -1 dim: 9 } }", "X", [(4, 12, 9)]),
    ("Reshape", "reshape_param { shape { dim: 1 } axis: -1 num_axes: 0 }", "X", [(4, 3, 6, 6, 1)]),
    (
        "Reshape",
        ("reshape_param { shape { dim: 2 dim: 3 } axis: 2 num_axes: 1 }"),
        "X",
        [(4, 3, 2, 3, 6)],
    ),
    ("Crop", "crop_param { offset: 1 }", "X like", [(4, 3, 2, 5)]),
    ("Crop", "crop_param { axis: 2 offset: 3 offset: 0 }", "X like", [(4, 3, 2, 5)]),
    ("Tile", "tile_param { axis: 2 tiles: 3 }", "X", [(4, 3, 18, 6)]),
    ("Reduction", "", "X", [()]),
    ("Reduction", "reduction_param { operation: MEAN axis: 1 coeff: 3 }", "X", [(4,)]),
    ("Reduction", "reduction_param { operation: ASUM axis: -1 }", "X", [(4, 3, 6)]),
    ("Reduction", "reduction_param { operation: SUMSQ }", "X", [()]),
    ("Parameter", "parameter_param { shape { dim: 3 dim: 2 } }", "", [(3, 2)]),
    ("LSTM", LSTM % "", "SEQUENCE cont", [(5, 2, 4)]),
    ("LSTM", LSTM % "", "SEQUENCE cont STATIC", [(5, 2, 4)]),
    (
        "LSTM",
        LSTM % "expose_hidden: true",
        "SEQUENCE going STATIC H C",
        [(5, 2, 4), (1, 2, 4), (1, 2, 4)],
    ),
    ("RNN", LSTM % "", "SEQUENCE cont STATIC", [(5, 2, 4)]),
    ("RNN", LSTM % "expose_hidden: true", "SEQUENCE going H", [(5, 2, 4), (1, 2, 4)]),
    ("Softmax", "", "X", [IMAGE]),
    ("Softmax", "softmax_param { axis: -1 }", "X", [IMAGE]),
    ("SoftmaxWithLoss", "", "X plane_labels", [()]),
    (
        "SoftmaxWithLoss",
        ("loss_param { ignore_label: 2 normalization: FULL }"),
        "X plane_labels",
        [()],
    ),
    (
        "SoftmaxWithLoss",
        ("softmax_param { axis: 3 } loss_param { normalization: BATCH_SIZE }"),
        "X last_labels",
        [()],
    ),
    ("SoftmaxWithLoss", "loss_param { label_smoothing: 0.25 }", "X plane_labels", [()]),
    ("SoftmaxWithLoss", "", "X shares", [()]),
    ("SoftmaxWithLoss", "loss_param { label_smoothing: 0.25 }", "X shares", [()]),
    ("SigmoidCrossEntropyLoss", "", "X targets", [()]),
    (
        "SigmoidCrossEntropyLoss",
        ("loss_param { ignore_label: 1 normalization: VALID }"),
        "X plane_targets",
        [()],
    ),
    ("EuclideanLoss", "", "X Y", [()]),
    ("HingeLoss", "", "ROWS labels", [()]),
    ("HingeLoss", "hinge_loss_param { norm: L2 }", "ROWS labels", [()]),
    ("ContrastiveLoss", "contrastive_loss_param { margin: 250 }", "FAR FAR2 similar", [()]),
    (
        "ContrastiveLoss",
        ("contrastive_loss_param { margin: 2 legacy_version: true }"),
        "ROWS ROWS2 similar",
        [()],
    ),
    ("MultinomialLogisticLoss", "", "CHANCE labels", [()]),
    ("InfogainLoss", "", "ROWS labels matrix", [()]),
]

SHARES = RANDOM.random(IMAGE) + 0.1
BOTTOMS["shares"] = SHARES / SHARES.sum(axis=1, keepdims=True)
BOTTOMS["plane_targets"] = (np.arange(4 * 3 * 36) % 3).reshape(IMAGE).astype(float)
RUN = Run("TRAIN", 1, 3, 0, 4, 4)


def layer_of(kind, options, bottoms=1, tops=1, dtype=np.float64):
    text = f'name: "x" type: "{kind}" ' + 'top: "t" ' * tops + 'bottom: "b" ' * bottoms + options
    proto, node = parse(text, caffe.LayerParameter(), "x")
    return make_layer(LayerSpec(proto, Where("x", node, "layer 'x'")), get_backend(), dtype)


def usual_line(kind):
    """The line of a layer without options: its bottoms are images, its shapes those that its class
    declares."""
    bottoms = KINDS[kind].bottoms[0]
    layer = layer_of(kind, "", bottoms, KINDS[kind].tops[0])
    tops = layer.setup([IMAGE] * bottoms, Setup("TRAIN", None, None))
    return kind, "", " ".join("XY"[at % 2] for at in range(bottoms)), tops


WITH_GRADIENT = {name for name, cls in KINDS.items() if cls.differentiable and not cls.is_source}
KIND_LINES += [
    usual_line(kind)
    for kind in sorted(WITH_GRADIENT - {line[0] for line in KIND_LINES})
    if not KINDS[kind].of_caffe
]


@pytest.mark.parametrize(("kind", "options", "names", "tops"), KIND_LINES)
def test_every_layer_kind_has_its_shape_and_a_backward_pass_that_is_its_gradient(
    kind, options, names, tops
):
    given = [BOTTOMS[name].astype(float) for name in names.split()]
    wanted = [name.isupper() or name[:-1].isupper() for name in names.split()]
    layer = layer_of(kind, options, len(given), len(tops))
    assert layer.setup([array.shape for array in given], Setup("TRAIN", None, None)) == tops
    random = np.random.default_rng(7)
    blobs = [
        random.standard_normal(p.shape) if p.keep is None else random.random(p.shape) + 1
        for p in layer.params
    ]
    learned = [at for at, param in enumerate(layer.params) if param.keep is None]

    def placed(inputs):
        inputs = list(inputs)
        bottoms = list(given)
        for at, want in enumerate(wanted):
            if want:
                bottoms[at] = inputs.pop(0)
        return bottoms, [inputs.pop(0) if at in learned else blob for at, blob in enumerate(blobs)]

    def forward(*inputs):
        return np.concatenate([np.ravel(top) for top in layer.forward(*placed(inputs), RUN)])

    def backward(dy, *inputs):
        bottoms, parameters = placed(inputs)
        tops = layer.forward(bottoms, parameters, RUN)
        cuts = np.cumsum([np.size(top) for top in tops])[:-1]
        grads = [
            part.reshape(np.shape(top)) for part, top in zip(np.split(dy, cuts), tops, strict=True)
        ]
        found, params = layer.backward(grads, Values(bottoms, tops, parameters), RUN, wanted, None)
        assert [grad is not None for grad in found] == wanted
        return [*(grad for grad in found if grad is not None), *(params[at] for at in learned)]

    inputs = [array for array, want in zip(given, wanted, strict=True) if want]
    # Caffe adds 1e-4 to distances, which are about 80 here
    tolerance = 1e-4 if names.startswith("FAR") else 1e-6
    check_gradient(forward, backward, *inputs, *(blobs[at] for at in learned), tolerance=tolerance)


def test_the_table_above_names_every_kind_that_computes_a_gradient():
    without = WITH_GRADIENT - {line[0] for line in KIND_LINES}
    assert not without, "add a line to KIND_LINES for each of these types"
    unknown = {line[0] for line in KIND_LINES} - WITH_GRADIENT
    assert not unknown, "remove the lines of these types from KIND_LINES"


def test_every_layer_type_of_caffe_is_computed_or_refused_with_a_reason():
    of_caffe = {kind for kind, cls in KINDS.items() if cls.of_caffe}
    of_ours = of_caffe - set(LAYER_TYPES)
    assert not of_ours, "Caffe lacks these types: write `of_caffe = False` in their classes"
    assert of_caffe | REFUSED.keys() == set(LAYER_TYPES)
    assert KINDS.keys() - of_caffe == set(ADDED_TYPES), "list these types in nets.schema"
    assert not KINDS.keys() & REFUSED.keys()


@pytest.mark.parametrize(("kind", "options", "names", "tops"), KIND_LINES)
def test_gradients_of_parameters_are_written_into_the_given_arrays(kind, options, names, tops):
    given = [BOTTOMS[name].astype(float) for name in names.split()]
    layer = layer_of(kind, options, len(given), len(tops))
    layer.setup([array.shape for array in given], Setup("TRAIN", None, None))
    blobs = [np.random.default_rng(7).random(param.shape) + 0.1 for param in layer.params]
    values = Values(given, layer.forward(given, blobs, RUN), blobs)
    ones = [np.ones(shape) for shape in tops]
    wanted = [False] * len(given)
    expected = [grad.copy() for grad in layer.backward(ones, values, RUN, wanted, None)[1]]
    out = [np.full(param.shape, np.nan) for param in layer.params]
    bottoms, found = layer.backward(ones, values, RUN, wanted, out or None)
    assert bottoms == [None] * len(given)
    assert all(a is b for a, b in zip(found, out, strict=True))
    for array, right in zip(out, expected, strict=True):
        # the rounding of BLAS depends on the address of arrays
        np.testing.assert_allclose(array, right, rtol=1e-12)


@pytest.mark.parametrize(
    ("kind", "options", "names", "tops"), [line for line in KIND_LINES if KINDS[line[0]].planned]
)
def test_a_planned_layer_names_every_array_that_it_keeps_with_its_shape(kind, options, names, tops):
    given = [BOTTOMS[name].astype(float) for name in names.split()]
    wanted = [name.isupper() or name[:-1].isupper() for name in names.split()]
    layer = layer_of(kind, options, len(given), len(tops))
    shapes = [array.shape for array in given]
    layer.setup(shapes, Setup("TRAIN", None, None))
    blobs = [np.random.default_rng(7).random(param.shape) + 0.1 for param in layer.params]
    values = Values(given, layer.forward(given, blobs, RUN), blobs)
    layer.backward([np.ones(shape) for shape in tops], values, RUN, wanted, None)
    named = {need.key: need.shape for need in layer.needs(shapes, tops, True)}
    kept = {key: array.shape for key, array in layer._buffers.items()}
    few = 6  # numbers of a channel or of a loss
    unnamed = {key for key, shape in kept.items() - named.items() if np.prod(shape) > few}
    assert not unnamed


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("", 1 / 4),
        ("accuracy_param { top_k: 2 }", 2 / 4),
        ("accuracy_param { ignore_label: 2 }", 1 / 2),
    ],
)
def test_accuracy_is_the_share_of_labels_among_the_best_scores(options, expected):
    # The labels are 2 0 1 2. In the first row the label has the lowest score, in the second the
    # highest, in the third the second highest, in the fourth the lowest.
    scores = np.array([[3.0, 2, 1], [9, 3, 2], [1, 2, 3], [3, 2, 1]])
    layer = layer_of("Accuracy", options, 2)
    layer.setup([scores.shape, LABELS.shape], Setup("TEST", None, None))
    assert layer.forward([scores, LABELS], (), RUN)[0] == expected


@pytest.mark.parametrize(
    ("options", "phase", "counts"),
    [
        ("", "TEST", (3, 0, 1, 5, 1, 6, 2)),
        ("accuracy_param { ignore_label: 2 }", "TEST", (3, 0, 1, 5, 1)),
        ("", "TRAIN", ()),
    ],
)
def test_accuracy_of_a_test_counts_which_class_has_the_best_score_for_each_label(
    options, phase, counts
):
    scores = np.array([[3.0, 2, 1], [9, 3, 2], [1, 2, 3], [3, 2, 1]])
    layer = layer_of("Accuracy", options, 2)
    layer.setup([scores.shape, LABELS.shape], Setup(phase, None, None))
    layer.forward([scores, LABELS], (), RUN)
    assert layer.label_counts() == counts


@pytest.mark.parametrize(("classes", "counts"), [(MOST_COUNTED, True), (MOST_COUNTED + 1, False)])
def test_accuracy_does_not_count_more_classes_than_a_matrix_has(classes, counts):
    layer = layer_of("Accuracy", "", 2)
    layer.setup([(4, classes), LABELS.shape], Setup("TEST", None, None))
    layer.forward([spread(4, classes), LABELS], (), RUN)
    assert bool(layer.label_counts()) == counts


def test_the_second_top_of_accuracy_is_the_accuracy_of_each_class():
    scores = np.array([[3.0, 2, 1, 0], [9, 3, 2, 0], [1, 2, 3, 0], [1, 2, 3, 0]])
    layer = layer_of("Accuracy", "accuracy_param { top_k: 1 }", 2, 2)
    assert layer.setup([scores.shape, LABELS.shape], Setup("TEST", None, None)) == [(), (4,)]
    found = layer.forward([scores, LABELS], (), RUN)
    assert (found[0], found[1].tolist()) == (2 / 4, [1, 0, 1 / 2, 0])


def test_accuracy_and_the_softmax_loss_take_the_classes_from_any_axis():
    scores = BOTTOMS["X"]
    labels = BOTTOMS["last_labels"]
    layer = layer_of("Accuracy", "accuracy_param { axis: 3 }", 2)
    layer.setup([scores.shape, labels.shape], Setup("TEST", None, None))
    assert layer.forward([scores, labels], (), RUN)[0] == pytest.approx(
        (scores.argmax(3) == labels).mean()
    )


def test_labels_of_the_scores_shape_are_probabilities_also_with_scores_of_one_pixel():
    scores = spread(4, 3, 1, 1)
    labels = BOTTOMS["shares"][:, :, 0, 0]
    loss = layer_of("SoftmaxWithLoss", "", 2)
    assert loss.setup([scores.shape, labels.shape], Setup("TRAIN", None, None)) == [()]
    rows = scores[:, :, 0, 0]
    expected = (np.log(np.exp(rows).sum(1, keepdims=True)) - rows) * labels
    assert loss.forward([scores, labels], (), RUN)[0] == pytest.approx(expected.sum() / 4)
    accuracy = layer_of("Accuracy", "", 2)
    accuracy.setup([scores.shape, labels.shape], Setup("TEST", None, None))
    hits = rows.argmax(1) == labels.argmax(1)
    assert accuracy.forward([scores, labels], (), RUN)[0] == hits.mean()


def test_one_hot_labels_have_the_loss_of_their_classes():
    scores = BOTTOMS["ROWS"]
    found = []
    for labels in (LABELS, np.eye(7)[LABELS], LABELS[:, None]):
        layer = layer_of("SoftmaxWithLoss", "loss_param { label_smoothing: 0.1 }", 2)
        layer.setup([scores.shape, labels.shape], Setup("TRAIN", None, None))
        found.append(float(layer.forward([scores, labels], (), RUN)[0]))
    assert found == [pytest.approx(found[0])] * 3


@pytest.mark.parametrize(
    ("kind", "options", "labels", "expected"),
    [
        ("SoftmaxWithLoss", "", (4, 5), r"found labels of shape \(4, 5\).* or \(4, 7\) for prob"),
        ("SoftmaxWithLoss", "loss_param { label_smoothing: 1 }", (4,), "found 1, expected at l"),
        ("SoftmaxWithLoss", "loss_param { ignore_label: 1 }", (4, 7), "labels are probabilities"),
        ("InfogainLoss", "loss_param { label_smoothing: 0.1 }", (4,), "takes no soft labels"),
        ("SigmoidCrossEntropyLoss", "loss_param { label_smoothing: 0.1 }", (4, 7), "smoothed t"),
        ("HingeLoss", "", (4, 7), "expected"),
    ],
)
def test_labels_that_a_loss_cannot_take_are_refused_by_key(kind, options, labels, expected):
    layer = layer_of(kind, options, 2)
    with pytest.raises(NetError, match=expected):
        layer.setup([(4, 7), labels], Setup("TRAIN", None, None))


def test_labels_that_are_probabilities_are_not_checked_as_numbers_of_classes(tmp_path):
    text = """
        layer { name: "d" type: "Input" top: "x" top: "label"
          input_param { shape { dim: 2 dim: 3 } shape { dim: 2 %s } } }
        layer { name: "l" type: "SoftmaxWithLoss" bottom: "x" bottom: "label" top: "l" }"""
    soft = np.array([[0.25, 0.5, 0.25]])
    for more, labels, words in (
        ("dim: 3", soft, ""),
        ("dim: 3", np.array([1, 3]), "'label' holds 3, but layer 'l' takes"),
        ("", soft, "'label' holds 0.25, but layer 'l' takes"),
    ):
        net = Net(spec_of(tmp_path, text % more), "TRAIN", ops=get_backend())
        assert " ".join(unknown_numbers(net, {"label": labels})).startswith(words)
        assert bool(unknown_numbers(net, {"label": labels})) is bool(words)


def test_a_device_tells_of_labels_that_are_no_probabilities():
    layer = layer_of("SoftmaxWithLoss", "", 2)
    layer.setup([(4, 7), (4, 7)], Setup("TRAIN", None, None))
    assert "found the sum 0.9" in layer.told(0.9)
    assert layer.told(float("nan")) == ""


def test_silence_threshold_and_argmax_have_no_gradient_and_caffes_tops():
    silence = layer_of("Silence", "", 2, 0)
    assert silence.setup([(4, 3), (2,)], Setup("TRAIN", None, None)) == []
    assert silence.forward([SCORES, LABELS], (), RUN) == []
    threshold = layer_of("Threshold", "threshold_param { threshold: 0.3 }")
    threshold.setup([SCORES.shape], Setup("TRAIN", None, None))
    assert np.array_equal(threshold.forward([SCORES], (), RUN)[0], SCORES > 0.3)
    lines = [
        ("", (4, 1, 1, 1), lambda x: x.reshape(4, -1).argmax(1)),
        ("top_k: 2 out_max_val: true", (4, 2, 2, 1), None),
        ("axis: 1", (4, 1, 6, 6), lambda x: x.argmax(1)),
    ]
    for options, shape, expected in lines:
        layer = layer_of("ArgMax", f"argmax_param {{ {options} }}")
        assert layer.setup([SCORES.shape], Setup("TRAIN", None, None)) == [shape]
        found = layer.forward([SCORES], (), RUN)[0]
        assert found.shape == shape
        if expected:
            assert np.array_equal(found.ravel(), expected(SCORES).ravel())


def test_the_second_top_of_max_pooling_is_the_place_of_each_maximum():
    layer = layer_of("Pooling", "pooling_param { kernel_size: 2 stride: 2 }", 1, 2)
    assert layer.setup([(4, 3, 6, 6)], Setup("TEST", None, None)) == [(4, 3, 3, 3)] * 2
    y, place = layer.forward([SCORES], (), Run("TEST", 1, 0, 0, 4, 4))
    flat = SCORES.reshape(4, 3, 36)
    assert np.array_equal(
        np.take_along_axis(flat, place.astype(int).reshape(4, 3, 9), 2).reshape(y.shape), y
    )


def test_max_pooling_has_its_gradient_in_the_test_phase_too():
    layer = layer_of("Pooling", "pooling_param { kernel_size: 3 stride: 2 }")
    run = Run("TEST", 1, 0, 0, 4, 4)
    layer.setup([SCORES.shape], Setup("TEST", None, None))
    found = []
    for phase in (run, RUN):
        tops = layer.forward([SCORES], (), phase)
        grads, _ = layer.backward(
            [np.ones(tops[0].shape)], Values([SCORES], tops, ()), phase, [True], None
        )
        found.append((tops[0].copy(), grads[0].copy()))
    assert all(np.array_equal(a, b) for a, b in zip(*found, strict=True))


def test_stochastic_pooling_draws_by_row_in_training_and_averages_by_weight_in_test():
    x = BOTTOMS["POSITIVE"]
    layer = layer_of("Pooling", "pooling_param { pool: STOCHASTIC kernel_size: 3 stride: 3 }")
    layer.setup([x.shape], Setup("TRAIN", None, None))
    whole = layer.forward([x], (), RUN)[0].copy()
    windows = x.reshape(4, 3, 2, 3, 2, 3).transpose(0, 1, 2, 4, 3, 5).reshape(4, 3, 2, 2, 9)
    assert (whole[..., None] == windows).any(-1).all()
    assert not np.array_equal(whole, layer.forward([x], (), Run("TRAIN", 1, 4, 0, 4, 4))[0])
    layer.setup([(2, 3, 6, 6)], Setup("TRAIN", None, None))
    assert np.array_equal(layer.forward([x[2:]], (), Run("TRAIN", 1, 3, 2, 4, 4))[0], whole[2:])
    layer.setup([x.shape], Setup("TEST", None, None))
    found = layer.forward([x], (), Run("TEST", 1, 3, 0, 4, 4))[0]
    np.testing.assert_allclose(found, (windows**2).sum(-1) / windows.sum(-1))


def test_stochastic_depth_keeps_or_drops_whole_rows_by_their_place_in_the_batch():
    x = np.ones((64, 3, 2, 2))
    layer = layer_of("StochasticDepth", "dropout_param { dropout_ratio: 0.25 }")

    def rows(low, high, step=3, phase="TRAIN"):
        shape = (high - low, *x.shape[1:])
        layer.setup([shape], Setup(phase, None, None))
        return layer.forward([x[low:high]], (), Run(phase, 1, step, low, high, 64))[0].copy()

    whole = rows(0, 64)
    kept = whole[:, 0, 0, 0] != 0
    assert 0 < kept.sum() < 64
    np.testing.assert_allclose(whole, np.broadcast_to(kept[:, None, None, None] / 0.75, x.shape))
    assert np.array_equal(np.concatenate([rows(0, 20), rows(20, 64)]), whole)
    assert not np.array_equal(rows(0, 64, step=4), whole)
    assert np.array_equal(rows(0, 64, phase="TEST"), x)


@pytest.mark.parametrize(("kind", "expected"), [("Dropout", "0 < r"), ("StochasticDepth", "0 <=")])
def test_a_ratio_that_keeps_nothing_is_refused(kind, expected):
    layer = layer_of(kind, "dropout_param { dropout_ratio: 1 }")
    with pytest.raises(NetError, match=f"dropout_ratio': found 1, expected {expected}"):
        layer.setup([IMAGE], Setup("TRAIN", None, None))


@pytest.mark.parametrize("kind", ["LSTM", "RNN"])
def test_a_recurrent_layer_continues_from_its_last_state_as_in_caffe(kind):
    x = BOTTOMS["SEQUENCE"]
    going = np.ones((5, 2))
    layer = layer_of(kind, LSTM % "", 2)
    layer.setup([x.shape, going.shape], Setup("TRAIN", None, None))
    blobs = [np.random.default_rng(7).standard_normal(param.shape) for param in layer.params]
    start = going.copy()
    start[0] = 0
    whole = layer.forward([x, start], blobs, RUN)[0].copy()
    layer.setup([(3, 2, 3, 1), (3, 2)], Setup("TRAIN", None, None))
    head = layer.forward([x[:3], start[:3]], blobs, RUN)[0].copy()
    end = layer.state
    layer.setup([(2, 2, 3, 1), (2, 2)], Setup("TRAIN", None, None))
    layer.state = end
    tail = layer.forward([x[3:], going[3:]], blobs, RUN)[0]
    np.testing.assert_allclose(np.concatenate([head, tail]), whole)


def test_an_infogain_matrix_is_read_from_a_binaryproto(tmp_path):
    matrix = caffe.BlobProto(data=np.eye(7).ravel())
    file = tmp_path / "h.binaryproto"
    file.write_bytes(matrix.SerializeToString())
    scores = BOTTOMS["ROWS"]
    labels = LABELS
    found = []
    for kind, options in (
        ("InfogainLoss", (f'infogain_loss_param {{ source: "{file}" }}')),
        ("SoftmaxWithLoss", ""),
    ):
        layer = layer_of(kind, options, 2)
        layer.setup([scores.shape, labels.shape], Setup("TRAIN", None, None))
        found.append(layer.forward([scores, labels], (), RUN)[0])
    assert found[0] == pytest.approx(found[1])


@pytest.mark.parametrize(
    ("kind", "options", "shape", "expected"),
    [
        ("GroupNorm", "", IMAGE, "group_norm_param.groups': found 32, expected a divisor of 3"),
        ("GroupNorm", "group_norm_param { groups: 0 }", IMAGE, "groups': found 0"),
        ("GroupNorm", "group_norm_param { groups: 1 eps: 0 }", IMAGE, "eps': found 0, expected"),
        ("LayerNorm", "layer_norm_param { axis: 0 }", IMAGE, "axis': found the axis of the rows"),
        ("LayerNorm", "layer_norm_param { axis: 4 }", IMAGE, "layer_norm_param.axis'"),
        ("LayerNorm", "layer_norm_param { eps: -1 }", IMAGE, "eps': found -1, expected"),
        ("LayerNorm", "", (4,), r"found shape \(4,\), expected \(N, C, ...\)"),
        ("Permute", "permute_param { order: [0, 1, 1, 2] }", IMAGE, "0, 1, 1, 2"),
        ("Permute", "permute_param { order: [1, 0, 2, 3] }", IMAGE, "expected 0 and then"),
        ("AdaptivePooling", "", IMAGE, "'output_size' is missing"),
        ("AdaptivePooling", "adaptive_pooling_param { output_size: 0 }", IMAGE, "found 0"),
        ("AdaptivePooling", "adaptive_pooling_param { output_h: 2 }", IMAGE, "given alone"),
    ],
)
def test_an_option_that_the_bottom_does_not_allow_names_the_key(kind, options, shape, expected):
    layer = layer_of(kind, options)
    with pytest.raises(NetError, match=expected):
        layer.setup([shape], Setup("TRAIN", None, None))


def test_a_large_output_of_adaptive_pooling_is_refused_without_a_list_of_its_windows(monkeypatch):
    def windows(size, outputs):
        raise AssertionError(f"made {outputs} windows")

    monkeypatch.setattr("nets.layers.pool.windows", windows)
    layer = layer_of("AdaptivePooling", "adaptive_pooling_param { output_size: 2000000000 }")
    with pytest.raises(NetError, match=r"its top would have shape .* expected at most"):
        layer.setup([IMAGE], Setup("TRAIN", None, None))


def test_streams_are_no_channels_that_a_layer_may_normalise():
    streams = Setup("TRAIN", None, None, streams=(5, 2))
    for kind, options in (("GroupNorm", "group_norm_param { groups: 1 }"), ("LayerNorm", "")):
        with pytest.raises(NetError, match="steps of time and then streams"):
            layer_of(kind, options).setup([(5, 2, 4)], streams)
    later = layer_of("LayerNorm", "layer_norm_param { axis: 2 }")
    assert later.setup([(5, 2, 4)], streams) == [(5, 2, 4)]
    assert layer_of("LayerNorm", "").setup([(10, 4)], streams) == [(10, 4)]


def test_a_layer_with_a_wrong_window_names_the_key():
    layer = layer_of("Pooling", "pooling_param { kernel_size: 2 pad: 2 }")
    with pytest.raises(NetError, match=r"layer 'x': key 'pooling_param': .*pad"):
        layer.setup([(1, 1, 4, 4)], Setup("TRAIN", None, None))


SOURCES = [
    (
        "Data",
        ("data_param { batch_size: 8 } transform_param { crop_size: 20 }"),
        (3, 24, 22),
        [(8, 3, 20, 20), (8,)],
    ),
    ("ImageData", "image_data_param { batch_size: 8 }", (3, 24, 22), [(8, 3, 24, 22), (8,)]),
    ("HDF5Data", "hdf5_data_param { batch_size: 8 }", (4,), [(8, 4), (8,), (8,)]),
    (
        "MemoryData",
        ("memory_data_param { batch_size: 8 channels: 3 height: 5 width: 6 }"),
        None,
        [(8, 3, 5, 6), (8,)],
    ),
    ("Input", "input_param { shape { dim: 8 dim: 3 } }", None, [(8, 3), (8, 3)]),
]


@pytest.mark.parametrize(("kind", "options", "shape", "tops"), SOURCES)
def test_sources_declare_shapes_and_take_the_batch_of_the_caller(kind, options, shape, tops):
    layer = layer_of(kind, options, 0, len(tops))
    assert layer.setup([], Setup("TRAIN", None, shape)) == tops
    assert layer.setup([], Setup("TRAIN", 5, shape)) == [(5, *top[1:]) for top in tops]


def test_hdf5_data_takes_a_shape_for_each_of_its_tops():
    layer = layer_of("HDF5Data", "hdf5_data_param { batch_size: 7 }", 0, 2)
    layer.proto.top[1] = "cont"
    assert layer.setup([], Setup("TRAIN", None, {"t": (5, 3), "cont": (5,)})) == [(7, 5, 3), (7, 5)]


def test_the_table_of_sources_names_them_all():
    assert {line[0] for line in SOURCES} == {name for name, cls in KINDS.items() if cls.is_source}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("num_output: 4 kernel_size: 3", "num_output': found 4, expected a multiple of 3"),
        ("num_output: 3 kernel_size: 3 group: 1", "group': found 1, expected 3, one for each"),
        ("kernel_size: 3", "num_output': found 0"),
    ],
)
def test_a_depthwise_convolution_has_a_group_for_each_channel(options, expected):
    layer = layer_of("DepthwiseConvolution", f"convolution_param {{ {options} }}")
    with pytest.raises(NetError, match=expected):
        layer.setup([IMAGE], Setup("TRAIN", None, None))


def test_a_depthwise_convolution_has_the_weights_results_and_products_of_one_in_groups():
    found = []
    for kind in ("Convolution", "DepthwiseConvolution"):
        layer = layer_of(kind, "convolution_param { num_output: 6 kernel_size: 3 group: 3 }")
        tops = layer.setup([IMAGE], Setup("TRAIN", None, None))
        blobs = [np.random.default_rng(7).random(p.shape) for p in layer.params]
        y = layer.forward([SCORES], blobs, RUN)[0]
        found.append(([p.shape for p in layer.params], layer.products([IMAGE], tops), y))
    assert found[0][:2] == found[1][:2]
    np.testing.assert_allclose(found[0][2], found[1][2], rtol=1e-12)


def test_a_crop_larger_than_the_images_is_refused():
    layer = layer_of(*SOURCES[0][:2], 0, 2)
    with pytest.raises(NetError, match="found 20, expected at most 19"):
        layer.setup([], Setup("TRAIN", 5, (3, 24, 19)))


def test_dummy_data_is_filled_by_row_and_again_in_every_pass():
    fillers = 'data_filler { type: "gaussian" std: 1 } data_filler { type: "constant" value: 3 }'
    layer = layer_of(
        "DummyData", (f"dummy_data_param {{ shape {{ dim: 4 dim: 5 }} {fillers} }}"), 0, 2
    )
    assert layer.setup([], Setup("TRAIN", None, None)) == [(4, 5), (4, 5)]
    whole, threes = layer.forward([], (), RUN)
    assert (threes == 3).all()
    assert not np.array_equal(whole, layer.forward([], (), Run("TRAIN", 1, 4, 0, 4, 4))[0])
    layer.setup([], Setup("TRAIN", 1, None))
    assert np.array_equal(layer.forward([], (), Run("TRAIN", 1, 3, 2, 3, 4))[0], whole[2:3])
    old = layer_of("DummyData", "dummy_data_param { num: 2 channels: 3 height: 4 width: 5 }", 0)
    assert old.setup([], Setup("TRAIN", None, None)) == [(2, 3, 4, 5)]
    assert old.forward([], (), RUN)[0].shape == (2, 3, 4, 5)
