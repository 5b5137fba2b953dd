"""Files of weights, solver histories and mean images, Caffe's and ours.

weights        Loading of weights from files into nets
shared         Parameters that layers share by name, in Caffe's files and in ours
caffemodel     Caffe's `.caffemodel`: the weights of a net, by layer, in a binary NetParameter with
               `layer` or the older `layers`
solverstate    Caffe's `.solverstate`: the iteration and the solver's history, from which training
               continues where Caffe stopped
mean           Reader and writer of Caffe's mean image, a BlobProto in a `.binaryproto` file
hdf5           Access to HDF5 files, which only this module opens
blobs          Conversion between Caffe's BlobProto and NumPy arrays, with the older shapes of four
               numbers, and a test whether two shapes mean the same
checkpoint     Checkpoints: named arrays in one safetensors file, written so that a crash leaves the
               old file or the new one
histories      The solver type of the histories in a checkpoint
binary         Whole files, read with a size limit, and written so that a crash leaves the old file
               or the new one
extras         Packages that only some files need
parts          The names of the files that together hold the weights of one net
torch_files    Files of weights that torch's programs write
torch_names    Weights by the names of torch's modules, as torchvision's and timm's files have them
timm_names     The names of timm's modules in terms of torchvision's, for the architectures where
               the two differ
torch_order    The match of modules in a file to a net whose layers have other names
number_checks  Checks of the numbers in files of weights
"""
