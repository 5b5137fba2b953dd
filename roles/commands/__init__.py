"""What `python -m runtime` can do besides starting runs: a command a file, in one process, without
messages.

time       `time`: how long every layer of a net takes
test       `test`: what a model scores on the test data
convert    `convert`: data sets, weights and snapshots from one format to another
predict    `predict`: what a trained net says of images
init       `init`: a cluster.toml to begin with, for the digits that ship, a folder of one's own
           images, or Caffe's solver
starters   The files that `init` writes, as text
profile    A profile of this machine for a plan
resuming   `up --resume`: which checkpoint of which run this one goes on from
rescaling  `scale`: what other workers are for a training
common     What the commands share
"""

COMMANDS = {
    "init": "roles.commands.init:init",
    "time": "roles.commands.time:time",
    "test": "roles.commands.test:test",
    "convert": "roles.commands.convert:convert",
    "predict": "roles.commands.predict:predict",
}
