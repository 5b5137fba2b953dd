"""Readers of images and labels from files and folders, and sources of made-up images.

source         The interface of data sources, and the simplest source, `MemorySource`, which holds
               all samples in memory
images         Image files, named by a list ("path label" per line, Caffe's ImageData) or in one
               folder per class
class_folders  Folders of images: one folder per class, or all images below a folder
passed_over    The files and folders that a search passes over, counted by the reason
located        The path of a file that a configuration or a list names, without steps to parent
               folders
idx            IDX files, the format of MNIST
cifar10        CIFAR-10's binary format
zipped         Opening of data files, plain or gzipped, with errors translated to DataError
hdf5_list      Caffe's HDF5Data source
text           Characters of a text for Caffe's recurrent layers
digits         The handwritten digits that ship with the package, enlarged to MNIST's 28 x 28
synthetic      Synthetic images that a net can learn
blank          A source of zeros in any number and any shape, which takes no memory
"""
