"""The treatment of every field of `caffe.proto` that a net or a solver may hold: honoured, warned
of, or refused.

This is the only declaration. `definition.ignored` makes warnings and errors from it. The tables of
docs/caffe.md are written from it (`python -m tests.house --write`). A test sets every field of the
schema and checks its treatment.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

ENGINE = "Convoy chooses the algorithm itself"
SOURCE = "[train.data] in cluster.toml gives the source of the data, unless its format is 'net'"
NO_CODE = "a prototxt runs no code; provide the layer as a new type (docs/extending.md)"
CLUSTER = "train.devices in cluster.toml gives the devices that compute"
NORMS = "norms of blobs are not printed; `attach` and the metrics show what a run does"


@dataclass(frozen=True)
class Fields:
    """The fields of one message. `honoured`: names, separated by spaces. `warned`, `refused`: name
    -> reason."""

    honoured: str = ""
    warned: Mapping[str, str] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """All names of fields."""
        return (*self.honoured.split(), *self.warned, *self.refused)


FIELDS: dict[str, Fields] = {
    "NetParameter": Fields(
        "name layers input input_dim input_shape layer force_backward state",
        warned={"debug_info": NORMS},
    ),
    "NetState": Fields("phase level stage"),
    "NetStateRule": Fields("phase min_level max_level stage not_stage"),
    "ParamSpec": Fields("name share_mode lr_mult decay_mult"),
    "BlobShape": Fields("dim"),
    "FillerParameter": Fields("type value min max mean std sparse variance_norm"),
    "LayerParameter": Fields(
        "name type bottom top loss_weight param include exclude phase propagate_down"
        " transform_param loss_param accuracy_param argmax_param batch_norm_param bias_param"
        " clip_param concat_param contrastive_loss_param convolution_param crop_param"
        " data_param dropout_param dummy_data_param eltwise_param elu_param embed_param"
        " exp_param flatten_param hdf5_data_param hinge_loss_param image_data_param"
        " infogain_loss_param inner_product_param input_param log_param lrn_param"
        " memory_data_param mvn_param parameter_param pooling_param power_param prelu_param"
        " python_param recurrent_param reduction_param relu_param reshape_param scale_param"
        " sigmoid_param slice_param softmax_param spp_param swish_param tanh_param"
        " threshold_param tile_param gelu_param group_norm_param layer_norm_param"
        " adaptive_pooling_param pad_param permute_param",
        refused={
            "blobs": (
                "a prototxt holds no weights; put them in a .caffemodel and name it in "
                "train.weights"
            ),
            "hdf5_output_param": "a net writes no files; read its outputs instead",
            "window_data_param": (
                "windows are cut while reading; prepare the crops and use ImageData"
            ),
        },
    ),
    "TransformationParameter": Fields(
        "scale mirror crop_size mean_file mean_value force_color force_gray deviation_value rgb"
    ),
    "LossParameter": Fields("ignore_label normalize normalization label_smoothing"),
    "AccuracyParameter": Fields("top_k axis ignore_label"),
    "AdaptivePoolingParameter": Fields("output_size output_h output_w"),
    "ArgMaxParameter": Fields("out_max_val top_k axis"),
    "BatchNormParameter": Fields("use_global_stats moving_average_fraction eps"),
    "BiasParameter": Fields("axis num_axes filler"),
    "ClipParameter": Fields("min max"),
    "ConcatParameter": Fields("concat_dim axis"),
    "ContrastiveLossParameter": Fields("margin legacy_version"),
    "ConvolutionParameter": Fields(
        "num_output bias_term pad kernel_size group stride weight_filler bias_filler pad_h"
        " pad_w kernel_h kernel_w stride_h stride_w dilation",
        warned={"engine": ENGINE, "force_nd_im2col": ENGINE},
        refused={"axis": "convolution is over axis 1, of images (N, C, H, W)"},
    ),
    "CropParameter": Fields("axis offset"),
    "DataParameter": Fields(
        "scale mean_file batch_size crop_size mirror rand_skip force_encoded_color",
        warned={
            "source": SOURCE,
            "backend": SOURCE,
            "prefetch": "the next batch is always read ahead",
        },
    ),
    "DropoutParameter": Fields("dropout_ratio"),
    "DummyDataParameter": Fields("data_filler num channels height width shape"),
    "EltwiseParameter": Fields(
        "operation coeff",
        warned={"stable_prod_grad": "gradients of products are always the stable ones"},
    ),
    "ELUParameter": Fields("alpha"),
    "EmbedParameter": Fields("num_output input_dim bias_term weight_filler bias_filler"),
    "ExpParameter": Fields("base scale shift"),
    "FlattenParameter": Fields("axis end_axis"),
    "GELUParameter": Fields("approximate"),
    "GroupNormParameter": Fields("groups eps"),
    "HDF5DataParameter": Fields("batch_size shuffle", warned={"source": SOURCE}),
    "HingeLossParameter": Fields("norm"),
    "ImageDataParameter": Fields(
        "scale mean_file batch_size crop_size mirror rand_skip shuffle new_height new_width"
        " is_color",
        warned={"source": SOURCE, "root_folder": SOURCE},
    ),
    "InfogainLossParameter": Fields("source axis"),
    "InnerProductParameter": Fields(
        "num_output bias_term weight_filler bias_filler axis transpose"
    ),
    "InputParameter": Fields("shape"),
    "LayerNormParameter": Fields("axis eps"),
    "LogParameter": Fields("base scale shift"),
    "LRNParameter": Fields("local_size alpha beta norm_region k", warned={"engine": ENGINE}),
    "MemoryDataParameter": Fields("batch_size channels height width"),
    "MVNParameter": Fields("normalize_variance across_channels eps"),
    "PadParameter": Fields("top bottom left right value mode"),
    "ParameterParameter": Fields("shape"),
    "PermuteParameter": Fields("order"),
    "PoolingParameter": Fields(
        "pool kernel_size stride pad kernel_h kernel_w stride_h stride_w pad_h pad_w"
        " global_pooling round_mode",
        warned={"engine": ENGINE},
    ),
    "PowerParameter": Fields("power scale shift"),
    "PReLUParameter": Fields("filler channel_shared"),
    "PythonParameter": Fields(
        "param_str", refused={"module": NO_CODE, "layer": NO_CODE, "share_in_parallel": NO_CODE}
    ),
    "RecurrentParameter": Fields(
        "num_output weight_filler bias_filler expose_hidden", warned={"debug_info": NORMS}
    ),
    "ReductionParameter": Fields("operation axis coeff"),
    "ReLUParameter": Fields("negative_slope", warned={"engine": ENGINE}),
    "ReshapeParameter": Fields("shape axis num_axes"),
    "ScaleParameter": Fields("axis num_axes filler bias_term bias_filler"),
    "SigmoidParameter": Fields(warned={"engine": ENGINE}),
    "SliceParameter": Fields("slice_dim slice_point axis"),
    "SoftmaxParameter": Fields("axis", warned={"engine": ENGINE}),
    "SPPParameter": Fields("pyramid_height pool", warned={"engine": ENGINE}),
    "SwishParameter": Fields("beta"),
    "TanHParameter": Fields(warned={"engine": ENGINE}),
    "ThresholdParameter": Fields("threshold"),
    "TileParameter": Fields("axis tiles"),
    "SolverParameter": Fields(
        "train_net test_net net net_param train_net_param test_net_param train_state"
        " test_state test_iter test_interval test_initialization base_lr lr_policy gamma power"
        " stepsize stepvalue max_iter momentum momentum2 rms_decay delta weight_decay"
        " regularization_type clip_gradients iter_size type solver_type weights random_seed"
        " display average_loss snapshot snapshot_after_train",
        warned={
            "snapshot_prefix": "checkpoints are in the run directory",
            "snapshot_format": (
                "checkpoints are .safetensors; `convert` converts them to both of Caffe's formats"
            ),
            "snapshot_diff": "checkpoints hold no gradients",
            "solver_mode": CLUSTER,
            "device_id": CLUSTER,
            "test_compute_loss": "tests always report the loss",
            "debug_info": NORMS,
            "layer_wise_reduce": "train.strategy in cluster.toml chooses how to sum gradients",
        },
    ),
}

# Convoy differs from the default of these fields, so they cause a warning with any value.
ALWAYS_TOLD = frozenset({"SolverParameter.solver_mode"})

# The options that each layer type reads. Options of refused types are in `LayerParameter.refused`.
_OWN = {
    "Accuracy": "accuracy",
    "AdaptivePooling": "adaptive_pooling",
    "ArgMax": "argmax",
    "BatchNorm": "batch_norm",
    "Bias": "bias",
    "Clip": "clip",
    "Concat": "concat",
    "ContrastiveLoss": "contrastive_loss",
    "Convolution": "convolution",
    "ConvolutionDepthwise": "convolution",
    "Crop": "crop",
    "Data": "data transform",
    "Deconvolution": "convolution",
    "DepthwiseConvolution": "convolution",
    "Dropout": "dropout",
    "DummyData": "dummy_data",
    "ELU": "elu",
    "Eltwise": "eltwise",
    "Embed": "embed",
    "Exp": "exp",
    "Flatten": "flatten",
    "GELU": "gelu",
    "GroupNorm": "group_norm",
    "HDF5Data": "hdf5_data",
    "HDF5Output": "hdf5_output",
    "HingeLoss": "hinge_loss",
    "ImageData": "image_data transform",
    "InfogainLoss": "infogain_loss loss",
    "InnerProduct": "inner_product",
    "Input": "input",
    "LRN": "lrn",
    "LSTM": "recurrent",
    "LayerNorm": "layer_norm",
    "Log": "log",
    "MVN": "mvn",
    "MemoryData": "memory_data transform",
    "PReLU": "prelu",
    "Pad": "pad",
    "Parameter": "parameter",
    "Permute": "permute",
    "Pooling": "pooling",
    "Power": "power",
    "Python": "python",
    "RNN": "recurrent",
    "ReLU": "relu",
    "Reduction": "reduction",
    "Reshape": "reshape",
    "SPP": "spp",
    "Scale": "scale",
    "Sigmoid": "sigmoid",
    "SigmoidCrossEntropyLoss": "loss",
    "Slice": "slice",
    "Softmax": "softmax",
    "SoftmaxWithLoss": "softmax loss",
    "StochasticDepth": "dropout",
    "Swish": "swish",
    "TanH": "tanh",
    "Threshold": "threshold",
    "Tile": "tile",
    "WindowData": "window_data transform",
}


def blocks_of(kind: str) -> frozenset[str]:
    """Return the blocks of options that layers of this type read, such as {"convolution_param"}.
    The set is empty for types without options."""
    return frozenset(f"{name}_param" for name in _OWN.get(kind, "").split())
