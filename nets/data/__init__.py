"""Data sources: where a net's images and labels come from, and how they are read.

source         What a data source is, and the simplest one, `MemorySource`
formats        Opens a data source from its configuration
held_sets      Data sets in memory
digits         The handwritten digits that ship with the package, enlarged to MNIST's 28 x 28
idx            IDX files, MNIST's format
cifar10        CIFAR-10's binary version
zipped         Data files, plain or gzipped: one way to open them, their errors translated
lmdb_source    Caffe's LMDB data sets: Datum records, read by index from a mapped file
mdb            Reads the file of an LMDB database (`data.mdb`) without the LMDB library
datum          One Datum (an image and its label, as Caffe's databases hold them) and its array,
               both ways
images         Image files named by a list ("path label" a line, Caffe's ImageData) or by one folder
               per class
decode         Image files to arrays as Caffe (through OpenCV) has them
hdf5_list      Caffe's HDF5Data: a text file that lists HDF5 files, each with one dataset per top
text           Characters of a text for Caffe's recurrent layers
synthetic      Made-up images that can be learnt
blank          Images that are not there: any number, any shape, all zero, no memory
joined         Several sources side by side, as Caffe's nets read them
of_net         The data of a net in one phase
transform      Caffe's transform_param: crop, subtract the mean, mirror, multiply by the scale
augment        Changes of training images by chance, besides Caffe's crops and mirrors
draws          Random numbers that belong to (seed, position of a sample in the run, lane), whoever
               draws them
examined       A look at a source before training
data_identity  Is it the same data on another machine?
batches        Which samples stand where in a run, epoch after epoch
declared       What a net's own data layers say about reading
prefetch       Reads and transforms the next samples in a thread, so that the compute thread does
               not wait for it
writers        LMDB databases out: Datum records under the keys Caffe's tools use
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
