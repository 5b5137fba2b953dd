"""Changes of images between the source and the net: Caffe's transform_param, and random changes of
training images.

Each random number depends only on the seed, the position of the sample in the run and a lane
(`draws`). A batch is therefore the same with any number of workers and threads.

transform       Caffe's transform_param: crop, subtract the mean, mirror, multiply by the scale
transform_keys  Keys of a configuration that complete or replace fields of a net's transform_param,
                in every phase
augment         Random changes of training images, in addition to Caffe's crops and mirrors
boxes           Random boxes in images: a share of the area, a ratio of the sides, and a place
byte_tables     Changes of images of bytes that map each byte of a plane to another byte, by a table
                (N, C, 256)
draws           Random numbers that depend only on (seed, position of a sample in the run, lane), so
                that every process draws the same ones
erasing         Random erasing: a random box of a training image becomes zero
mixing          Mixup and CutMix
randaugment     RandAugment: some operations of one strength, drawn for each training image
warps           Changes of images that take each pixel from another place
"""

from nets.data.augmentation.augment import Augment
from nets.data.augmentation.mixing import Mixing

__all__ = ["Augment", "Mixing"]
