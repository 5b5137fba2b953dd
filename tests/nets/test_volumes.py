"""Volumes of layers and nets: they agree with counts by hand and with the papers."""

import pytest

from nets import Net, load_net
from nets.tools.volumes import volumes
from ops import get_backend
from tests.nets.support import lenet, spec_of

ONE_TOWER = [("group: 2", "")]  # the papers count AlexNet without its two groups


def of_zoo(name, batch, tmp_path=None, changes=()):
    text = load_net(name).path.read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    spec = spec_of(tmp_path, text) if changes else load_net(name)
    return volumes(Net(spec, "TRAIN", ops=get_backend(), input_shape=(3, 256, 256), batch=batch))


def test_lenets_layers_agree_with_a_count_by_hand():
    found = {layer.name: layer for layer in volumes(lenet(batch=3)).layers}
    conv1 = found["conv1"]
    conv2 = found["conv2"]
    ip1 = found["ip1"]
    assert (conv1.weights, conv1.biases, conv1.inputs, conv1.outputs) == (
        500,
        20,
        3 * 784,
        3 * 20 * 24 * 24,
    )
    assert conv1.forward == conv1.backward == 2 * 3 * 20 * 24 * 24 * 25
    assert (conv2.forward, conv2.backward) == (
        2 * 3 * 50 * 8 * 8 * 500,
        2 * 2 * 3 * 50 * 8 * 8 * 500,
    )
    assert (ip1.forward, ip1.backward, ip1.part) == (2 * 3 * 800 * 500, 4 * 3 * 800 * 500, "fc")
    assert conv2.lowered == 20 * 25 * 8 * 8
    assert (found["relu1"].kept, found["relu1"].outputs, found["relu1"].forward) == (0, 1500, 0)
    whole = volumes(lenet(batch=3))
    assert (whole.parameters, whole.weight_bytes) == (431_080, 4 * 430_500)
    memory = whole.memory(lowered_images=3)
    assert memory.parameters == memory.gradients == memory.history == 4 * 431_080
    assert memory.lowered == 4 * 3 * 20 * 25 * 8 * 8
    assert memory.activations == 4 * sum(layer.kept for layer in whole.layers)
    assert memory.total == 3 * memory.parameters + 2 * memory.activations + memory.lowered


def test_the_parts_of_a_net_add_up_to_the_whole():
    whole = volumes(lenet(batch=3))
    parts = [volumes(lenet(batch=3, part=part)) for part in ("conv", "fc")]
    assert sum((part.layers for part in (whole.part("conv"), whole.part("fc"))), ()) == whole.layers
    assert sum(part.parameters for part in parts) == whole.parameters
    assert sum(part.forward for part in parts) == whole.forward


def test_recurrent_and_grouped_layers_are_counted(tmp_path):
    lstm = {
        layer.name: layer
        for layer in volumes(Net(load_net("char_lstm"), "TRAIN", ops=get_backend())).layers
    }
    assert lstm["lstm"].weights == 4 * 256 * (64 + 256)
    assert lstm["lstm"].forward == 2 * 64 * 64 * 4 * 256 * (64 + 256)
    grouped = of_zoo("alexnet", 1)
    apart = of_zoo("alexnet", 1, tmp_path, ONE_TOWER)
    conv2 = [
        next(layer for layer in found.layers if layer.name == "conv2") for found in (grouped, apart)
    ]
    assert conv2[1].forward == 2 * conv2[0].forward == 2 * 2 * 256 * 27 * 27 * 48 * 25


# FireCaffe, table 1: |D| and |W| in millions of bytes, and 10^12 FLOPs of forward and backward, at
# a batch of 1024. The paper counts AlexNet without groups on images of 224 pixels, and includes the
# weights of GoogLeNet's auxiliary classifiers.
TABLE_1 = {
    "nin": (5800, 30, 6.7),
    "alexnet": (1680, 249, 7.0),
    "googlenet": (19100, 54, 9.7),
    "vgg19": (42700, 575, 120),
}


@pytest.mark.parametrize("name", TABLE_1)
def test_firecaffes_table_of_volumes_is_reproduced(name, tmp_path):
    changes = [
        *ONE_TOWER,
        ("crop_size: 227", "crop_size: 224"),
        ("kernel_size: 11 stride: 4", KERNEL_1),
    ]
    found = of_zoo(name, 1024, tmp_path, changes if name == "alexnet" else ())
    data, weights, flops = TABLE_1[name]
    assert found.data_bytes / 1e6 == pytest.approx(data, rel=0.01)
    # the paper prints 30 for 30.4
    assert found.weight_bytes / 1e6 == pytest.approx(weights, rel=0.013)
    # the paper prints two digits, and includes conv1's data gradient
    assert 3 * found.forward / 1e12 == pytest.approx(flops, rel=0.012)


# with this padding, 224 pixels give the 55 x 55 outputs of 227 pixels
KERNEL_1 = "kernel_size: 11 stride: 4 pad: 2"


def test_omnivores_flops_of_alexnet_are_reproduced(tmp_path):
    found = of_zoo("alexnet", 256, tmp_path, ONE_TOWER)
    conv, fc = (found.part(part) for part in ("conv", "fc"))
    assert (conv.forward + conv.backward) / 1e12 == pytest.approx(1.6, abs=0.05)
    # Section 2 prints 80 GFLOP for FC. The paper's own rule (appendix B.1: three products a layer)
    # gives 2 x 3 x 256 x 58.6 million = 90; fc6 and fc7 alone would give 84. The 95 % for the
    # convolutions agrees: 1.60 of 1.69.
    assert (fc.forward + fc.backward) / 1e9 == pytest.approx(90.0, abs=0.1)
    assert conv.forward + conv.backward == pytest.approx(
        0.95 * (found.forward + found.backward), rel=0.005
    )
