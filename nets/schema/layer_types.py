"""The names of all layer types of Caffe 1.0, and of the types that this package adds.
`nets.layers` knows the types that this package computes."""

LAYER_TYPES = (
    *(
        "AbsVal",
        "Accuracy",
        "ArgMax",
        "BNLL",
        "BatchNorm",
        "BatchReindex",
        "Bias",
        "Clip",
        "Concat",
    ),
    *(
        "ContrastiveLoss",
        "Convolution",
        "Crop",
        "Data",
        "Deconvolution",
        "Dropout",
        "DummyData",
        "ELU",
    ),
    *(
        "Eltwise",
        "Embed",
        "EuclideanLoss",
        "Exp",
        "Filter",
        "Flatten",
        "HDF5Data",
        "HDF5Output",
        "HingeLoss",
    ),
    *("Im2col", "ImageData", "InfogainLoss", "InnerProduct", "Input", "LRN", "LSTM", "Log", "MVN"),
    *(
        "MemoryData",
        "MultinomialLogisticLoss",
        "PReLU",
        "Parameter",
        "Pooling",
        "Power",
        "Python",
        "RNN",
    ),
    *(
        "ReLU",
        "Reduction",
        "Reshape",
        "SPP",
        "Scale",
        "Sigmoid",
        "SigmoidCrossEntropyLoss",
        "Silence",
    ),
    *(
        "Slice",
        "Softmax",
        "SoftmaxWithLoss",
        "Split",
        "Swish",
        "TanH",
        "Threshold",
        "Tile",
        "WindowData",
    ),
)

# Types of Convoy that Caffe lacks. Forks of Caffe have some of them, under these names.
ADDED_TYPES = (
    "AdaptivePooling",
    "ConvolutionDepthwise",
    "DepthwiseConvolution",
    "GELU",
    "GroupNorm",
    "HardSigmoid",
    "HardSwish",
    "LayerNorm",
    "Pad",
    "Permute",
    "SiLU",
    "StochasticDepth",
)

ALL_TYPES = (*LAYER_TYPES, *ADDED_TYPES)
