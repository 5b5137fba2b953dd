"""The values and nets with which `test_fields` tries each field of the schema: the tables behind
its walk."""

from __future__ import annotations

# message -> (layer type, its bottoms, its tops, its options before a change). Bottoms are named in
# test_layers.BOTTOMS.
LAYERS = {
    "AccuracyParameter": ("Accuracy", "ROWS labels", 1, ""),
    "AdaptivePoolingParameter": ("AdaptivePooling", "X", 1, "output_size: 2"),
    "ArgMaxParameter": ("ArgMax", "ROWS", 1, ""),
    "BatchNormParameter": ("BatchNorm", "X", 1, ""),
    "BiasParameter": ("Bias", "X", 1, ""),
    "BlobShape": ("Reshape", "X", 1, ""),
    "ClipParameter": ("Clip", "X", 1, "min: -1 max: 1"),
    "ConcatParameter": ("Concat", "X Y", 1, ""),
    "ContrastiveLossParameter": ("ContrastiveLoss", "FAR FAR2 similar", 1, "margin: 250"),
    "ConvolutionParameter": ("Convolution", "X", 1, "num_output: 6 kernel_size: 3"),
    "CropParameter": ("Crop", "X like", 1, "offset: 1"),
    "DataParameter": ("Data", "", 2, "batch_size: 4"),
    "DropoutParameter": ("Dropout", "X", 1, ""),
    "DummyDataParameter": ("DummyData", "", 1, "num: 4 channels: 3 height: 2 width: 2"),
    "ELUParameter": ("ELU", "X", 1, ""),
    "EltwiseParameter": ("Eltwise", "X Y", 1, ""),
    "EmbedParameter": ("Embed", "labels", 1, "num_output: 3 input_dim: 5"),
    "ExpParameter": ("Exp", "X", 1, ""),
    "FlattenParameter": ("Flatten", "X", 1, ""),
    "GELUParameter": ("GELU", "X", 1, ""),
    "GroupNormParameter": ("GroupNorm", "X", 1, "groups: 1"),
    "HDF5DataParameter": ("HDF5Data", "", 2, "batch_size: 4"),
    "HingeLossParameter": ("HingeLoss", "ROWS labels", 1, ""),
    "ImageDataParameter": ("ImageData", "", 2, "batch_size: 4"),
    "InfogainLossParameter": ("InfogainLoss", "X plane_labels matrix3", 1, ""),
    "InnerProductParameter": ("InnerProduct", "X", 1, "num_output: 3"),
    "InputParameter": ("Input", "", 1, "shape { dim: 4 dim: 3 }"),
    "LRNParameter": ("LRN", "X", 1, "alpha: 2"),
    "LayerNormParameter": ("LayerNorm", "X", 1, ""),
    "LogParameter": ("Log", "POSITIVE", 1, ""),
    "LossParameter": ("SoftmaxWithLoss", "X plane_labels", 1, "ignore_label: 1"),
    "MVNParameter": ("MVN", "X", 1, ""),
    "MemoryDataParameter": ("MemoryData", "", 2, "batch_size: 4 channels: 3 height: 8 width: 8"),
    "PReLUParameter": ("PReLU", "X", 1, ""),
    "PadParameter": ("Pad", "X", 1, "top: 1"),
    "PermuteParameter": ("Permute", "X", 1, "order: [0, 1, 3, 2]"),
    "ParameterParameter": ("Parameter", "", 1, "shape { dim: 3 }"),
    "PoolingParameter": ("Pooling", "POSITIVE", 1, "kernel_size: 2"),
    "PowerParameter": ("Power", "POSITIVE", 1, "power: 2 scale: 0.5 shift: 0.5"),
    "PythonParameter": ("Python", "X", 1, ""),
    "ReLUParameter": ("ReLU", "X", 1, ""),
    "RecurrentParameter": ("RNN", "SEQUENCE cont", 1, "num_output: 4"),
    "ReductionParameter": ("Reduction", "X", 1, ""),
    "ReshapeParameter": ("Reshape", "X", 1, "shape { dim: 0 dim: -1 }"),
    "SPPParameter": ("SPP", "POSITIVE", 1, "pyramid_height: 2"),
    "ScaleParameter": ("Scale", "X", 1, ""),
    "SigmoidParameter": ("Sigmoid", "X", 1, ""),
    "SliceParameter": ("Slice", "X", 3, ""),
    "SoftmaxParameter": ("Softmax", "X", 1, ""),
    "SwishParameter": ("Swish", "X", 1, ""),
    "TanHParameter": ("TanH", "X", 1, ""),
    "ThresholdParameter": ("Threshold", "X", 1, ""),
    "TileParameter": ("Tile", "X", 1, "tiles: 2"),
    "TransformationParameter": ("Data", "", 2, ""),
}

DENSE = "num_output: 3 "
SHAPE = "num_output: 6 "
# message.field -> the changed options, or (options before, changed options). A field that is not
# listed is changed to the opposite truth value, to each other name, or to a number larger by one.
INSTEAD: dict[str, str | tuple[str, str]] = {
    "AccuracyParameter.top_k": "top_k: 5",
    "AdaptivePoolingParameter.output_h": ("output_h: 2 output_w: 2", "output_h: 3 output_w: 2"),
    "AdaptivePoolingParameter.output_size": "output_size: 3",
    "AdaptivePoolingParameter.output_w": ("output_h: 2 output_w: 2", "output_h: 2 output_w: 3"),
    "ArgMaxParameter.axis": "axis: 1",
    "BatchNormParameter.eps": "eps: 0.5",
    "BatchNormParameter.moving_average_fraction": "moving_average_fraction: 0.5",
    "BatchNormParameter.use_global_stats": "use_global_stats: true",
    "BiasParameter.axis": "axis: 0 num_axes: 1",
    "ClipParameter.min": "min: -2 max: 1",
    "ConcatParameter.concat_dim": "concat_dim: 2",
    "PermuteParameter.order": "order: [0, 2, 1, 3]",
    "ConvolutionParameter.dilation": SHAPE + "kernel_size: 3 dilation: 2",
    "ConvolutionParameter.group": SHAPE + "kernel_size: 3 group: 3",
    "ConvolutionParameter.kernel_h": (
        SHAPE + "kernel_h: 3 kernel_w: 3",
        SHAPE + "kernel_h: 2 kernel_w: 3",
    ),
    "ConvolutionParameter.kernel_size": SHAPE + "kernel_size: 2",
    "ConvolutionParameter.kernel_w": (
        SHAPE + "kernel_h: 3 kernel_w: 3",
        SHAPE + "kernel_h: 3 kernel_w: 2",
    ),
    "ConvolutionParameter.pad": SHAPE + "kernel_size: 3 pad: 1",
    "ConvolutionParameter.stride": SHAPE + "kernel_size: 3 stride: 2",
    "ConvolutionParameter.stride_h": SHAPE + "kernel_size: 3 stride_h: 2 stride_w: 1",
    "ConvolutionParameter.stride_w": SHAPE + "kernel_size: 3 stride_h: 1 stride_w: 2",
    "CropParameter.axis": ("axis: 2", "axis: 3"),
    "CropParameter.offset": "offset: 0",
    "DataParameter.crop_size": "batch_size: 4 crop_size: 5",
    "DataParameter.mean_file": 'batch_size: 4 mean_file: "mean.binaryproto"',
    "DataParameter.rand_skip": "batch_size: 4 rand_skip: 15",
    "DataParameter.scale": "batch_size: 4 scale: 0.5",
    "DataParameter.source": 'batch_size: 4 source: "elsewhere"',
    "DropoutParameter.dropout_ratio": "dropout_ratio: 0.25",
    "DummyDataParameter.channels": "num: 4 channels: 2 height: 2 width: 2",
    "DummyDataParameter.data_filler": (
        "num: 4 channels: 3 height: 2 width: 2 data_filler { value: 3 }"
    ),
    "DummyDataParameter.height": "num: 4 channels: 3 height: 1 width: 2",
    "DummyDataParameter.num": ("shape { dim: 4 }", "num: 4 channels: 3 height: 2 width: 2"),
    "DummyDataParameter.shape": "shape { dim: 4 dim: 3 }",
    "DummyDataParameter.width": "num: 4 channels: 3 height: 2 width: 1",
    "EltwiseParameter.coeff": "coeff: 1 coeff: -1",
    "EltwiseParameter.stable_prod_grad": (
        "operation: PROD",
        ("operation: PROD stable_prod_grad: false"),
    ),
    "ExpParameter.base": "base: 2",
    "FlattenParameter.end_axis": "end_axis: 2",
    "GroupNormParameter.eps": "groups: 1 eps: 0.5",
    "GroupNormParameter.groups": "groups: 3",
    "HDF5DataParameter.source": 'batch_size: 4 source: "elsewhere"',
    "ImageDataParameter.crop_size": "batch_size: 4 crop_size: 5",
    "ImageDataParameter.mean_file": 'batch_size: 4 mean_file: "mean.binaryproto"',
    "ImageDataParameter.new_height": "batch_size: 4 new_height: 9 new_width: 8",
    "ImageDataParameter.new_width": "batch_size: 4 new_height: 8 new_width: 9",
    "ImageDataParameter.rand_skip": "batch_size: 4 rand_skip: 15",
    "ImageDataParameter.root_folder": 'batch_size: 4 root_folder: "elsewhere"',
    "ImageDataParameter.scale": "batch_size: 4 scale: 0.5",
    "ImageDataParameter.source": 'batch_size: 4 source: "elsewhere"',
    "InfogainLossParameter.axis": "axis: 2",
    "InputParameter.shape": "shape { dim: 4 dim: 2 }",
    "LRNParameter.local_size": "alpha: 2 local_size: 3",
    "LogParameter.base": "base: 2",
    "LossParameter.normalize": "ignore_label: 1 normalize: false",
    "MemoryDataParameter.batch_size": "batch_size: 2 channels: 3 height: 8 width: 8",
    "MVNParameter.eps": "eps: 0.5",
    "ParameterParameter.shape": "shape { dim: 4 }",
    "PoolingParameter.global_pooling": "global_pooling: true",
    "PoolingParameter.kernel_h": ("kernel_h: 2 kernel_w: 2", "kernel_h: 3 kernel_w: 2"),
    "PoolingParameter.kernel_w": ("kernel_h: 2 kernel_w: 2", "kernel_h: 2 kernel_w: 3"),
    "PoolingParameter.pad_h": "kernel_size: 2 pad_h: 1 pad_w: 0",
    "PoolingParameter.pad_w": "kernel_size: 2 pad_h: 0 pad_w: 1",
    "PoolingParameter.round_mode": (
        "kernel_size: 3 stride: 2",
        "kernel_size: 3 stride: 2 round_mode: FLOOR",
    ),
    "PoolingParameter.stride_h": "kernel_size: 2 stride_h: 2 stride_w: 1",
    "PoolingParameter.stride_w": "kernel_size: 2 stride_h: 1 stride_w: 2",
    "PythonParameter.layer": 'layer: "Mine"',
    "PythonParameter.module": 'module: "mine"',
    "PythonParameter.param_str": "",  # the test of layers of other packages covers it
    "ReLUParameter.negative_slope": "negative_slope: 0.1",
    "ReshapeParameter.axis": ("shape { dim: -1 }", "shape { dim: -1 } axis: 1"),
    "ReshapeParameter.num_axes": ("shape { dim: -1 }", "shape { dim: -1 } num_axes: 2"),
    "ReshapeParameter.shape": "shape { dim: 0 dim: 3 dim: -1 }",
    "ScaleParameter.axis": "axis: 0 num_axes: 1",
    "ScaleParameter.bias_filler": ("bias_term: true", "bias_term: true bias_filler { value: 3 }"),
    "SliceParameter.axis": "axis: 2",
    "SliceParameter.slice_dim": "slice_dim: 2",
    "SliceParameter.slice_point": ("axis: 2", "axis: 2 slice_point: 1 slice_point: 4"),
    "SPPParameter.pyramid_height": "pyramid_height: 3",
    "TransformationParameter.crop_size": "crop_size: 5",
    "TransformationParameter.mean_file": 'mean_file: "mean.binaryproto"',
    "TransformationParameter.deviation_value": "deviation_value: 3",
    "TransformationParameter.mean_value": "mean_value: 3",
    "TransformationParameter.scale": "scale: 0.5",
}

FILLERS = {
    "type": ('type: "constant"', 'type: "xavier"'),
    "value": ("value: 1", "value: 2"),
    "min": ('type: "uniform"', 'type: "uniform" min: -1'),
    "max": ('type: "uniform"', 'type: "uniform" max: 2'),
    "mean": ('type: "gaussian"', 'type: "gaussian" mean: 1'),
    "std": ('type: "gaussian"', 'type: "gaussian" std: 2'),
    "sparse": ('type: "gaussian"', 'type: "gaussian" sparse: 1'),
    "variance_norm": ('type: "xavier"', 'type: "xavier" variance_norm: FAN_OUT'),
}

X = (
    'layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 4 dim: 3 dim: 6 '
    "dim: 6 } } }\n"
)
Z = X.replace('"x"', '"z"').replace("dim: 6", "dim: 2")
IP = (
    'layer { name: "%s" type: "InnerProduct" bottom: "x" top: "%s" %s inner_product_param { '
    "%s } loss_weight: 1 }\n"
)
CUT = IP % ("i", "i", "%s", "num_output: 3 weight_filler { value: 1 }")
DATA = (
    'layer { name: "%s" type: "Data" top: "data" top: "label" %s data_param { batch_size: %d } }\n'
)
OLD = 'layers { name: "%s" type: POWER bottom: "x" top: "%s" power_param { scale: 2 } }\n'
INPUT = (
    'input: "x" %s layer { name: "p" type: "Power" bottom: "x" top: "p" power_param { scale: 2 } }'
)
TIED = CUT % 'param { name: "w" }' + IP % (
    "j",
    "j",
    'param { name: "%s" %s }',
    "%s weight_filler { value: 3 }",
)
INFOGAIN = X.replace(" dim: 6 dim: 6", "") + (
    'layer { name: "y" type: "DummyData" top: "y" dummy_data_param { shape { '
)
INFOGAIN += (
    'dim: 4 } } } layer { name: "l" type: "InfogainLoss" bottom: "x" bottom: "y" top: "l" '
    "infogain_loss_param { "
)
INFOGAIN += 'source: "%s.binaryproto" } }'


def ruled(rule: str) -> str:
    """A net whose second layer has an include rule."""
    return (
        X
        + CUT % ""
        + IP % ("j", "j", f"include {{ {rule} }}", ("num_output: 2 weight_filler { value: 1 }"))
    )


# message.field -> the net before the change, and the net with the field
NETS: dict[str, tuple[str, str]] = {
    "NetParameter.name": ('name: "a" ' + X + CUT % "", 'name: "b" ' + X + CUT % ""),
    "NetParameter.layers": (
        'input: "x" input_dim: [4, 3, 6, 6]' + OLD % ("a", "b"),
        'input: "x" input_dim: [4, 3, 6, 6]' + OLD % ("a", "b") + OLD % ("c", "d"),
    ),
    "NetParameter.layer": (X + CUT % "", X + CUT % "" + IP % ("j", "j", "", "num_output: 2")),
    "NetParameter.input": (
        INPUT % "input_dim: [4, 3, 6, 6]",
        INPUT.replace('"x"', '"y"') % "input_dim: [4, 3, 6, 6]",
    ),
    "NetParameter.input_dim": (
        INPUT % "input_dim: [4, 3, 6, 6]",
        INPUT % "input_dim: [4, 3, 6, 5]",
    ),
    "NetParameter.input_shape": (
        INPUT % "input_shape { dim: [4, 3] }",
        INPUT % "input_shape { dim: [4, 2] }",
    ),
    "NetParameter.force_backward": (X + CUT % "", "force_backward: true " + X + CUT % ""),
    "NetParameter.state": (ruled('stage: "a"'), 'state { stage: "a" }' + ruled('stage: "a"')),
    "NetParameter.debug_info": (X + CUT % "", "debug_info: true " + X + CUT % ""),
    "NetState.phase": (X + CUT % "", "state { phase: TRAIN }" + X + CUT % ""),
    "NetState.level": (ruled("min_level: 1"), "state { level: 1 }" + ruled("min_level: 1")),
    "NetState.stage": (ruled('stage: "a"'), 'state { stage: "a" }' + ruled('stage: "a"')),
    "NetStateRule.phase": (ruled(""), ruled("phase: TEST")),
    "NetStateRule.min_level": (ruled(""), ruled("min_level: 1")),
    "NetStateRule.max_level": (ruled(""), ruled("max_level: -1")),
    "NetStateRule.stage": (ruled(""), ruled('stage: "a"')),
    "NetStateRule.not_stage": (
        'state { stage: "a" }' + ruled(""),
        'state { stage: "a" }' + ruled('not_stage: "a"'),
    ),
    "ParamSpec.name": (
        X + TIED % ("v", "", "num_output: 3"),
        X + TIED % ("w", "", "num_output: 3"),
    ),
    "ParamSpec.share_mode": (
        X + TIED % ("w", "", "num_output: 108 axis: 0 transpose: true bias_term: false"),
        X
        + TIED
        % (
            "w",
            "share_mode: PERMISSIVE",
            ("num_output: 108 axis: 0 transpose: true bias_term: false"),
        ),
    ),
    "ParamSpec.lr_mult": (X + CUT % "", X + CUT % "param { lr_mult: 2 }"),
    "ParamSpec.decay_mult": (X + CUT % "", X + CUT % "param { decay_mult: 2 }"),
    "LayerParameter.name": (X + CUT % "", X + (CUT % "").replace('name: "i"', 'name: "k"')),
    "LayerParameter.type": (
        X + 'layer { name: "r" type: "TanH" bottom: "x" top: "r" }',
        X + 'layer { name: "r" type: "Sigmoid" bottom: "x" top: "r" }',
    ),
    "LayerParameter.bottom": (X + Z + CUT % "", X + Z + (CUT % "").replace('m: "x"', 'm: "z"')),
    "LayerParameter.top": (X + CUT % "", X + (CUT % "").replace('top: "i"', 'top: "k"')),
    "LayerParameter.loss_weight": (
        X + CUT % "",
        X + (CUT % "").replace("loss_weight: 1", "loss_weight: 2"),
    ),
    "LayerParameter.param": (X + CUT % "", X + CUT % "param { lr_mult: 0 }"),
    "LayerParameter.blobs": (X + CUT % "", X + CUT % "blobs { data: 1 }"),
    "LayerParameter.include": (X + CUT % "", X + CUT % "include { phase: TEST }"),
    "LayerParameter.exclude": (X + CUT % "", X + CUT % "exclude { phase: TEST }"),
    "LayerParameter.phase": (
        X + 'layer { name: "r" type: "Dropout" bottom: "x" top: "r" }',
        X + 'layer { name: "r" type: "Dropout" bottom: "x" top: "r" phase: TEST }',
    ),
    "LayerParameter.propagate_down": (X + CUT % "", X + CUT % "propagate_down: true"),
    "LayerParameter.hdf5_output_param": (
        X + CUT % "",
        X + CUT % 'hdf5_output_param { file_name: "f" }',
    ),
    "InfogainLossParameter.source": (INFOGAIN % "one", INFOGAIN % "two"),
    "LayerParameter.window_data_param": (
        X + CUT % "",
        X + CUT % 'window_data_param { source: "f" }',
    ),
}

NET = {"net": '"a.prototxt"'}
BASE = {
    "base_lr": "0.5",
    "max_iter": "20",
    "momentum": "0.5",
    "weight_decay": "0.1",
    "lr_policy": '"fixed"',
    "test_iter": "1",
    "test_interval": "5",
    **NET,
}
OWN_NETS = {"train_net": '"a.prototxt"', "test_net": '"a.prototxt"', "net": None}
INLINE = (
    '{ name: "%s" layer { name: "d" type: "Data" top: "x" data_param { batch_size: 2 } '
    '} layer { name: "i"'
)
INLINE += (
    ' type: "InnerProduct" bottom: "x" top: "i" inner_product_param { num_output: 2 } '
    "loss_weight: 1 } }"
)


def solver(changes: dict[str, str | None]) -> str:
    """The text of a solver with the keys of BASE and these changes. None leaves a key out."""
    return "".join(
        f"{key}: {value}\n" for key, value in (BASE | changes).items() if value is not None
    )


# field of SolverParameter -> the keys before the change, and the keys with the field
SOLVERS: dict[str, tuple[dict[str, str | None], dict[str, str | None]]] = {
    "train_net": (OWN_NETS, OWN_NETS | {"train_net": '"b.prototxt"'}),
    "test_net": (OWN_NETS, OWN_NETS | {"test_net": '"b.prototxt"'}),
    "net": ({}, {"net": '"b.prototxt"'}),
    "net_param": ({}, {"net": None, "net_param": INLINE % "other"}),
    "train_net_param": (
        OWN_NETS,
        OWN_NETS | {"train_net": None, "train_net_param": INLINE % "other"},
    ),
    "test_net_param": (OWN_NETS, OWN_NETS | {"test_net": None, "test_net_param": INLINE % "other"}),
    "train_state": ({}, {"train_state": '{ stage: "wide" }'}),
    "test_state": ({}, {"test_state": '{ stage: "wide" }'}),
    "test_iter": ({}, {"test_iter": "2"}),
    "lr_policy": ({"gamma": "0.5"}, {"gamma": "0.5", "lr_policy": '"exp"'}),
    "gamma": ({"lr_policy": '"exp"', "gamma": "0.5"}, {"lr_policy": '"exp"', "gamma": "0.25"}),
    "power": ({"lr_policy": '"poly"', "power": "1"}, {"lr_policy": '"poly"', "power": "2"}),
    "stepsize": (
        {"lr_policy": '"step"', "gamma": "0.5", "stepsize": "4"},
        {"lr_policy": '"step"', "gamma": "0.5", "stepsize": "5"},
    ),
    "stepvalue": (
        {"lr_policy": '"multistep"', "gamma": "0.5", "stepvalue": "4"},
        {"lr_policy": '"multistep"', "gamma": "0.5", "stepvalue": "5"},
    ),
    "momentum2": ({"type": '"Adam"'}, {"type": '"Adam"', "momentum2": "0.5"}),
    "rms_decay": (
        {"type": '"RMSProp"', "momentum": "0"},
        {"type": '"RMSProp"', "momentum": "0", "rms_decay": "0.5"},
    ),
    "delta": ({"type": '"AdaDelta"'}, {"type": '"AdaDelta"', "delta": "0.5"}),
    "regularization_type": ({}, {"regularization_type": '"L1"'}),
    "clip_gradients": ({}, {"clip_gradients": "0.1"}),
    "solver_type": ({}, {"solver_type": "NESTEROV"}),
    "type": ({}, {"type": '"Nesterov"'}),
    "weights": ({}, {"weights": '"first.safetensors"'}),
    "random_seed": ({}, {"random_seed": "7"}),
    "max_iter": ({}, {"max_iter": "30"}),
    "momentum": ({}, {"momentum": "0.25"}),
    "snapshot_prefix": ({}, {"snapshot_prefix": '"here"'}),
}
