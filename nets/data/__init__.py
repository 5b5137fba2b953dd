"""Where images and labels come from.

What lives here: the map below. What never: batches in flight or anything a worker keeps.

    source       Source, the interface; MemorySource   formats    open_source: the configuration checks
    digits       the digits that ship                  idx        MNIST's format
    cifar10      CIFAR-10's binary batches             synthetic  made-up classes (blank: nothing but shapes)
    lmdb_source  Caffe's databases (mdb, datum)        images     image files (decode)
    hdf5_list    Caffe's HDF5Data                      text       characters for recurrent nets
    transform    Caffe's transform_param               batches    which samples form global batch number t
    prefetch     the next share, read in a thread      writers    LMDB databases out
    declared     the batch size a net declares
"""

from nets.data.batches import Batches
from nets.data.declared import batch_of_net
from nets.data.formats import FORMATS, open_source
from nets.data.prefetch import Prefetcher
from nets.data.source import MemorySource, Source
from nets.data.transform import Transform

__all__ = [
    "FORMATS",
    "Batches",
    "MemorySource",
    "Prefetcher",
    "Source",
    "Transform",
    "batch_of_net",
    "open_source",
]
