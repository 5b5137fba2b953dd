"""Prediction with a trained net: images in, classes out, without an event loop or cluster.toml.

predictor    A trained net, ready for images: a plain object with ordinary calls
deployment   The facts for using a weights file
given        The deployment of a weights file, made of the facts in the file and the facts that a
             user gives, which complete or replace them
deployed     A net for prediction
ranking      Rankings of class scores
image_files  Image files: found by name, decoded as the net's data were, and resized as Caffe's
             classify does
classifier   The classification of images by one net or by several, batch by batch
ensemble     Several trained nets whose scores are averaged
features     The features of images: the output of a layer inside a trained net
net_data     The images that the data layers of a net name as their source

    from nets.predict import Predictor

    predictor = Predictor.load("checkpoint-0001000.safetensors")
    for found in predictor.files(["three.png"], top=3):
        print(found.name, found.classes)
"""

from nets.predict.classifier import Classifier
from nets.predict.deployed import Scored, scored
from nets.predict.deployment import Deployment, Given, Seen
from nets.predict.ensemble import Ensemble, Output, common_classes
from nets.predict.predictor import Predictor, for_use
from nets.predict.ranking import Class, Prediction, Tally

__all__ = [
    "Class",
    "Classifier",
    "Deployment",
    "Ensemble",
    "Given",
    "Output",
    "Prediction",
    "Predictor",
    "Scored",
    "Seen",
    "Tally",
    "common_classes",
    "for_use",
    "scored",
]
