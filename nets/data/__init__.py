"""Data sources: where a net's images and labels come from, and how they are read.

of_net         The data of a net in one phase
declared       The settings of a net's own data layers for reading
formats        The formats of data sources
held_sets      Data sets in memory
joined         Several sources joined to one, as Caffe's nets read them
examined       A check of a source before training
all_samples    All samples of a source, read once
data_identity  A short description of a data source, with a checksum of a quick sample of it
sources/       Readers of images and labels from files and folders, and sources of made-up images
lmdb/          Caffe's LMDB data sets: a source that reads them, and a writer
pictures/      Pixels of encoded pictures, as OpenCV's imread gives them
decoding/      The decoding of encoded pictures
augmentation/  Changes of images between the source and the net
batches/       The batches of a run: the order of the samples, and the threads that read ahead
"""

from nets.data.augmentation.augment import Augment
from nets.data.augmentation.mixing import Mixing
from nets.data.augmentation.transform import Transform, first_transforming
from nets.data.augmentation.transform_keys import TransformKeys
from nets.data.batches.batches import Batches
from nets.data.batches.device_batches import DeviceBatches, on_device
from nets.data.batches.prefetch import Prefetcher
from nets.data.batches.stream_batches import StreamBatches
from nets.data.data_identity import identity
from nets.data.declared import batch_of_net, declared
from nets.data.decoding.processes import DecodingProcesses, SharedMemory
from nets.data.examined import examined, in_classes
from nets.data.formats import FORMATS, open_source
from nets.data.of_net import folder_names, is_one, open_data
from nets.data.sources.source import MemorySource, Source

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
