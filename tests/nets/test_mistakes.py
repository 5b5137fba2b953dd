"""Every mistake in a prototxt is one line: file, line, layer, key, found, expected, nearest
name."""

import pytest

from nets import NetError, PrototxtError, load_net, load_solver
from nets.graph.graph import Net
from ops import get_backend
from tests.nets.support import spec_of

DATA = 'layer { name: "d" type: "Data" top: "data" top: "label" data_param { batch_size: 4 } }\n'
CONV = (
    'layer { name: "c" type: "Convolution" bottom: "data" top: "c"\n  convolution_param '
    "{\n    %s\n  } }\n"
)
POOL = (
    'layer { name: "p" type: "Pooling" bottom: "data" top: "p"\n  pooling_param {\n    %s\n  } }\n'
)
DENSE = (
    'layer { name: "i" type: "InnerProduct" bottom: "data" top: "i"\n  '
    "inner_product_param { %s } }\n"
)

IN_TEXT = [
    (
        'layer { nam: "x" }',
        ("net.prototxt:1: unknown key 'nam' in LayerParameter (did you mean 'name'?)"),
    ),
    (
        "layer {\n type: Data }",
        ("net.prototxt:2: key 'type': found Data, expected a string in quotes"),
    ),
    (
        "force_backward: maybe",
        ("net.prototxt:1: key 'force_backward': found maybe, expected true or false"),
    ),
    (
        "layer {\n pooling_param {\n pool: MAXX } }",
        (
            "net.prototxt:3: key 'pool': found MAXX, expected one of MAX, AVE, STOCHASTIC (did "
            "you mean 'MAX'?)"
        ),
    ),
    (
        "layer { convolution_param {\n num_output: 2.5 } }",
        "net.prototxt:2: key 'num_output': found 2.5, expected an integer >= 0",
    ),
    ('name: "a"\nname: "b"', "net.prototxt:2: key 'name': given twice, first on line 1"),
    (
        '\nlayer { name: "a"\n',
        ("net.prototxt:2: found the end of the file, expected '}' for the block opened here"),
    ),
    ("layer: 3", "net.prototxt:1: key 'layer': found 3, expected a block '{ ... }'"),
    ("name: { }", "net.prototxt:1: key 'name': found a block, expected a string in quotes"),
    ('layer { name "x" }', "net.prototxt:1: found \"x\", expected ':' or '{'"),
    ("}", "net.prototxt:1: found '}', expected a key"),
    ('name: "a"', "net.prototxt:1: the net has no layer"),
    (
        'layer { type: "ReLU" }',
        ("net.prototxt:1: layer without name: key 'name': missing, expected a name"),
    ),
    (
        'layer { name: "r" }',
        ("net.prototxt:1: layer 'r': key 'type': missing, expected a layer type"),
    ),
    (
        'layer { name: "r" type: "ReLU" include { phase: TRAIN }\n exclude { phase: TEST } }',
        (
            "net.prototxt:2: layer 'r': key 'exclude': given together with 'include', expected only "
            "one of the two"
        ),
    ),
    (
        'input: "a"\ninput: "b"\ninput_shape { dim: 1 }',
        "net.prototxt:1: key 'input': found 2 inputs and 1 shapes, "
        "expected one input_shape (or four input_dim) per input",
    ),
]

IN_MEANING = [
    (
        'layer { name: "r"\n type: "Relu" bottom: "data" top: "r" }',
        (
            "net.prototxt:3: layer 'r': key 'type': found 'Relu', expected a layer type (did you "
            "mean 'ReLU'?)"
        ),
    ),
    (
        'layer { name: "r" type: "ReLU"\n bottom: "date" top: "r" }',
        "net.prototxt:3: layer 'r': key 'bottom': found 'date', "
        "but no layer above has such a top (did you mean 'data'?)",
    ),
    (
        'layer { name: "r" type: "ReLU" bottom: "data"\n top: "label" }',
        "net.prototxt:3: layer 'r': key 'top': found 'label', which layer 'd' already writes",
    ),
    (
        'layer { name: "d" type: "ReLU" bottom: "data" top: "r" }',
        "net.prototxt:2: layer 'd': key 'name': found 'd' twice, first on line 1",
    ),
    (
        'layer { name: "r" type: "ReLU" bottom: "data" bottom: "label" top: "r" }',
        "net.prototxt:2: layer 'r': key 'bottom': found 2, expected 1 for type 'ReLU'",
    ),
    (
        CONV % "num_output: 0 kernel_size: 3",
        (
            "net.prototxt:4: layer 'c': key 'convolution_param.num_output': found 0, expected an "
            "integer >= 1"
        ),
    ),
    (
        CONV % "num_output: 4",
        (
            "net.prototxt:3: layer 'c': key 'convolution_param': 'kernel_size' is missing, "
            "expected an integer >= 1"
        ),
    ),
    (
        CONV % "num_output: 4 kernel_h: 3",
        "net.prototxt:4: layer 'c': key 'convolution_param.kernel_h': given alone, "
        "expected both 'kernel_h' and 'kernel_w'",
    ),
    (
        CONV % "num_output: 4 kernel_size: 3 stride: 0",
        (
            "net.prototxt:4: layer 'c': key 'convolution_param.stride': found 0, expected an "
            "integer >= 1"
        ),
    ),
    (
        CONV % "num_output: 4 kernel_size: 3 group: 2",
        "net.prototxt:4: layer 'c': key 'convolution_param.group': found 2, "
        "expected a divisor of 1 inputs and 4 outputs",
    ),
    (
        CONV % 'num_output: 4 kernel_size: 3\n weight_filler { type: "xaver" }',
        "net.prototxt:5: layer 'c': key 'convolution_param.weight_filler.type': found 'xaver', "
        "expected one of constant, "
        "uniform, gaussian, xavier, msra, positive_unitball, bilinear, dirac, whitening (did you mean 'xavier'?)",
    ),
    (
        POOL % "global_pooling: true kernel_size: 2",
        "net.prototxt:4: layer 'p': key 'pooling_param.global_pooling': given together with a "
        "kernel size, "
        "expected only one of the two",
    ),
    (
        DENSE % "num_output: 4 axis: 7",
        (
            "net.prototxt:3: layer 'i': key 'inner_product_param.axis': found 7, but the bottom "
            "has shape (4, 1, 8, 8)"
        ),
    ),
    (
        (
            'layer { name: "x" type: "Dropout" bottom: "data" top: "x" dropout_param { '
            "dropout_ratio: 1 } }"
        ),
        (
            "net.prototxt:2: layer 'x': key 'dropout_param.dropout_ratio': found 1, expected 0 < "
            "ratio < 1"
        ),
    ),
    (
        'layer { name: "x" type: "Softmax" bottom: "data" top: "x" softmax_param { axis: 4 } }',
        (
            "net.prototxt:2: layer 'x': key 'softmax_param.axis': found 4, but the bottom has "
            "shape (4, 1, 8, 8)"
        ),
    ),
    (
        'layer { name: "x" type: "Accuracy" bottom: "data" bottom: "label" top: "x" }',
        "net.prototxt:2: layer 'x': key 'bottom': found labels of shape (4,) for scores (4, "
        "1, 8, 8), "
        "expected (4, 8, 8)",
    ),
    (
        'layer { name: "x" type: "Threshold" bottom: "data" top: "x" loss_weight: 1 }',
        (
            "net.prototxt:2: layer 'x': key 'loss_weight': this type has no gradient, expected "
            "no weight"
        ),
    ),
    (
        DENSE.replace("top:", "param { } param { } param { } top:") % "num_output: 4",
        (
            "net.prototxt:2: layer 'i': key 'param': found 3, expected at most 2, one per "
            "parameter of type 'InnerProduct'"
        ),
    ),
    (
        'layer { name: "x" type: "ReLU" bottom: "data" top: "x" loss_weight: 1\n loss_weight: 2 }',
        "net.prototxt:2: layer 'x': key 'loss_weight': found 2, expected one per top, 1",
    ),
    (
        'layer { name: "x" type: "LRN" bottom: "data" top: "x" lrn_param { local_size: 4 } }',
        "net.prototxt:2: layer 'x': key 'lrn_param.local_size': found 4, expected an odd number",
    ),
    (
        'layer { name: "x" type: "BatchNorm" bottom: "data" top: "x" param { lr_mult: 1 } }',
        "net.prototxt:2: layer 'x': key 'param.lr_mult': a running statistic is not learned, "
        "expected lr_mult 0 or no param",
    ),
    (
        (
            'layer { name: "x" type: "Reshape" bottom: "data" top: "x" reshape_param { shape { '
            "dim: 0 dim: 7 } } }"
        ),
        (
            "net.prototxt:2: layer 'x': key 'reshape_param.shape': (4, 7) does not hold the 256 "
            "numbers of (4, 1, 8, 8)"
        ),
    ),
    (
        (
            'layer { name: "x" type: "Slice" bottom: "data" top: "x" top: "y" slice_param { '
            "axis: 2 slice_point: 8 } }"
        ),
        "net.prototxt:2: layer 'x': key 'slice_param.slice_point': found [8], expected 1 "
        "rising numbers "
        "between 0 and 8",
    ),
    (
        'layer { name: "x" type: "Eltwise" bottom: "data" bottom: "label" top: "x" }',
        (
            "net.prototxt:2: layer 'x': key 'bottom': found shapes [(4, 1, 8, 8), (4,)], "
            "expected one shape"
        ),
    ),
    (
        'layer { name: "x" type: "EuclideanLoss" bottom: "data" bottom: "label" top: "x" }',
        "net.prototxt:2: layer 'x': key 'bottom': found shapes (4, 1, 8, 8) and (4,), "
        "expected the second as (4, 1, 8, 8)",
    ),
    (
        DENSE % "num_output: 1"
        + ('layer { name: "x" type: "SoftmaxWithLoss" bottom: "i" bottom: "i" top: "x" }'),
        "net.prototxt:4: layer 'x': key 'bottom': labels 'i' depend on parameters, but no "
        "gradient reaches labels; "
        "set propagate_down: false for them if this is intended",
    ),
    (
        'layer { name: "x" type: "Python" bottom: "data" top: "x" }',
        "net.prototxt:2: layer 'x': key 'type': layer type 'Python' of Caffe is not "
        "supported: it would run code "
        "that a prototxt names; provide the layer as a new type (docs/extending.md)",
    ),
]


@pytest.mark.parametrize(("text", "message"), IN_TEXT)
def test_mistakes_of_writing_are_one_readable_line(tmp_path, text, message):
    with pytest.raises(PrototxtError) as caught:
        spec_of(tmp_path, text)
    assert caught.value.problems == [message]


@pytest.mark.parametrize(("text", "message"), IN_MEANING)
def test_mistakes_of_meaning_are_one_readable_line(tmp_path, text, message):
    spec = spec_of(tmp_path, DATA + text)
    with pytest.raises(PrototxtError) as caught:
        Net(spec, "TRAIN", ops=get_backend(), input_shape=(1, 8, 8))
    assert caught.value.problems == [message]


def test_layer_types_that_caffe_has_and_we_do_not_are_refused_by_name(tmp_path):
    spec = spec_of(tmp_path, 'layer { name: "x" type: "WindowData" top: "data" }')
    with pytest.raises(
        PrototxtError,
        match=(r"layer type 'WindowData' of Caffe is not " r"supported: .* use ImageData"),
    ):
        Net(spec, "TRAIN", ops=get_backend())


def test_all_mistakes_of_a_file_come_at_once_and_followers_are_not_blamed(tmp_path):
    text = (
        DATA
        + CONV % "num_output: 0 kernel_size: 3"
        + POOL.replace('"data"', '"c"') % "kernel_size: 2"
    )
    text += 'layer { name: "q" type: "Pool" bottom: "p" top: "q" }'
    with pytest.raises(PrototxtError) as caught:
        Net(spec_of(tmp_path, text), "TRAIN", ops=get_backend(), input_shape=(1, 8, 8))
    assert [problem.split(": ")[1] for problem in caught.value.problems] == [
        "layer 'c'",
        "layer 'q'",
    ]


def test_all_misspelt_keys_of_a_file_come_at_once(tmp_path):
    with pytest.raises(PrototxtError) as caught:
        spec_of(tmp_path, 'nam: "a"\nlayer { tpye: "x"\n botom: "y" }\n')
    assert [problem[:15] for problem in caught.value.problems] == [
        f"net.prototxt:{line}:" for line in (1, 2, 3)
    ]


def test_an_unknown_zoo_name_offers_the_nearest():
    with pytest.raises(
        PrototxtError,
        match=(r"lenot: no such file, and the zoo has no such name \(did you " r"mean 'lenet'"),
    ):
        load_net("lenot")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('type: "Adam" momentum2: 1', ("s.prototxt:4: key 'momentum2': found 1, expected 0 " "" "<= " "momentum2 < 1")),
        ('type: "AdaGrad" momentum: 0.5', ("s.prototxt:4: key 'momentum': found 0.5, but " "" "" "AdaGrad has no momentum, expected 0")),
        ('regularization_type: "L3"', ("s.prototxt:4: key 'regularization_type': found 'L3', " "" "" "expected 'L1' or 'L2'")),
        ('type: "SDG"', "s.prototxt:4: key 'type': found 'SDG', expected one of SGD, " "" "" "Nesterov, AdaGrad, RMSProp, "
         "AdaDelta, Adam, SGDW, NesterovW, AdamW, LARS, Muon (did you mean 'SGD'?)"),
        ("iter_size: 0", "s.prototxt:4: key 'iter_size': found 0, expected an integer >= 1"),
        ("momentum: 1", "s.prototxt:4: key 'momentum': found 1, expected 0 <= momentum < 1"),
        (
            "weight_decay: -1",
            "s.prototxt:4: key 'weight_decay': found -1, expected a finite number >= 0",
        ),
        ("weight_decay: inf", "s.prototxt:4: key 'weight_decay': found inf, expected a finite number >= 0"),
        ("delta: -1", "s.prototxt:4: key 'delta': found -1, expected a finite number >= 0"),
        ("clip_gradients: nan", "s.prototxt:4: key 'clip_gradients': found nan, expected a number"),
        ("momentun: 1", ("s.prototxt:4: unknown key 'momentun' in SolverParameter (did you " "" "" "mean 'momentum'?)")),
    ],
)  # fmt: skip
def test_mistakes_in_a_solver_are_one_readable_line(tmp_path, text, message):
    file = tmp_path / "s.prototxt"
    file.write_text(f'base_lr: 0.1\nmax_iter: 9\nlr_policy: "fixed"\n{text}\n', "utf-8")
    with pytest.raises(PrototxtError) as caught:
        load_solver(file)
    assert caught.value.problems == [message]


def test_a_solver_names_every_key_that_must_not_be_missing(tmp_path):
    file = tmp_path / "s.prototxt"
    file.write_text('lr_policy: "step"\n', "utf-8")
    with pytest.raises(PrototxtError) as caught:
        load_solver(file)
    keys = [problem.split("key '")[1].split("'")[0] for problem in caught.value.problems]
    assert keys == ["base_lr", "stepsize", "max_iter"]


def test_a_net_named_as_a_solver_and_a_solver_named_as_a_net_are_one_mistake_each(tmp_path):
    net = load_net("lenet").path
    solver = tmp_path / "s.prototxt"
    solver.write_text('net: "net.prototxt"\nbase_lr: 0.1\nmax_iter: 3\n', "utf-8")
    for load, file, message in (
        (load_solver, net, f"{net.name}: found the layers of a net, expected a solver, which"),
        (load_net, solver, "s.prototxt: found a solver, which names its net by the key 'net', "),
    ):
        with pytest.raises(PrototxtError) as caught:
            load(str(file))
        (problem,) = caught.value.problems
        assert problem.startswith(message)


def test_weights_named_as_a_net_are_refused_with_the_key_for_them(tmp_path):
    file = tmp_path / "lenet.caffemodel"
    file.write_bytes(b"weights")
    with pytest.raises(
        NetError, match=r"lenet\.caffemodel: found a file of weights.*train.weights"
    ):
        load_net(str(file))


def test_every_cut_of_the_lenet_text_is_a_net_error_or_a_net(tmp_path):
    text = load_net("lenet").path.read_text("utf-8")
    for end in range(0, len(text), 41):
        try:
            Net(spec_of(tmp_path, text[:end]), "TRAIN", ops=get_backend(), input_shape=(1, 28, 28))
        except NetError as error:
            assert all(problem.startswith("net") for problem in error.problems)
