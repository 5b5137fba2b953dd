"""The commands that training adds to `python -m runtime`. Each has a file, and runs in one process
without messages.

time              `time`: the time that each layer of a net takes, and the time of reading its data
test              `test`: the scores of a model on the test data
convert           `convert`: data sets, weights and snapshots from one format to another
predict           `predict`: the classification of images by a trained net
init              `init`: a first cluster.toml, for the digits that ship with the package, a folder
                  of images, or a Caffe solver
starters          The files that `init` writes, as text
profile           A profile of this machine for a plan
resuming          `up --resume`: the search for the checkpoint that the run resumes
rescaling         `scale`: the options of a training with another number of workers or groups
common            Functions that the commands share
judging           The outputs of nets for the test data, and their scores
members           The members of an ensemble among the words of `predict` and `test`
scoring           The scores of nets on the test data, and the scores of an ensemble, whose outputs
                  are the averages of its members' outputs
differences       The settings of images that differ between the run of a checkpoint and a test
extract           `extract`: the features of images, which are the output of a layer of a trained
                  net
finetuned         The files that `init --net --weights` writes
prediction_lines  The lines of predictions: text, JSON or CSV, printed or written to a file
completed_names   The names that keys of [train] may have, which shells complete
"""

COMMANDS = {
    "init": "roles.commands.init:init",
    "time": "roles.commands.time:time",
    "test": "roles.commands.test:test",
    "convert": "roles.commands.convert:convert",
    "predict": "roles.commands.predict:predict",
    "extract": "roles.commands.extract:extract",
}
