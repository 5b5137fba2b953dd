"""ONNX files of every net of the zoo, and of every layer that ONNX can express: onnxruntime
computes our numbers from them."""

import dataclasses
import json
import math
from pathlib import Path

import numpy as np
import pytest
from google.protobuf import text_format

from nets import NetError, load_net
from nets.definition.spec import ZOO
from nets.definition.zoo import NETS as IN_PYTHON
from nets.graph.graph import Net
from nets.layers import KINDS
from nets.predict import Deployment, Given
from nets.predict.given import completed
from ops import get_backend
from tests.nets.support import some_values, spec_of

pytest.importorskip("onnx", reason="needs onnx: pip install -e '.[onnx]'")
onnxruntime = pytest.importorskip(
    "onnxruntime", reason=("needs onnxruntime: pip install -e '.[onnx-reference]'")
)

from nets.onnx import export  # noqa: E402
from nets.onnx.graph_builder import CONVERTERS  # noqa: E402
from nets.onnx.pointwise import PLAIN  # noqa: E402

SIZES = {
    "lenet": (28, 28),
    "cifar10_quick": (32, 32),
    "cifar10_full": (32, 32),
    "resnet20": (32, 32),
    "airbench94": (32, 32),
}
QUICK = [*SIZES, "char_lstm"]
FILES = [path.stem for path in ZOO.glob("*.prototxt") if not path.stem.endswith("_solver")]
NAMES = sorted(FILES) + [f"{name}(image=64)" for name in sorted(IN_PYTHON)]
CLOSE = 1e-4  # relative to the largest number
IMAGE = (
    'layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 2 dim: 4 '
    "dim: 7 dim: 9 } } }"
)
ROWS = 'layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 2 dim: 6 } } }'
TWO = (
    'layer { name: "data" type: "Input" top: "data" top: "more" input_param { shape { dim: 2 '
    "dim: 4 dim: 7 dim: 9 } } }"
)
WINDOWS = ((3, 2, 0), (3, 2, 1), (2, 2, 1), (5, 3, 2), (1, 2, 0), (2, 3, 0))
CELL = "num_output: 3 weight_filler { type: 'uniform' min: -1 max: 1 }"


def some(name, shape, random):
    return random.standard_normal(shape)


def agree(
    deployment: Deployment, path: Path, rows: tuple[int, ...] = (2, 3), draw=some, step: int = 1
) -> dict:
    """Write the file once, and compare the output for each number of rows. Returns the file's
    metadata."""
    first = Net(deployment.net, "TEST", ops=get_backend(), batch=rows[0] * step)
    blobs = some_values(first)
    export(deployment, blobs, path)
    theirs = onnxruntime.InferenceSession(str(path))
    for count in rows:
        net = Net(deployment.net, "TEST", ops=get_backend(), batch=count * step)
        random = np.random.default_rng(count)
        fed = {
            name: (draw or (lambda name, shape, random: random.standard_normal(shape)))(
                name, shape, random
            ).astype("f4")
            for name, shape in net.input_shapes.items()
        }
        net.run(fed, blobs)
        expected = np.asarray(net.blob(deployment.output))
        wanted = {each.name for each in theirs.get_inputs()}
        (found,) = theirs.run(None, {name: array for name, array in fed.items() if name in wanted})
        assert found.shape == expected.shape
        assert np.isfinite(expected).all()
        assert np.abs(found - expected).max() <= CLOSE * max(np.abs(expected).max(), 1e-3)
    return theirs.get_modelmeta().custom_metadata_map


def scores_of(deployment: Deployment) -> Deployment:
    """The same net, with the input of its softmax as the output: probabilities would hide
    differences."""
    last = deployment.net.layers[-1].proto
    return (
        dataclasses.replace(deployment, output=last.bottom[0])
        if last.type == "Softmax"
        else deployment
    )


@pytest.mark.few(*(f"[{name}]" for name in SIZES))
@pytest.mark.parametrize("name", NAMES)
def test_every_net_of_the_zoo_computes_the_same_there_with_any_number_of_rows(tmp_path, name):
    net = load_net(name)
    # 550 MB of weights would only keep the memory busy
    if "num_output: 4096" in (plain := text_format.MessageToString(net.proto)):
        net = spec_of(tmp_path, plain.replace("num_output: 4096", "num_output: 256"))
    given = Given(net=net, size=SIZES.get(name), order="gray" if name == "lenet" else "")
    deployment = completed(None, given, {}, name)
    text = name == "char_lstm"

    def draw(blob, shape, random):
        return (
            random.integers(0, 2 if blob == "cont" else 65, shape)
            if text
            else random.standard_normal(shape)
        )

    for each in (deployment, scores_of(deployment)) if name in QUICK else (scores_of(deployment),):
        facts = agree(each, tmp_path / "net.onnx", draw=draw, step=32 if text else 1)
        assert json.loads(facts["transform"])["crop"] == deployment.transform.crop


def layer(kind: str, settings: str = "", bottoms: str = '"data"', tops: str = '"y"') -> str:
    listed = "".join(f" bottom: {name}" for name in bottoms.split())
    made = "".join(f" top: {name}" for name in tops.split())
    return f'layer {{ name: "l" type: "{kind}"{listed}{made} {settings} }}'


CASES = {
    "Convolution": [
        IMAGE
        + layer(
            "Convolution",
            """convolution_param { num_output: 6 group: 2
        kernel_h: 3 kernel_w: 2 stride: 2 pad_h: 1 pad_w: 0 dilation: 2 weight_filler { type: "xavier" } }""",
        )
    ],
    "Deconvolution": [
        IMAGE
        + layer(
            "Deconvolution",
            """convolution_param { num_output: 6 group: 2
        kernel_size: 3 stride: 2 pad: 1 weight_filler { type: "xavier" } }""",
        )
    ],
    "Pooling": [
        IMAGE
        + layer(
            "Pooling", (f"pooling_param {{ pool: {pool} kernel_size: {k} stride: {s} pad: {p} }}")
        )
        for pool in ("MAX", "AVE")
        for k, s, p in WINDOWS
    ]
    + [IMAGE + layer("Pooling", "pooling_param { pool: AVE global_pooling: true }")],
    "SPP": [
        IMAGE + layer("SPP", (f"spp_param {{ pyramid_height: 3 pool: {pool} }}"))
        for pool in ("MAX", "AVE")
    ],
    "LRN": [
        IMAGE
        + layer(
            "LRN",
            (f"lrn_param {{ local_size: 3 alpha: 0.5 beta: 0.75 k: 2 norm_region: {region} }}"),
        )
        for region in ("ACROSS_CHANNELS", "WITHIN_CHANNEL")
    ],
    "InnerProduct": [
        IMAGE
        + layer(
            "InnerProduct",
            f"""inner_product_param {{ num_output: 5 axis: {axis}
        transpose: {turn} bias_term: {bias} weight_filler {{ type: "xavier" }} }}""",
        )
        for axis, turn, bias in (
            (1, "false", "true"),
            (1, "true", "false"),
            (3, "false", "true"),
            (2, "true", "false"),
        )
    ],
    "Embed": [
        ROWS
        + layer(
            "Embed",
            """embed_param { num_output: 3 input_dim: 9 weight_filler { type: "xavier" } }""",
        ),
        ROWS + layer("Embed", "embed_param { num_output: 3 input_dim: 9 bias_term: false }"),
    ],
    "BatchNorm": [IMAGE + layer("BatchNorm"), ROWS + layer("BatchNorm")],
    "Scale": [
        IMAGE + layer("Scale", "scale_param { bias_term: true }"),
        IMAGE + layer("Scale", "scale_param { axis: 2 num_axes: 2 }"),
        TWO + layer("Scale", "scale_param { axis: 0 }", '"data" "more"'),
    ],
    "Bias": [IMAGE + layer("Bias"), IMAGE + layer("Bias", "bias_param { axis: 1 num_axes: 2 }")],
    "Eltwise": [
        TWO + layer("Eltwise", f"eltwise_param {{ {what} }}", '"data" "more" "data"')
        for what in (
            "operation: SUM",
            ("operation: SUM coeff: 1 coeff: -2 coeff: 0.5"),
            "operation: PROD",
            "operation: MAX",
        )
    ],
    "Concat": [
        TWO + layer("Concat", f"concat_param {{ axis: {axis} }}", '"data" "more"')
        for axis in (1, 3)
    ],
    "Slice": [IMAGE + layer("Slice", "slice_param { slice_point: 1 }", tops='"z" "y"')],
    "Split": [IMAGE + layer("Split", tops='"z" "y"')],
    "Silence": [
        IMAGE + layer("Split", tops='"z" "y"') + ('layer { name: "s" type: "Silence" bottom: "z" }')
    ],
    "Crop": [
        IMAGE
        + layer("Pooling", "pooling_param { kernel_size: 3 }", tops='"z"')
        + (
            'layer { name: "c" type: "Crop" bottom: "data" bottom: "z" top: "y" '
            "crop_param { offset: 1 } }"
        )
    ],
    "Flatten": [
        IMAGE + layer("Flatten"),
        IMAGE + layer("Flatten", "flatten_param { axis: 2 end_axis: 3 }"),
        IMAGE + layer("Flatten", "flatten_param { axis: 0 end_axis: 1 }"),
    ],
    "Reshape": [
        IMAGE + layer("Reshape", "reshape_param { shape { dim: 0 dim: 2 dim: -1 } }"),
        IMAGE + layer("Reshape", "reshape_param { shape { dim: -1 dim: 9 } }"),
    ],
    "Tile": [IMAGE + layer("Tile", "tile_param { axis: 2 tiles: 3 }")],
    "Softmax": [IMAGE + layer("Softmax"), ROWS + layer("Softmax", "softmax_param { axis: -1 }")],
    "MVN": [
        IMAGE + layer("MVN", f"mvn_param {{ across_channels: {a} normalize_variance: {v} }}")
        for a in ("true", "false")
        for v in ("true", "false")
    ],
    **{
        kind: [
            IMAGE
            + layer(kind, "convolution_param { num_output: 8 kernel_size: 3 stride: 2 pad: 1 }")
        ]
        for kind in ("DepthwiseConvolution", "ConvolutionDepthwise")
    },
    "Permute": [IMAGE + layer("Permute", "permute_param { order: [0, 2, 3, 1] }")],
    "Pad": [
        IMAGE + layer("Pad", "pad_param { top: 1 left: 2 right: 3 value: 0.5 }"),
        IMAGE + layer("Pad", "pad_param { top: 1 left: 2 right: 3 mode: EDGE }"),
    ],
    "AdaptivePooling": [
        IMAGE + layer("AdaptivePooling", f"adaptive_pooling_param {{ output_size: {sizes} }}")
        for sizes in ("1", "[7, 3]", "[3, 4]")
    ],
    "GroupNorm": [
        IMAGE + layer("GroupNorm", "group_norm_param { groups: 2 eps: 0.01 }"),
        ROWS + layer("GroupNorm", "group_norm_param { groups: 3 }"),
    ],
    "LayerNorm": [
        IMAGE + layer("LayerNorm"),
        IMAGE + layer("LayerNorm", "layer_norm_param { axis: 3 eps: 0.01 }"),
        ROWS + layer("LayerNorm"),
    ],
    "Reduction": [
        IMAGE + layer("Reduction", (f"reduction_param {{ operation: {kind} axis: 2 coeff: 1.5 }}"))
        for kind in ("SUM", "ASUM", "SUMSQ", "MEAN")
    ],
    "ArgMax": [
        IMAGE + layer("ArgMax", f"argmax_param {{ {what} }}")
        for what in (
            "top_k: 3",
            "top_k: 3 out_max_val: true",
            "axis: 1 top_k: 2",
            "axis: 1 top_k: 2 out_max_val: true",
        )
    ],
    "ReLU": [
        IMAGE + layer("ReLU"),
        IMAGE + layer("ReLU", "relu_param { negative_slope: 0.1 }"),
        IMAGE + layer("ReLU", tops='"data"'),
    ],
    "PReLU": [
        IMAGE + layer("PReLU"),
        IMAGE + layer("PReLU", "prelu_param { channel_shared: true }"),
    ],
    "ELU": [IMAGE + layer("ELU", "elu_param { alpha: 0.7 }")],
    "Power": [IMAGE + layer("Power", "power_param { power: 2 scale: 3 shift: 1 }")],
    "Exp": [
        IMAGE + layer("Exp", ("exp_param { base: 2 scale: 0.5 shift: 1 }")),
        IMAGE + layer("Exp"),
    ],
    "Log": [
        IMAGE
        + layer("AbsVal", tops='"z"')
        + (
            'layer { name: "m" type: "Log" bottom: "z" top: "y" log_param { base: 10 '
            "scale: 2 shift: 3 } }"
        )
    ],
    "Threshold": [IMAGE + layer("Threshold", "threshold_param { threshold: 0.2 }")],
    "Clip": [IMAGE + layer("Clip", "clip_param { min: -0.5 max: 0.7 }")],
    "Swish": [IMAGE + layer("Swish", "swish_param { beta: 1.5 }")],
    "GELU": [
        IMAGE + layer("GELU"),
        IMAGE + layer("GELU", "gelu_param { approximate: TANH }"),
    ],
    **{kind: [IMAGE + layer(kind)] for kind in ("SiLU", "HardSigmoid")},
    "Parameter": [
        IMAGE + 'layer { name: "p" type: "Parameter" top: "w" '
        "parameter_param { shape { dim: 4 dim: 7 dim: 9 } } }"
        + layer("Bias", "bias_param { axis: 1 }", '"data" "w"')
    ],
    **{kind: [IMAGE + layer(kind)] for kind in PLAIN},
    **{
        kind: [
            f"""layer {{ name: "data" type: "Input" top: "x" top: "cont" top: "static" top: "h"{extra}
            input_param {{ shape {{ dim: 4 dim: 2 dim: 5 }} shape {{ dim: 4 dim: 2 }} shape {{ dim: 2 dim: 3 }}
            shape {{ dim: 1 dim: 2 dim: 3 }} {more} }} }}"""
            + layer(kind, f"recurrent_param {{ {CELL} {exposed} }}", bottoms, tops)
            for exposed, bottoms, tops in (
                ("", '"x" "cont"', '"y"'),
                ("", '"x" "cont" "static"', '"y"'),
                ("expose_hidden: true", f'"x" "cont" "h"{add}', f'"y" "z"{end}'),
            )
        ]
        for kind, extra, more, add, end in (
            ("RNN", "", "", "", ""),
            ("LSTM", ' top: "c"', "shape { dim: 1 dim: 2 dim: 3 }", ' "c"', ' "zc"'),
        )
    },
}


def number(name, shape, random):
    return random.integers(0, 9, shape)


@pytest.mark.parametrize("kind", CASES)
def test_a_layer_computes_the_same_there(tmp_path, kind):
    for at, text in enumerate(CASES[kind]):
        spec = spec_of(tmp_path, text)
        output = "data" if 'top: "data"' in text.replace(IMAGE, "") and kind == "ReLU" else "y"
        deployment = Deployment(spec, output, (4, 7, 9))
        rows = (4,) if kind in ("LSTM", "RNN") else (2, 3)
        if kind in ("LSTM", "RNN"):
            recurrent(deployment, tmp_path / f"{at}.onnx")
        else:
            agree(deployment, tmp_path / f"{at}.onnx", rows, number if kind == "Embed" else some)


def recurrent(deployment: Deployment, path: Path) -> None:
    """Only x and cont have a row per step of time. Therefore the net has the batch of the
    prototxt."""
    net = Net(deployment.net, "TEST", ops=get_backend())
    blobs = some_values(net)
    random = np.random.default_rng(5)
    export(deployment, blobs, path)
    fed = {
        name: random.standard_normal(shape).astype("f4") for name, shape in net.input_shapes.items()
    }
    fed["cont"] = random.integers(0, 2, net.input_shapes["cont"]).astype("f4")
    net.run(fed, blobs)
    theirs = onnxruntime.InferenceSession(str(path))
    wanted = {each.name for each in theirs.get_inputs()}
    (found,) = theirs.run(None, {name: array for name, array in fed.items() if name in wanted})
    expected = np.asarray(net.blob(deployment.output))
    assert np.abs(found - expected).max() <= CLOSE * np.abs(expected).max()


def test_every_layer_type_has_a_converter_and_a_case_or_is_left_out_for_a_reason():
    """A layer type of another package without a converter is refused by name and line."""
    trained_only = {kind for kind, cls in KINDS.items() if cls.is_source or cls.scores}
    random = {"DummyData"}
    assert set(KINDS) - trained_only - random <= set(CONVERTERS) == set(CASES) <= set(KINDS)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (IMAGE + "\n" + layer("Pooling", "pooling_param { pool: STOCHASTIC kernel_size: 2 }"),
         ("net.prototxt:2: layer 'l': key 'pooling_param.pool': 'Pooling' has no counterpart " "" "" "in ONNX: stochastic")),
        (IMAGE + "\n" + layer("Pooling", "pooling_param { kernel_size: 2 }", tops='"y" "z"'),
         ("net.prototxt:2: layer 'l': key 'top': 'Pooling' has no counterpart in ONNX: it " "" "" "gives the places")),
        (IMAGE + "\n" + layer("BatchNorm", "batch_norm_param { use_global_stats: false }"),
         "net.prototxt:2: layer 'l': key 'batch_norm_param.use_global_stats'"),
        (IMAGE + ('\nlayer { name: "d" type: "DummyData" top: "z" dummy_data_param { shape { ' '' '' 'dim: 2 } } }\n')
         + layer("Split", bottoms='"data"'), ("net.prototxt:2: layer 'd': key 'type': " "" "" "'DummyData' has no counterpart")),
    ],
)  # fmt: skip
def test_a_layer_that_onnx_lacks_is_refused_by_name_and_line(tmp_path, text, expected):
    spec = spec_of(tmp_path, text)
    net = Net(spec, "TEST", ops=get_backend())
    with pytest.raises(NetError) as error:
        export(Deployment(spec, "y", (4, 7, 9)), net.initial_blobs(), tmp_path / "no.onnx")
    assert str(error.value).startswith(expected)
    assert not list(tmp_path.glob("*no.onnx*"))


def test_layers_that_share_parameters_have_the_same_there(tmp_path):
    text = ROWS + "".join(
        f'layer {{ name: "l{at}" type: "InnerProduct" bottom: "{bottom}" top: "{top}" param '
        f'{{ name: "w" }} '
        'inner_product_param { num_output: 6 bias_term: false weight_filler { type: "xavier" } } }'
        for at, bottom, top in ((0, "data", "z"), (1, "z", "y"))
    )
    agree(Deployment(spec_of(tmp_path, text), "y", (6,)), tmp_path / "twins.onnx")


def test_the_areas_of_averages_are_caffes():
    """A plane of 5 in windows of 3 by 2, padded by 1: the last window begins at 5 - 1, and 2 of its
    pixels are inside the padding."""
    from nets.onnx.spatial import _factors
    from ops import PoolGeometry

    found = _factors(PoolGeometry((3, 3), (2, 2), (1, 1), "AVE"), (4, 4))
    assert math.isclose(found[0, 0], 1.0)
    assert math.isclose(found[-1, -1], 9 / 4)


def test_a_net_that_is_written_for_one_row_becomes_a_file_for_one_row(tmp_path, caplog):
    text = (
        IMAGE.replace("dim: 2 dim: 4", "dim: 1 dim: 4")
        + """
        layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip"
          inner_product_param { num_output: 6 } }
        layer { name: "cut" type: "Reshape" bottom: "ip" top: "cut"
          reshape_param { shape { dim: 1 dim: 6 } } }
        layer { name: "p" type: "Softmax" bottom: "cut" top: "p" }"""
    )
    spec = spec_of(tmp_path, text)
    agree(completed(None, Given(net=spec), {}, "x"), tmp_path / "n.onnx", rows=(1,))
    assert "the ONNX file takes one row, since the net is written for one" in caplog.text
