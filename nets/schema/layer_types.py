"""The names of all layer types of Caffe 1.0. Which of them this package computes is known to `nets.layers`."""

LAYER_TYPES = (
    *("AbsVal", "Accuracy", "ArgMax", "BNLL", "BatchNorm", "BatchReindex", "Bias", "Clip", "Concat"),
    *("ContrastiveLoss", "Convolution", "Crop", "Data", "Deconvolution", "Dropout", "DummyData", "ELU"),
    *("Eltwise", "Embed", "EuclideanLoss", "Exp", "Filter", "Flatten", "HDF5Data", "HDF5Output", "HingeLoss"),
    *("Im2col", "ImageData", "InfogainLoss", "InnerProduct", "Input", "LRN", "LSTM", "Log", "MVN"),
    *("MemoryData", "MultinomialLogisticLoss", "PReLU", "Parameter", "Pooling", "Power", "Python", "RNN"),
    *("ReLU", "Reduction", "Reshape", "SPP", "Scale", "Sigmoid", "SigmoidCrossEntropyLoss", "Silence"),
    *("Slice", "Softmax", "SoftmaxWithLoss", "Split", "Swish", "TanH", "Threshold", "Tile", "WindowData"),
)
