"""The files that `init` writes, as text: cluster.toml for each kind of data, and a net and a solver
for photographs."""

from __future__ import annotations

from runtime.typed_name import typed_name

HEAD = """\
# {what}
#
#   {convoy} check {file}      reads everything, starts nothing
#   {convoy} up {file}         trains; Ctrl-C saves and stops, `up --resume` continues
#   {convoy} docs configuration      shows docs/configuration.md, and so every page that is named here
#
# Every key: docs/configuration.md. Any of them for one run: --set train.max_iter=100

"""

SHAPE = """
[train.strategy]
preset = "{preset}"             # "sync", "replicas", "auto" ...: docs/strategies.md, {convoy} plan --presets
workers = {workers}                     # processes that compute; more workers than cores are not faster

# [checkpoint]
# seconds = 300                 # between two checkpoints, in addition to the solver's `snapshot`

# [[machine]]                   # other machines: docs/cluster.md
# name = "here"

[metrics]
port = 0                        # serves the list of processes for Prometheus; 0 takes a free port
"""

DIGITS = """\
[train]
net = "lenet"                   # a name from the zoo (docs/caffe.md), or the path of a prototxt
solver = "lenet_digits_solver"
seed = 1

[train.data]                    # your own: docs/data.md
train = { format = "digits", split = "train" }
test = { format = "digits", split = "test" }
"""

IMAGES = """\
[train]
net = "net.prototxt"            # next to this file, yours to change; or a name from the zoo (docs/caffe.md)
solver = "solver.prototxt"
seed = 1

[train.data]                    # each line of train.txt and val.txt is "path label"
train = {{ format = "images", source = "train.txt", root_folder = {root}, new_height = 64, new_width = 64 }}
test = {{ format = "images", source = "val.txt", root_folder = {root}, new_height = 64, new_width = 64 }}
classes = "classes.txt"         # the name of each label, for `predict`
shuffle = true                  # the list is sorted by class
"""

FINETUNED = """\
[train]
net = "net.prototxt"            # next to this file, yours to change
solver = "solver.prototxt"
recipe = "finetune"             # 10 epochs of AdamW: docs/optimizers.md
weights = [{weights}]
fresh = [{fresh}]
# freeze = ["conv*"]            # layers that stay as they are: docs/finetune.md
# lr_scale = {{ "conv*" = 0.1 }}  # layers that learn more slowly
seed = 1

[train.data]                    # each line of train.txt and val.txt is "path label"
train = {{ format = "images", source = "train.txt", root_folder = {root}, {size} }}
test = {{ format = "images", source = "val.txt", root_folder = {root}, {size} }}
classes = "classes.txt"         # the name of each label, for `predict`
{keys}"""

CAFFE = """\
[train]
solver = {solver}
seed = 1

[train.data]                    # "net": the `source` of the net's data layers. Or name other data: docs/data.md
train = {{ format = "net" }}     # such as {{ format = "lmdb", source = "train_lmdb" }}
{test}"""
CAFFE_TEST = 'test = { format = "net" }\n'

SOLVER = """\
# {iterations} iterations: 30 times through {images} images
net: "net.prototxt"
type: "Nesterov"
base_lr: 0.02
momentum: 0.9
weight_decay: 0.002
lr_policy: "poly"            # down to 0 at the end
power: 1
max_iter: {iterations}
test_interval: {interval}
test_initialization: false   # BatchNorm has no means yet
display: {display}
snapshot: {iterations}
"""

FINETUNED_SOLVER = """\
net: "net.prototxt"
base_lr: 0.0001              # the recipe of cluster.toml sets the update rule and the schedule
lr_policy: "fixed"
max_iter: {iterations}
display: {display}
"""

DATA_LAYER = """\
layer {{
  name: "data" type: "ImageData" top: "data" top: "label"
  transform_param {{ crop_size: 56 {more}mean_value: 110 mean_value: 115 mean_value: 120 scale: 0.016 }}
  image_data_param {{ batch_size: {batch} }}
  include {{ phase: {phase} }}
}}
"""

BLOCK = """
layer {{
  name: "conv{n}" type: "Convolution" bottom: "{bottom}" top: "conv{n}"
  convolution_param {{ num_output: {outputs} kernel_size: {kernel} pad: {pad} bias_term: false weight_filler {{ type: "msra" }} }}
}}
layer {{
  name: "pool{n}" type: "Pooling" bottom: "conv{n}" top: "pool{n}" pooling_param {{ pool: MAX kernel_size: 2 stride: 2 }}
}}
layer {{ name: "bn{n}" type: "BatchNorm" bottom: "pool{n}" top: "bn{n}" batch_norm_param {{ moving_average_fraction: 0.9 }} }}
layer {{ name: "scale{n}" type: "Scale" bottom: "bn{n}" top: "scale{n}" scale_param {{ bias_term: true }} }}
layer {{ name: "relu{n}" type: "ReLU" bottom: "scale{n}" top: "scale{n}" }}
"""

TAIL = """
layer {{
  name: "places" type: "Pooling" bottom: "scale3" top: "places" pooling_param {{ pool: AVE kernel_size: 3 stride: 2 }}
}}
layer {{ name: "drop" type: "Dropout" bottom: "places" top: "places" dropout_param {{ dropout_ratio: 0.5 }} }}
layer {{
  name: "classes" type: "InnerProduct" bottom: "places" top: "classes"
  inner_product_param {{ num_output: {classes} weight_filler {{ type: "gaussian" std: 0.01 }} }}
}}

layer {{
  name: "accuracy" type: "Accuracy" bottom: "classes" bottom: "label" top: "accuracy"
  include {{ phase: TEST }}
}}
layer {{ name: "loss" type: "SoftmaxWithLoss" bottom: "classes" bottom: "label" top: "loss" }}
"""


def cluster(what: str, train: str, file: str, preset: str, workers: int) -> str:
    """A whole cluster.toml."""
    convoy = typed_name()
    head = HEAD.format(what=what, file=file, convoy=convoy)
    return head + train + SHAPE.format(preset=preset, workers=workers, convoy=convoy)


def net(classes: int, batch: int, tested: int) -> str:
    """A small net for photographs, with three convolutions whose outputs are normalised over the
    batch. It takes 56 x 56 crops of images in blue, green, red, in batches of `batch` for training
    and of `tested` for tests."""
    text = '# A small net for photographs. Images are blue, green, red.\nname: "photographs"\n\n'
    text += DATA_LAYER.format(phase="TRAIN", batch=batch, more="mirror: true ")
    text += DATA_LAYER.format(phase="TEST", batch=tested, more="")
    bottom = "data"
    for n, (outputs, kernel) in enumerate(((32, 5), (48, 3), (96, 3)), 1):
        text += BLOCK.format(n=n, bottom=bottom, outputs=outputs, kernel=kernel, pad=kernel // 2)
        bottom = f"scale{n}"
    return text + TAIL.format(classes=classes)


def finetuned_solver(images: int, batch: int) -> str:
    """A solver for the recipe "finetune": 10 times through the images."""
    iterations = max(10, 10 * images // batch)
    return FINETUNED_SOLVER.format(iterations=iterations, display=max(1, iterations // 20))


def solver(images: int, batch: int) -> str:
    """A solver that trains on each image 30 times."""
    iterations = max(10, 30 * images // batch)
    display = max(1, iterations // 20)
    return SOLVER.format(
        iterations=iterations, images=images, interval=max(1, iterations // 3), display=display
    )
