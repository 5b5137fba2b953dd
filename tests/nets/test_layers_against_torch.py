"""Layers compared with PyTorch, forward and backward, for every type that PyTorch has: to 1e-5 in
float32, to 1e-10 in float64.

Install the extra `reference` to run this file; without it, it is skipped. The other types have
references in tests/contracts and naive ones below.
"""

import numpy as np
import pytest

from nets.layers import KINDS, Run, Setup, Values
from tests.nets.test_layers import layer_of

torch = pytest.importorskip(
    "torch", reason=("torch is not installed: the extra `reference` brings it")
)
F = torch.nn.functional
RUN = Run("TRAIN", 1, 0, 0, 8, 8)
RANDOM = np.random.default_rng(3)
BOTTOMS = {
    "X": RANDOM.standard_normal((8, 6, 9, 7)),
    "Y": RANDOM.standard_normal((8, 6, 9, 7)),
    "WIDE": 4 * RANDOM.standard_normal((8, 6, 9, 7)),
    "POSITIVE": RANDOM.random((8, 6, 9, 7)) + 0.5,
    "CHANCE": RANDOM.random((8, 6)) * 0.8 + 0.1,
    "ROWS": RANDOM.standard_normal((8, 6)) * 2,
    "ROWS2": RANDOM.standard_normal((8, 6)) * 2,
    "PLANE": RANDOM.standard_normal((6, 9)),
    "SEQUENCE": RANDOM.standard_normal((5, 8, 6)),
    "cont": np.array([[0.0] * 8] + [[1.0] * 8] * 4),
    "labels": RANDOM.integers(0, 6, 8),
    "plane_labels": RANDOM.integers(0, 6, (8, 9, 7)),
    "targets": RANDOM.integers(0, 2, (8, 6, 9, 7)),
    "similar": RANDOM.integers(0, 2, 8),
}


def whole(tensor):
    return tensor.long()


def lrn(x, size, alpha, beta, k):
    return F.local_response_norm(x, size, alpha, beta, k)


def within(x):
    squares = F.avg_pool2d(F.pad(x * x, (1, 1, 1, 1)), 3, 1)
    return x / (1 + 0.5 * squares) ** 0.75


def batch_norm(x, mean, variance, weight):
    return F.batch_norm(x, None, None, training=True, eps=1e-5)


def fixed_norm(x, mean, variance, weight):
    return F.batch_norm(x, mean / weight, variance / weight, training=False, eps=1e-5)


def mvn(x, axes):
    """Caffe adds 1e-9 to the deviation. PyTorch's norms add a number to the variance."""
    centred = x - x.mean(axes, keepdim=True)
    return centred / ((centred**2).mean(axes, keepdim=True).sqrt() + 1e-9)


def lstm(x, cont, w_x, b, w_h):
    """Caffe's gates are in the order i, f, o, g. PyTorch's are i, f, g, o."""
    hidden = w_h.shape[1]
    order = [*range(2 * hidden), *range(3 * hidden, 4 * hidden), *range(2 * hidden, 3 * hidden)]
    state = x.new_zeros(1, x.shape[1], hidden)
    out = torch._VF.lstm(
        x,
        (state, state),
        [w_x[order], w_h[order], b[order], torch.zeros_like(b)],
        True,
        1,
        0.0,
        False,
        False,
        False,
    )
    return out[0]


def rnn(x, cont, w_x, b, w_h, w_o, b_o):
    state = x.new_zeros(1, x.shape[1], w_h.shape[1])
    h = torch._VF.rnn_tanh(
        x, state, [w_x, w_h, b, torch.zeros_like(b)], True, 1, 0.0, False, False, False
    )[0]
    return torch.tanh(h @ w_o.T + b_o)


def contrastive(a, b, similar):
    distance = (a - b).norm(dim=1)
    return torch.where(similar != 0, distance**2, (8 - distance).clamp(min=0) ** 2).sum() / (
        2 * len(a)
    )


def legacy(a, b, similar):
    square = ((a - b) ** 2).sum(1)
    return torch.where(similar != 0, square, (8 - square).clamp(min=0)).sum() / (2 * len(a))


def hinge(scores, labels):
    sign = torch.ones_like(scores).scatter(1, whole(labels)[:, None], -1.0)
    return (1 + sign * scores).clamp(min=0)


# One line per type: its options, its bottoms, and PyTorch's computation from the bottoms and then
# the parameters. Options are numbers that float32 holds exactly, since a net's file holds float32.
LINES = [
    (
        "Convolution",
        ("convolution_param { num_output: 8 kernel_size: 3 pad: 1 stride: 2 group: 2 }"),
        "X",
        lambda x, w, b: F.conv2d(x, w, b, 2, 1, 1, 2),
    ),
    (
        "Convolution",
        (
            "convolution_param { num_output: 4 kernel_h: 1 kernel_w: 3 pad_h: 2 "
            "pad_w: 1 dilation: 2 }"
        ),
        "X",
        lambda x, w, b: F.conv2d(x, w, b, 1, (2, 1), 2),
    ),
    (
        "Convolution",
        ("convolution_param { num_output: 6 kernel_size: 3 group: 6 bias_term: false }"),
        "X",
        lambda x, w: F.conv2d(x, w, groups=6),
    ),
    (
        "DepthwiseConvolution",
        "convolution_param { num_output: 12 kernel_size: 3 stride: 2 pad: 1 }",
        "X",
        lambda x, w, b: F.conv2d(x, w, b, 2, 1, groups=6),
    ),
    (
        "ConvolutionDepthwise",
        "convolution_param { num_output: 6 kernel_size: 3 dilation: 2 bias_term: false }",
        "X",
        lambda x, w: F.conv2d(x, w, dilation=2, groups=6),
    ),
    (
        "Deconvolution",
        ("convolution_param { num_output: 4 kernel_size: 4 pad: 1 stride: 2 group: 2 }"),
        "X",
        lambda x, w, b: F.conv_transpose2d(x, w, b, 2, 1, 0, 2),
    ),
    (
        "SPP",
        "spp_param { pyramid_height: 3 }",
        "X",
        lambda x: torch.cat(
            [
                F.max_pool2d(F.pad(x, (w, w, h, h), value=-torch.inf), kernel).flatten(1)
                for kernel, h, w in (((9, 7), 0, 0), ((5, 4), 1, 1), ((3, 2), 2, 1))
            ],
            1,
        ),
    ),
    (
        "Pooling",
        ("pooling_param { kernel_size: 3 stride: 2 }"),
        "X",
        lambda x: F.max_pool2d(x, 3, 2, ceil_mode=True),
    ),
    (
        "Pooling",
        "pooling_param { kernel_size: 3 stride: 2 pad: 1 }",
        "X",
        lambda x: F.max_pool2d(x, 3, 2, 1, ceil_mode=True),
    ),
    (
        "Pooling",
        "pooling_param { pool: AVE kernel_size: 3 stride: 3 pad: 1 }",
        "X",
        lambda x: F.avg_pool2d(x, 3, 3, 1, ceil_mode=True),
    ),
    (
        "Pooling",
        ("pooling_param { pool: AVE global_pooling: true }"),
        "X",
        lambda x: x.mean((2, 3), keepdim=True),
    ),
    (
        "AdaptivePooling",
        "adaptive_pooling_param { output_size: 4 }",
        "X",
        lambda x: F.adaptive_avg_pool2d(x, 4),
    ),
    (
        "AdaptivePooling",
        "adaptive_pooling_param { output_size: [3, 7] }",
        "X",
        lambda x: F.adaptive_avg_pool2d(x, (3, 7)),
    ),
    (
        "InnerProduct",
        "inner_product_param { num_output: 5 }",
        "X",
        lambda x, w, b: F.linear(x.flatten(1), w, b),
    ),
    (
        "InnerProduct",
        ("inner_product_param { num_output: 5 axis: -1 transpose: true }"),
        "X",
        lambda x, w, b: x @ w + b,
    ),
    (
        "Embed",
        "embed_param { num_output: 5 input_dim: 7 }",
        "plane_labels",
        lambda i, w, b: F.embedding(whole(i), w) + b,
    ),
    ("ReLU", "relu_param { negative_slope: 0.125 }", "X", lambda x: F.leaky_relu(x, 0.125)),
    ("PReLU", "", "X", lambda x, w: F.prelu(x, w)),
    ("ELU", "elu_param { alpha: 0.75 }", "X", lambda x: F.elu(x, 0.75)),
    ("Sigmoid", "", "X", torch.sigmoid),
    ("TanH", "", "X", torch.tanh),
    (
        "Power",
        ("power_param { power: 2.5 scale: 0.5 shift: 3 }"),
        "X",
        lambda x: (3 + 0.5 * x) ** 2.5,
    ),
    ("Exp", "exp_param { base: 2 scale: 0.5 }", "X", lambda x: torch.exp2(0.5 * x)),
    ("Log", "log_param { base: 10 scale: 2 }", "POSITIVE", lambda x: torch.log10(2 * x)),
    ("AbsVal", "", "X", torch.abs),
    ("BNLL", "", "X", F.softplus),
    ("Clip", "clip_param { min: -0.5 max: 1 }", "X", lambda x: x.clamp(-0.5, 1)),
    ("Swish", "", "X", F.silu),
    ("Swish", "swish_param { beta: 1.5 }", "X", lambda x: x * torch.sigmoid(1.5 * x)),
    ("SiLU", "", "X", F.silu),
    ("GELU", "", "WIDE", F.gelu),
    ("GELU", "gelu_param { approximate: TANH }", "WIDE", lambda x: F.gelu(x, approximate="tanh")),
    # PyTorch's own hardsigmoid has a gradient with 1 / 6 in float32, also in float64
    ("HardSigmoid", "", "WIDE", lambda x: (x + 3).clamp(0, 6) / 6),
    ("HardSwish", "", "WIDE", F.hardswish),
    (
        "LRN",
        "lrn_param { local_size: 5 alpha: 0.25 k: 2 }",
        "X",
        lambda x: lrn(x, 5, 0.25, 0.75, 2),
    ),
    ("LRN", "lrn_param { local_size: 3 alpha: 0.5 norm_region: WITHIN_CHANNEL }", "X", within),
    ("BatchNorm", "", "X", batch_norm),
    ("BatchNorm", "batch_norm_param { use_global_stats: true }", "X", fixed_norm),
    ("GroupNorm", "group_norm_param { groups: 3 }", "X", lambda x: F.group_norm(x, 3)),
    ("GroupNorm", "group_norm_param { groups: 1 }", "X", lambda x: F.layer_norm(x, x.shape[1:])),
    ("LayerNorm", "", "X", lambda x: F.layer_norm(x.movedim(1, -1), x.shape[1:2]).movedim(-1, 1)),
    ("LayerNorm", "layer_norm_param { axis: -1 }", "X", lambda x: F.layer_norm(x, x.shape[3:])),
    ("MVN", "", "X", lambda x: mvn(x, (2, 3))),
    ("MVN", "mvn_param { across_channels: true }", "X", lambda x: mvn(x, (1, 2, 3))),
    (
        "Scale",
        "scale_param { bias_term: true }",
        "X",
        lambda x, w, b: x * w[:, None, None] + b[:, None, None],
    ),
    ("Scale", "", "X PLANE", lambda x, w: x * w[:, :, None]),
    ("Bias", "", "X PLANE", lambda x, b: x + b[:, :, None]),
    ("Concat", "", "X Y", lambda x, y: torch.cat([x, y], 1)),
    (
        "Slice",
        ("slice_param { slice_point: 1 slice_point: 4 }"),
        "X",
        lambda x: torch.split(x, (1, 3, 2), 1),
    ),
    ("Split", "", "X", lambda x: (x.clone(), x.clone())),
    ("Eltwise", "eltwise_param { coeff: 2 coeff: -1 }", "X Y", lambda x, y: 2 * x - y),
    ("Eltwise", "eltwise_param { operation: PROD }", "X Y", lambda x, y: x * y),
    ("Eltwise", "eltwise_param { operation: MAX }", "X Y", torch.maximum),
    ("Flatten", "", "X", lambda x: x.flatten(1)),
    (
        "Reshape",
        ("reshape_param { shape { dim: 0 dim: -1 dim: 7 } }"),
        "X",
        lambda x: x.reshape(8, -1, 7),
    ),
    (
        "Crop",
        ("crop_param { axis: 2 offset: 1 offset: 0 }"),
        "X small",
        lambda x, _: x[:, :, 1:5, :3],
    ),
    (
        "Pad",
        "pad_param { top: 1 left: 2 right: 3 value: 0.5 }",
        "X",
        lambda x: F.pad(x, (2, 3, 1, 0), value=0.5),
    ),
    (
        "Pad",
        "pad_param { top: 1 left: 2 right: 3 mode: EDGE }",
        "X",
        lambda x: F.pad(x, (2, 3, 1, 0), mode="replicate"),
    ),
    ("Permute", "permute_param { order: [0, 2, 3, 1] }", "X", lambda x: x.permute(0, 2, 3, 1)),
    ("Tile", "tile_param { axis: 1 tiles: 3 }", "X", lambda x: x.tile(1, 3, 1, 1)),
    (
        "Reduction",
        "reduction_param { operation: SUMSQ axis: 1 coeff: 0.125 }",
        "X",
        lambda x: 0.125 * (x * x).sum((1, 2, 3)),
    ),
    ("Reduction", "reduction_param { operation: MEAN }", "X", lambda x: x.mean()),
    ("LSTM", "recurrent_param { num_output: 4 }", "SEQUENCE cont", lstm),
    ("RNN", "recurrent_param { num_output: 4 }", "SEQUENCE cont", rnn),
    ("Softmax", "softmax_param { axis: 2 }", "X", lambda x: x.softmax(2)),
    ("SoftmaxWithLoss", "", "X plane_labels", lambda x, t: F.cross_entropy(x, whole(t))),
    (
        "SoftmaxWithLoss",
        "loss_param { ignore_label: 2 }",
        "X plane_labels",
        lambda x, t: F.cross_entropy(x, whole(t), ignore_index=2),
    ),
    (
        "SoftmaxWithLoss",
        "loss_param { label_smoothing: 0.125 }",
        "X plane_labels",
        lambda x, t: F.cross_entropy(x, whole(t), label_smoothing=0.125),
    ),
    (
        "SoftmaxWithLoss",
        "loss_param { ignore_label: 2 label_smoothing: 0.125 }",
        "X plane_labels",
        lambda x, t: F.cross_entropy(x, whole(t), ignore_index=2, label_smoothing=0.125),
    ),
    ("SoftmaxWithLoss", "loss_param { normalization: VALID }", "X shares", F.cross_entropy),
    (
        "SoftmaxWithLoss",
        "loss_param { label_smoothing: 0.25 }",
        "X shares",
        lambda x, t: F.cross_entropy(x, t, label_smoothing=0.25),
    ),
    (
        "SigmoidCrossEntropyLoss",
        "",
        "X targets",
        lambda x, t: F.binary_cross_entropy_with_logits(x, t, reduction="sum") / 8,
    ),
    ("EuclideanLoss", "", "X Y", lambda x, y: F.mse_loss(x, y, reduction="sum") / 16),
    ("HingeLoss", "", "ROWS labels", lambda x, t: hinge(x, t).sum() / 8),
    (
        "HingeLoss",
        "hinge_loss_param { norm: L2 }",
        "ROWS labels",
        lambda x, t: (hinge(x, t) ** 2).sum() / 8,
    ),
    ("MultinomialLogisticLoss", "", "CHANCE labels", lambda p, t: F.nll_loss(p.log(), whole(t))),
    (
        "ContrastiveLoss",
        ("contrastive_loss_param { margin: 8 legacy_version: true }"),
        "ROWS ROWS2 similar",
        legacy,
    ),
    ("ContrastiveLoss", "contrastive_loss_param { margin: 8 }", "ROWS ROWS2 similar", contrastive),
    (
        "InfogainLoss",
        "",
        "ROWS labels matrix",
        lambda x, t, h: -(h[whole(t)] * x.log_softmax(1)).sum() / 8,
    ),
]

SHARES = RANDOM.random((8, 6, 9, 7)) + 0.1
BOTTOMS["shares"] = SHARES / SHARES.sum(axis=1, keepdims=True)
BOTTOMS["small"] = np.zeros((8, 6, 4, 3))
BOTTOMS["matrix"] = RANDOM.random((6, 6))
# tolerances of gradients that Caffe computes with a number added to a distance or a deviation
CAFFES = {"ContrastiveLoss": 1e-4, "MVN": 1e-8}
# the first two draw their own masks, and Parameter computes nothing
NOT_THERE = {"Dropout", "StochasticDepth", "Parameter"}


def close(found, expected, tolerance):
    found = np.asarray(found, np.float64)
    expected = expected.detach().numpy().astype(np.float64)
    np.testing.assert_allclose(
        found, expected, rtol=tolerance, atol=tolerance * max(1e-30, np.abs(expected).max())
    )


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 1e-5), (np.float64, 1e-10)])
@pytest.mark.parametrize(("kind", "options", "names", "reference"), LINES)
def test_a_layer_and_its_gradient_agree_with_torch(
    kind, options, names, reference, dtype, tolerance
):
    of_gradients = max(tolerance, CAFFES.get(kind, 0))
    compare(kind, options, names, reference, dtype, tolerance, of_gradients)


def compare(kind, options, names, reference, dtype, tolerance, of_gradients):
    """Compare a forward and a backward pass with PyTorch's, in this dtype."""
    given = [BOTTOMS[name].astype(dtype) for name in names.split()]
    wanted = [name.rstrip("2").isupper() for name in names.split()]
    tops = {"Slice": 3, "Split": 2}.get(kind, 1)
    layer = layer_of(kind, options, len(given), tops, dtype=dtype)
    layer.setup([array.shape for array in given], Setup("TRAIN", None, None))
    blobs = [(RANDOM.standard_normal(p.shape) * 0.3).astype(dtype) for p in layer.params]
    if kind == "BatchNorm":
        blobs = [np.abs(blob) + np.float32(1) for blob in blobs]
    found = layer.forward(given, blobs, RUN)
    tensors = [
        torch.tensor(array, requires_grad=want) for array, want in zip(given, wanted, strict=True)
    ]
    learned = [
        torch.tensor(blob, requires_grad=p.keep is None)
        for blob, p in zip(blobs, layer.params, strict=True)
    ]
    expected = reference(*tensors, *learned)
    expected = expected if isinstance(expected, tuple) else (expected,)
    for top, right in zip(found, expected, strict=True):
        close(top, right, tolerance)
    grads = [np.asarray(RANDOM.standard_normal(np.shape(top)), dtype) for top in found]
    torch.autograd.backward(expected, [torch.tensor(grad) for grad in grads])
    bottoms, params = layer.backward(grads, Values(given, found, blobs), RUN, wanted, None)
    for grad, tensor in zip([*bottoms, *params], [*tensors, *learned], strict=True):
        if tensor.requires_grad:
            close(grad, tensor.grad, of_gradients)


def test_every_layer_with_a_gradient_has_a_line_here_or_a_reason():
    with_gradient = {
        name for name, cls in KINDS.items() if cls.differentiable and not cls.is_source
    }
    assert {line[0] for line in LINES} | NOT_THERE >= with_gradient
