"""A net of layers that Caffe lacks, for digits."""

OF_TODAY = """
layer { name: "data" type: "Data" top: "data" top: "label" data_param { batch_size: 20 } }
layer { name: "stem" type: "Convolution" bottom: "data" top: "stem" convolution_param {
  num_output: 8 kernel_size: 5 stride: 2 weight_filler { type: "xavier" } } }
layer { name: "norm" type: "LayerNorm" bottom: "stem" top: "norm" }
layer { name: "places" type: "DepthwiseConvolution" bottom: "norm" top: "places" convolution_param {
  num_output: 8 kernel_size: 3 pad: 1 weight_filler { type: "xavier" } } }
layer { name: "groups" type: "GroupNorm" bottom: "places" top: "groups"
  group_norm_param { groups: 4 } }
layer { name: "scale" type: "Scale" bottom: "groups" top: "scale" scale_param { bias_term: true } }
layer { name: "gelu" type: "GELU" bottom: "scale" top: "gelu" }
layer { name: "mix" type: "Convolution" bottom: "gelu" top: "mix" convolution_param {
  num_output: 8 kernel_size: 1 weight_filler { type: "xavier" } } }
layer { name: "silu" type: "SiLU" bottom: "mix" top: "silu" }
layer { name: "depth" type: "StochasticDepth" bottom: "silu" top: "depth"
  dropout_param { dropout_ratio: 0.3 } }
layer { name: "sum" type: "Eltwise" bottom: "norm" bottom: "depth" top: "sum" }
layer { name: "hard" type: "HardSwish" bottom: "sum" top: "hard" }
layer { name: "turned" type: "Permute" bottom: "hard" top: "turned"
  permute_param { order: [0, 1, 3, 2] } }
layer { name: "border" type: "Pad" bottom: "turned" top: "border" pad_param { top: 1 left: 2 } }
layer { name: "pool" type: "AdaptivePooling" bottom: "border" top: "pool"
  adaptive_pooling_param { output_size: 5 } }
layer { name: "ip" type: "InnerProduct" bottom: "pool" top: "ip" inner_product_param {
  num_output: 10 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss"
  loss_param { label_smoothing: 0.1 } }
"""
