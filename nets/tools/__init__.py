"""Tools for nets and data that do not train: conversion, sizes, timing.

convert        Conversion between formats
volumes        The size of a net and the amount of its computation
timing         The time of each layer, forward and backward, as in `caffe time`, and of reading the
               data
other_classes  A net for training, changed for other images
"""
