"""Whole graphs of ONNX as nets: their files, weights, outputs and classes, and their training."""

from __future__ import annotations

import numpy as np
import pytest

from nets import GraphKeys, NetError, load_net, net_of_graph
from nets.files.weights import read_weights
from nets.graph.graph import Net
from ops import get_backend
from tests.helpers.onnx_graphs import small_net
from tests.helpers.onnx_scores import agree, scores, types
from tests.nets.support import backward, some_values

pytest.importorskip("onnx", reason="needs onnx: pip install -e '.[onnx]'")


def test_half_precision_weights_are_widened(tmp_path):
    graph, out = small_net()
    model = graph.model(out)
    onnx = graph.onnx
    for tensor in model.graph.initializer:
        array = onnx.numpy_helper.to_array(tensor).astype(np.float16)
        tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))
    path = tmp_path / "half.onnx"
    path.write_bytes(model.SerializeToString())
    _, found = net_of_graph(path)
    arrays = [array for arrays in found.weights.values() for array in arrays]
    assert {array.dtype for array in arrays} == {np.dtype(np.float32)}


def test_weights_in_a_file_next_to_the_graph_are_read(tmp_path):
    graph, out = small_net()
    whole = graph.write(tmp_path / "whole.onnx", out)
    path = tmp_path / "net.onnx"
    graph.onnx.save_model(
        graph.model(out), str(path), save_as_external_data=True, location="net.data",
        size_threshold=0,
    )  # fmt: skip
    assert (tmp_path / "net.data").stat().st_size > 1000
    ours, theirs = read_weights(path), read_weights(whole)
    assert ours.keys() == theirs.keys()
    assert all(
        np.array_equal(a, b) for name in ours for a, b in zip(ours[name], theirs[name], strict=True)
    )


def test_a_softmax_at_the_end_is_left_to_the_loss(tmp_path):
    for kind in ("Softmax", "LogSoftmax"):
        graph, out = small_net()
        spec = load_net(graph.write(tmp_path / f"{kind}.onnx", graph.op(kind, out)))
        assert not {"Softmax", "Log"} & set(types(spec))


def test_other_classes_replace_the_last_layer(tmp_path):
    graph, out = small_net()
    spec, found = net_of_graph(graph.write(tmp_path / "net.onnx", out), GraphKeys(classes=4))
    (last,) = [layer.proto for layer in spec.layers if layer.proto.type == "InnerProduct"]
    assert (last.name, last.inner_product_param.num_output) == ("fc/4_classes", 4)
    assert last.name not in found.weights


def test_one_of_several_outputs_is_chosen_and_the_rest_of_the_graph_left_out(tmp_path):
    graph, out = small_net()
    side = graph.scores("x", 64, 7, "side")
    path = graph.write(tmp_path / "net.onnx", out, side)
    with pytest.raises(NetError, match=r"train\.onnx\.output"):
        load_net(path)
    spec = agree(path, GraphKeys(output=side))
    assert types(spec) == ["Flatten", "InnerProduct"]
    names = {layer.proto.name for layer in spec.layers}
    assert names & read_weights(path).keys()


def test_a_graph_that_convoy_writes_is_read_again_with_the_same_numbers(tmp_path):
    from nets.onnx import export
    from nets.predict import Given
    from nets.predict.given import completed

    net = load_net("resnet20")
    deployment = completed(None, Given(net=net, size=(32, 32)), {}, "resnet20")
    blobs = some_values(Net(deployment.net, "TEST", ops=get_backend(), batch=2))
    export(deployment, blobs, tmp_path / "net.onnx")
    spec, found = net_of_graph(tmp_path / "net.onnx")
    theirs = Net(deployment.net, "TEST", ops=get_backend(), batch=2, memory="kept")
    x = np.random.default_rng(1).standard_normal((2, 3, 32, 32)).astype(np.float32)
    theirs.run({theirs.inputs[0]: x}, blobs)
    logits = [layer.proto for layer in net.layers if layer.proto.type == "InnerProduct"][-1].top[0]
    expected = np.asarray(theirs.blob(logits))
    assert np.abs(scores(spec, found, x) - expected).max() <= 1e-4 * np.abs(expected).max()


def test_training_lowers_the_loss_of_a_graph(tmp_path):
    graph, out = small_net()
    spec, found = net_of_graph(graph.write(tmp_path / "net.onnx", out))
    net = Net(spec.for_phase("TRAIN"), "TRAIN", ops=get_backend(), batch=8, input_shape=(1, 8, 8))
    random = np.random.default_rng(1)
    given = {
        "data": random.standard_normal((8, 1, 8, 8)).astype(np.float32),
        "label": np.arange(8, dtype=np.float32),
    }
    blobs = {layer: [np.array(blob) for blob in found.weights[layer]] for layer in net.params}
    losses = []
    for step in range(10):
        losses.append(net.run(given, blobs, step)["loss"])
        for layer, gradients in backward(net).items():
            for blob, gradient, param in zip(
                blobs[layer], gradients, net.params[layer], strict=True
            ):
                blob[...] = (
                    param.keep * blob + gradient
                    if param.keep is not None
                    else blob - 0.05 * param.lr_mult * gradient
                )
    assert losses[-1] < losses[0] / 2
