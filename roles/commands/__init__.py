"""What `python -m runtime` can do besides starting runs: a command a file, in one process, without
messages.

time  test  convert   time layers, score a model, convert files
predict               classify images
init  starters        a cluster.toml to begin with
profile               what `time` writes down for `plan` and for emulated devices
resuming              what `up --resume` goes on from
rescaling               what other workers are for a training
common                what they share
"""

COMMANDS = {
    "init": "roles.commands.init:init",
    "time": "roles.commands.time:time",
    "test": "roles.commands.test:test",
    "convert": "roles.commands.convert:convert",
    "predict": "roles.commands.predict:predict",
}
