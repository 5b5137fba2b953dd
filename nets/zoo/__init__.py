"""Nets and solvers that ship.

modules      The parts that nets in Python share
resnet       Residual nets (He et al
convnext     ConvNeXt (Liu et al
densenet     Nets whose layers read the results of all layers before them (Huang et al
mobilenet    Nets of inverted residual blocks
regnet       RegNet (Radosavovic et al
vgg          VGG nets (Simonyan and Zisserman 2014) with BatchNorm, as in torchvision
image_sizes  The sizes of the images of those zoo nets whose files do not give it
"""
