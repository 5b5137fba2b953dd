"""Files with the names of torch's modules, read and written without torch: the rule of the names,
the order of modules, half precision, and files that do not fit."""

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from nets import NetBuilder, NetError
from nets.files import torch_files
from nets.files.torch_names import from_torch, to_torch
from nets.files.weights import read_each, read_weights, write_weights

RANDOM = np.random.default_rng(5)


def layers_of(*, keep=0.9, prefix=""):
    net = NetBuilder("small")
    data = net.Input("data", shape={"dim": [1, 3, 8, 8]})
    x = net.Convolution(f"{prefix}conv", data, num_output=4, kernel_size=3, bias_term=False)
    x = net.BatchNorm(f"{prefix}bn", x, in_place=True, moving_average_fraction=keep)
    x = net.Scale("any name", x, in_place=True, bias_term=True)
    x = net.PReLU(f"{prefix}act", x, in_place=True)
    net.InnerProduct(f"{prefix}fc", x, num_output=5)
    return net.spec().for_phase("TEST").layers


def arrays_of(names=("conv", "bn", "act", "fc")):
    conv, bn, act, fc = names
    shapes = {
        f"{conv}.weight": (4, 3, 3, 3),
        f"{bn}.weight": (4,),
        f"{bn}.bias": (4,),
        f"{bn}.running_mean": (4,),
        f"{bn}.running_var": (4,),
        f"{act}.weight": (4,),
        f"{fc}.weight": (5, 144),
        f"{fc}.bias": (5,),
    }
    return {name: RANDOM.random(shape).astype(np.float32) for name, shape in shapes.items()}


def test_a_scale_above_a_norm_has_the_norms_weight_and_bias():
    arrays = arrays_of()
    found = from_torch(arrays, layers_of()).weights
    assert [array.tobytes() for array in found["any name"]] == [
        arrays[f"bn.{end}"].tobytes() for end in ("weight", "bias")
    ]
    assert list(found) == ["conv", "bn", "any name", "act", "fc"]


@pytest.mark.parametrize(("keep", "weight"), [(0.9, 8), (0.99, 64), (0.999, 512), (1.0, 1)])
def test_statistics_count_as_the_batches_that_training_remembers(keep, weight):
    arrays = arrays_of()
    mean, variance, count = from_torch(arrays, layers_of(keep=keep)).weights["bn"]
    assert count.tolist() == [weight]
    assert (mean / weight == arrays["bn.running_mean"]).all()
    assert (variance / weight == arrays["bn.running_var"]).all()


def test_a_file_returns_with_the_same_arrays(tmp_path):
    arrays = arrays_of()
    tracked = {"bn.num_batches_tracked": np.array(7)}
    save_file(arrays | tracked, tmp_path / "in.safetensors")
    layers = layers_of()
    back = to_torch(read_weights(tmp_path / "in.safetensors", layers), layers, "in")
    torch_files.write(tmp_path / "out.safetensors", back)
    found = load_file(tmp_path / "out.safetensors")
    assert found.keys() == arrays.keys()
    assert all(found[name].tobytes() == array.tobytes() for name, array in arrays.items())


def test_half_precision_is_widened_and_the_prefix_of_a_wrapped_net_is_removed(tmp_path):
    arrays = {f"module.{name}": array.astype(np.float16) for name, array in arrays_of().items()}
    save_file(arrays, tmp_path / "half.safetensors")
    found = read_weights(tmp_path / "half.safetensors", layers_of())
    assert found["conv"][0].dtype == np.float32
    assert (found["conv"][0] == arrays["module.conv.weight"]).all()


def test_modules_with_other_names_are_matched_by_order_and_the_user_sees_it(tmp_path):
    arrays = arrays_of(("0", "1", "2", "10"))
    save_file(arrays, tmp_path / "other.safetensors")
    found = read_each([tmp_path / "other.safetensors"], layers_of())
    assert (found.weights["fc"][0] == arrays["10.weight"]).all()
    assert found.told[0].endswith("torch's names give 5 of 5 layers with weights")
    assert "layers conv, bn, any name, act, fc: no array has their names" in found.told[1]


@pytest.mark.parametrize(
    "change",
    [
        lambda arrays: arrays.pop("2.weight"),
        lambda arrays: arrays.update({"0.weight": np.zeros((6, 3, 3, 3), "f4")}),
        lambda arrays: arrays.update({"3.weight": np.zeros(4, "f4")}),
        lambda arrays: arrays.update({"0.bias": np.zeros(4, "f4")}),
    ],
)
def test_modules_in_another_sequence_are_not_matched(change):
    arrays = arrays_of(("0", "1", "2", "10"))
    change(arrays)
    assert from_torch(arrays, layers_of()).matched == ()


def test_layers_that_torch_does_not_have_are_refused_by_name(tmp_path):
    net = NetBuilder("recurrent")
    data = net.Input("data", shape={"dim": [5, 1, 3]})
    cont = net.Input("cont", shape={"dim": [5, 1]})
    net.LSTM("lstm", data, cont, num_output=2)
    spec = net.spec().for_phase("TEST")
    weights = {"lstm": (np.zeros((8, 3), "f4"), np.zeros(8, "f4"), np.zeros((8, 2), "f4"))}
    with pytest.raises(NetError, match=r"x.safetensors: layer 'lstm': torch has no names"):
        write_weights(tmp_path / "x.safetensors", weights, spec, torch=True)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("cut", [3, 60, -1])
def test_a_file_that_was_cut_is_refused_by_name(tmp_path, cut):
    path = tmp_path / "cut.safetensors"
    save_file(arrays_of(), path)
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(NetError, match=r"cut\.safetensors: "):
        read_weights(path, layers_of())


def test_numbers_of_eight_bits_are_refused_by_name(tmp_path):
    path = tmp_path / "eight.safetensors"
    header = b'{"conv.weight":{"dtype":"F8_E4M3","shape":[1],"data_offsets":[0,1]}}'
    path.write_bytes(len(header).to_bytes(8, "little") + header + b"\0")
    with pytest.raises(NetError, match=r"'conv\.weight': found numbers of type F8_E4M3"):
        read_weights(path, layers_of())
