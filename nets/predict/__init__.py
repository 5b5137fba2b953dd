"""A trained net in use: images in, classes out. No event loop, no cluster.toml.

predictor    A trained net, ready for images: a plain object with plain calls
deployment   What a weights file says of its use
given        The deployment of a weights file
deployed     A net as it is used
ranking      Scores of classes
image_files  Images by their names

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
