"""Layers that share parameters by name: one owner, and gradients that add."""

from pathlib import Path

import numpy as np
import pytest

from nets import PrototxtError
from nets.graph.graph import Net
from ops import get_backend
from tests.nets.support import backward, spec_of

HEAD = """
layer { name: "d" type: "Input" top: "a" top: "b" top: "similar"
  input_param { shape { dim: 4 dim: 2 dim: 6 dim: 6 } shape { dim: 4 dim: 2 dim: 6 dim: 6 } shape { dim: 4 } } }
"""
TWIN = """
layer {{ name: "conv{0}" type: "Convolution" bottom: "{1}" top: "c{0}" param {{ name: "cw" }} {2}
  convolution_param {{ num_output: 3 kernel_size: 3 weight_filler {{ type: "xavier" }} }} }}
layer {{ name: "relu{0}" type: "ReLU" bottom: "c{0}" top: "c{0}" }}
layer {{ name: "ip{0}" type: "InnerProduct" bottom: "c{0}" top: "f{0}" param {{ name: "iw" }} param {{ name: "ib" }}
  inner_product_param {{ num_output: 5 weight_filler {{ type: "xavier" }} }} }}
"""
LOSS = """
layer { name: "loss" type: "ContrastiveLoss" bottom: "f" bottom: "f_p" bottom: "similar" top: "loss"
  contrastive_loss_param { margin: 100 legacy_version: true } }
"""
SIAMESE = HEAD + TWIN.format("", "a", "") + TWIN.format("_p", "b", "param { lr_mult: 2 }") + LOSS


def siamese(tmp_path, text=SIAMESE, **options):
    return Net(spec_of(tmp_path, text), "TRAIN", ops=get_backend(), dtype=np.float64, **options)


def inputs():
    random = np.random.default_rng(1)
    a, b = random.standard_normal((2, 4, 2, 6, 6))
    return {"a": a, "b": b, "similar": np.array([1.0, 0, 1, 0])}


def test_the_first_layer_owns_the_shared_parameters_and_a_borrower_keeps_its_others(tmp_path):
    net = siamese(tmp_path)
    owned = {layer: [param.name for param in params] for layer, params in net.params.items()}
    assert owned == {"conv": ["weight", "bias"], "ip": ["weight", "bias"], "conv_p": ["bias"]}
    assert [stage.layer for stage in net.stages] == ["conv", "ip", "conv_p"]
    assert net.params["conv_p"][0].index == 1
    assert net.params["conv_p"][0].lr_mult == 2


def test_gradients_of_shared_parameters_add_and_come_out_at_the_owner(tmp_path):
    net = siamese(tmp_path)
    blobs = net.initial_blobs()
    net.run(inputs(), blobs)
    grads = backward(net)
    assert {layer: len(of) for layer, of in grads.items()} == {"conv": 2, "ip": 2, "conv_p": 1}
    random = np.random.default_rng(2)
    step = 1e-6
    for layer, of in blobs.items():
        for at, blob in enumerate(of):
            direction = random.standard_normal(blob.shape)
            ends = []
            for sign in (1, -1):
                moved = [b + sign * step * direction if k == at else b for k, b in enumerate(of)]
                ends.append(net.run(inputs(), blobs | {layer: moved})["loss"])
            slope = (ends[0] - ends[1]) / (2 * step)
            assert (grads[layer][at] * direction).sum() == pytest.approx(slope, rel=1e-6), (
                layer,
                at,
            )


def test_shared_gradients_are_written_into_the_given_arrays(tmp_path):
    net = siamese(tmp_path)
    blobs = net.initial_blobs()
    net.run(inputs(), blobs)
    expected = backward(net)
    net.run(inputs(), blobs)
    for stage in reversed(net.stages):
        out = [np.full(param.shape, np.nan) for param in net.params[stage.layer]]
        found = net.backward(stage, out)
        for place, grad, right in zip(out, found, expected[stage.layer], strict=True):
            assert np.shares_memory(place, grad)
            np.testing.assert_array_equal(place, right)


def test_conv_part_and_fc_part_share_within_themselves(tmp_path):
    whole, conv, fc = (siamese(tmp_path, part=part) for part in ("all", "conv", "fc"))
    blobs = whole.initial_blobs()
    scores = whole.run(inputs(), blobs)
    expected = backward(whole)
    conv.run(inputs(), blobs)
    assert fc.run({name: conv.blob(name) for name in conv.boundary}, blobs) == scores
    found = backward(fc)
    for name in fc.boundary_grads:
        conv.set_grad(name, fc.grad(name))
    found |= backward(conv)
    for layer, arrays in expected.items():
        assert all(np.array_equal(a, b) for a, b in zip(found[layer], arrays, strict=True)), layer


def test_a_shared_weight_may_have_another_shape_if_both_agree_on_the_size(tmp_path):
    text = """
layer { name: "d" type: "Input" top: "x" input_param { shape { dim: 2 dim: 6 } } }
layer { name: "up" type: "InnerProduct" bottom: "x" top: "up" param { name: "w" }
  inner_product_param { num_output: 3 bias_term: false weight_filler { type: "xavier" } } }
layer { name: "down" type: "InnerProduct" bottom: "up" top: "down" param { name: "w" share_mode: PERMISSIVE }
  inner_product_param { num_output: 6 bias_term: false } }
layer { name: "l" type: "EuclideanLoss" bottom: "down" bottom: "x" top: "l" }
"""
    net = siamese(tmp_path, text)
    x = np.random.default_rng(0).standard_normal((2, 6))
    blobs = net.initial_blobs()
    net.run({"x": x}, blobs)
    w = blobs["up"][0]
    np.testing.assert_allclose(net.blob("down"), x @ w.T @ w.reshape(6, 3).T)
    (grad,) = backward(net)["up"]
    error = (net.blob("down") - x) / 2
    right = error.T @ (x @ w.T)
    np.testing.assert_allclose(grad, (error @ w.reshape(6, 3)).T @ x + right.reshape(3, 6))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (
            (
                ('bottom: "c_p" top: "f_p" param { name: "iw" }'),
                'bottom: "c_p" top: "f_p" param { name: "ib" }',
            ),
            (
                "layer 'ip_p': key 'param.name': 'ib' has shape (5, 48) here, but (5,) in layer "
                "'ip', expected one shape"
            ),
        ),
        (
            ('top: "c_p" param { name: "cw" }', 'top: "c_p" param { name: "cw" decay_mult: 3 }'),
            None,
        ),
    ],
)
def test_shared_parameters_must_agree(tmp_path, change, problem):
    text = SIAMESE.replace(*change)
    assert text != SIAMESE
    if problem is None:  # only the borrower has the option, and it applies to the owner
        assert siamese(tmp_path, text).params["conv"][0].decay_mult == 3
        return
    with pytest.raises(PrototxtError) as caught:
        siamese(tmp_path, text)
    assert problem in str(caught.value)


def test_two_different_multipliers_of_one_parameter_are_refused(tmp_path):
    text = SIAMESE.replace('param { name: "cw" }', 'param { name: "cw" lr_mult: 1 }', 1)
    text = text.replace(
        'top: "c_p" param { name: "cw" }', ('top: "c_p" param { name: "cw" lr_mult: 2 }')
    )
    with pytest.raises(
        PrototxtError, match=(r"key 'param.lr_mult': found 2 for shared 'cw', " r"but 1 in 'conv'")
    ):
        siamese(tmp_path, text)


def test_sharing_across_the_cut_between_the_phases_is_refused_for_a_part(tmp_path):
    text = SIAMESE.replace(
        'name: "relu" type: "ReLU" bottom: "c"', 'name: "relu" type: "Bias" bottom: "c"'
    )
    text = text.replace(
        'type: "Bias" bottom: "c" top: "c"',
        ('type: "Bias" bottom: "c" top: "r" param { name: "s" }'),
    )
    text = text.replace(
        'name: "loss"',
        'name: "s" type: "Bias" bottom: "f" top: "g" param { '
        'name: "s" } '
        'bias_param { num_axes: 0 } } layer { name: "loss"',
    )
    text = text.replace('param { name: "s" } }', 'param { name: "s" } bias_param { num_axes: 0 } }')
    assert sorted(siamese(tmp_path, text).params) == ["conv", "conv_p", "ip", "relu"]
    with pytest.raises(
        PrototxtError,
        match=(r"layer 's': key 'param.name': shared with layer " r"'relu' across the cut"),
    ):
        siamese(tmp_path, text, part="conv")


@pytest.mark.parametrize("key", ["lr_mult", "decay_mult"])
def test_borrowers_that_contradict_each_other_are_refused(tmp_path: Path, key: str) -> None:
    layers = "".join(
        f'layer {{ name: "ip{k}" type: "InnerProduct" bottom: "{below}" top: "ip{k}" '
        f'param {{ name: "w" {given} }} inner_product_param {{ num_output: 4 bias_term: false }} }}'
        for k, (below, given) in enumerate(
            (("data", ""), ("ip0", f"{key}: 0"), ("ip1", f"{key}: 1"))
        )
    )
    text = (
        'layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 2 dim: 4 } } }'
    )
    with pytest.raises(
        PrototxtError, match=f"'ip2': key 'param.{key}': found 1 for shared 'w', but 0 in 'ip1'"
    ):
        Net(spec_of(tmp_path, text + layers), "TRAIN", ops=get_backend("numpy"))
