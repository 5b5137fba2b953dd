"""Data sources: where a net's images and labels come from, and how they are read.

source              The interface of data sources, and the simplest source, `MemorySource`, which
                    holds all samples in memory
formats             The formats of data sources
held_sets           Data sets in memory
digits              The handwritten digits that ship with the package, enlarged to MNIST's 28 x 28
idx                 IDX files, the format of MNIST
cifar10             CIFAR-10's binary format
zipped              Opening of data files, plain or gzipped, with errors translated to DataError
lmdb_source         Caffe's LMDB data sets: Datum records, read by index from a mapped file
mdb                 Reader of an LMDB database file (`data.mdb`) that works without the LMDB library
datum               Conversion between a Datum (an image and its label, as Caffe's databases store
                    them) and an array
images              Image files, named by a list ("path label" per line, Caffe's ImageData) or in
                    one folder per class
decode              Decoding of image files to arrays, as Caffe has them through OpenCV
decoding            Encoded pictures of a batch, and the function that decodes them to one array
decoding_process    A process that decodes pictures for `decoding_processes`, until its input ends
decoding_processes  Processes that decode pictures next to the threads that read
hdf5_list           Caffe's HDF5Data source
text                Characters of a text for Caffe's recurrent layers
synthetic           Synthetic images that a net can learn
blank               A source of zeros in any number and any shape, which takes no memory
joined              Several sources joined to one, as Caffe's nets read them
of_net              The data of a net in one phase
transform           Caffe's transform_param: crop, subtract the mean, mirror, multiply by the scale
examined            A check of a source before training
data_identity       A short description of a data source, with a checksum of a quick sample of it
batches             The order of samples in a run, epoch after epoch, and the samples of batch
                    number `ticket`
declared            The settings of a net's own data layers for reading
prefetch            Threads that read and transform the next samples, so that the compute thread
                    does not wait for them
writers             Writer of LMDB databases: Datum records under the keys that Caffe's tools use
stream_batches      Batches for a net whose rows are streams
all_samples         All samples of a source, read once
class_folders       Folders of images: one folder per class, or all images below a folder
passed_over         The files and folders that a search passes over, counted by the reason
pictures/           Pixels of encoded pictures, as OpenCV's imread gives them
transform_keys      Keys of a configuration that complete or replace fields of a net's
                    transform_param, in every phase
augmentation/       Random changes of training images, in addition to Caffe's crops and mirrors
located             The path of a file that a configuration or a list names, without steps to parent
                    folders
device_batches      Batches whose images a device transforms
reused_memory       Memory of large arrays that is used again as soon as nothing refers to an array
                    in it
"""

from nets.data.augmentation.augment import Augment
from nets.data.augmentation.mixing import Mixing
from nets.data.batches import Batches
from nets.data.data_identity import identity
from nets.data.declared import batch_of_net, declared
from nets.data.decoding_processes import DecodingProcesses, SharedMemory
from nets.data.device_batches import DeviceBatches, on_device
from nets.data.examined import examined, in_classes
from nets.data.formats import FORMATS, open_source
from nets.data.of_net import folder_names, is_one, open_data
from nets.data.prefetch import Prefetcher
from nets.data.source import MemorySource, Source
from nets.data.stream_batches import StreamBatches
from nets.data.transform import Transform, first_transforming
from nets.data.transform_keys import TransformKeys

__all__ = [
    "FORMATS",
    "Augment",
    "Batches",
    "DecodingProcesses",
    "DeviceBatches",
    "MemorySource",
    "Mixing",
    "Prefetcher",
    "SharedMemory",
    "Source",
    "StreamBatches",
    "Transform",
    "TransformKeys",
    "batch_of_net",
    "declared",
    "examined",
    "first_transforming",
    "folder_names",
    "identity",
    "in_classes",
    "is_one",
    "on_device",
    "open_data",
    "open_source",
]
