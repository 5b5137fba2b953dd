"""Where images and labels come from.

source  formats           the interface, MemorySource; open_source checks the configuration
held                      what is in memory, once for all actors of a process
digits  idx  cifar10      the digits that ship, MNIST's and CIFAR-10's files
zipped                    plain or gzipped files, opened
lmdb_source  mdb  datum   Caffe's databases: the source, the file's pages, one record
images  decode            image files: lists and folders, decoding
hdf5_list  text           Caffe's HDF5Data; characters for recurrent nets
synthetic  blank          made-up classes; images that are not there
joined  of_net            several sources side by side; which source each data layer of a net reads
transform                 Caffe's transform_param
augment  draws            colours, light, size by chance; random numbers that belong to a sample
examined  data_identity        a look at a source before training; is it the same elsewhere
batches  declared         which samples form a global batch; the batch size a net declares
prefetch                  the next share, read in a thread
writers                   LMDB databases out
"""

from nets.data.augment import Augment
from nets.data.batches import Batches
from nets.data.data_identity import identity
from nets.data.declared import batch_of_net, declared
from nets.data.examined import examined, in_classes
from nets.data.formats import FORMATS, open_source
from nets.data.of_net import is_one, open_data
from nets.data.prefetch import Prefetcher
from nets.data.source import MemorySource, Source
from nets.data.transform import Transform, first_transforming

__all__ = [
    "FORMATS",
    "Augment",
    "Batches",
    "MemorySource",
    "Prefetcher",
    "Source",
    "Transform",
    "batch_of_net",
    "declared",
    "examined",
    "first_transforming",
    "identity",
    "in_classes",
    "is_one",
    "open_data",
    "open_source",
]
