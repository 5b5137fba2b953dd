"""Where images and labels come from.

What lives here: `open_source` and the map of formats. What never: batches in flight or anything a worker
keeps.

    source      Source, the configuration checks    digits  the digits that ship      idx  MNIST's format
    synthetic   made-up classes                     transform  Caffe's transform_param
    batches     which samples form global batch number t
"""

from nets.data.batches import Batches
from nets.data.declared import batch_of_net
from nets.data.source import Source, open_source
from nets.data.transform import Transform

__all__ = ["Batches", "Source", "Transform", "batch_of_net", "open_source"]
