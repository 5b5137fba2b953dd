"""A trained net in use: images in, classes out. No event loop, no cluster.toml.

predictor   Predictor: arrays or image files to scores and classes
deployment  what a weights file says of its use: net, transform, class names; as text in a checkpoint's metadata
given       the same, completed by what a person says
deployed    the net without data layers and losses, from the input to the scores
ranking     top-k, the confusion matrix
files       images by their names: files, folders, broken ones

    from nets.predict import Predictor

    predictor = Predictor.load("checkpoint-0001000.safetensors")
    for found in predictor.files(["three.png"], top=3):
        print(found.name, found.classes)
"""

from nets.predict.deployed import Scored, scored
from nets.predict.deployment import Deployment, Given, Seen
from nets.predict.predictor import Predictor, for_use
from nets.predict.ranking import Class, Prediction, Tally

__all__ = [
    "Class",
    "Deployment",
    "Given",
    "Prediction",
    "Predictor",
    "Scored",
    "Seen",
    "Tally",
    "for_use",
    "scored",
]
