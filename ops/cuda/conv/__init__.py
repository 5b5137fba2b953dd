"""Convolution on a device: which algorithm each pass of a shape gets, and the algorithms.

operations          the backend's methods: arguments checked, images brought to the layout of kernels
algorithm  choose   what an algorithm is, and which one a pass gets
lowered             lowering and products by cuBLAS: computes every shape
cudnn               graphs of cuDNN, and the plans it makes of them
trial               a plan of cuDNN beside lowering: its error and the times of both
weight_layouts             weights between Caffe's order and that of windows
"""
