"""Nets whose rows are streams: their parts, their numbers on some of the streams, their data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nets import DataError, Net, NetError, load_net
from nets.data import Batches, StreamBatches, Transform
from nets.data.sources.text import open_text
from nets.graph.streams import Streams, streams_of, turned
from ops import get_backend
from tests.helpers.recurrent_runs import NET, STEPS, STREAMS

OPS = get_backend("numpy")
FULL = (0, STREAMS)


def spec_of(folder: Path, text: str = "", **kinds: str):
    path = folder / "net.prototxt"
    path.write_text(text or NET.format(steps=STEPS, streams=STREAMS, kind="LSTM", **kinds))
    return load_net(path).for_phase("TRAIN")


def net_of(folder: Path, part: str = "all", steps: int = STEPS) -> Net:
    text = NET.format(steps=steps, streams=STREAMS, kind="LSTM")
    return Net(spec_of(folder, text), "TRAIN", ops=OPS, part=part, seed=3)


def given(random: np.random.Generator, steps: int) -> dict[str, np.ndarray]:
    """Inputs with rows on axis 0."""
    letters = random.integers(0, 5, (2, STREAMS, steps)).astype(np.float32)
    cont = (np.arange(steps) % 3 != 0).astype(np.float32)
    return {"data": letters[0], "cont": np.tile(cont, (STREAMS, 1)), "target": letters[1]}


def gradients(net: Net, inputs: dict[str, np.ndarray], low: int, high: int):
    """The gradients of the rows [low, high) of step 5."""
    net.begin(5, (low, high))
    for name, array in inputs.items():
        net.feed_rows(name, array[low:high])
    for stage in net.stages:
        if stage.layer is not None:
            net.load(stage.layer, net.initial_blobs()[stage.layer])
        net.forward(stage)
    return {stage.layer: net.backward(stage) for stage in reversed(net.stages)}


def test_only_a_net_whose_inputs_are_all_steps_of_streams_has_streams(tmp_path: Path) -> None:
    assert streams_of(spec_of(tmp_path)) == Streams(STEPS, STREAMS)
    assert streams_of(load_net("lenet").for_phase("TRAIN")) is None
    other = NET.format(steps=STEPS, streams=STREAMS, kind="LSTM").replace(
        f"shape {{ dim: {STEPS} dim: {STREAMS} }}",
        " ".join(f"shape {{ dim: {n} dim: {STREAMS} }}" for n in (STEPS, STEPS, 2 * STEPS)),
    )
    assert streams_of(spec_of(tmp_path, other)) is None


def test_recurrent_layers_and_the_layers_below_belong_to_the_conv_phase(tmp_path: Path) -> None:
    conv, fc = net_of(tmp_path, "conv"), net_of(tmp_path, "fc")
    assert list(conv.params) == ["embed", "lstm"]
    assert list(fc.params) == ["next"]
    assert conv.boundary == fc.inputs == ["target", "drop"]
    assert fc.row_shape("drop") == (STEPS, 7)
    assert conv.batch == fc.batch == STREAMS


@pytest.mark.parametrize("steps", [STEPS, 1])
def test_gradients_of_some_streams_add_up_to_those_of_all_with_the_same_dropout(
    tmp_path: Path, steps: int
) -> None:
    inputs = given(np.random.default_rng(1), steps)
    whole = gradients(net_of(tmp_path, steps=steps), inputs, *FULL)
    cuts = ((0, 3), (3, 4), (4, STREAMS))
    parts = [gradients(net_of(tmp_path, steps=steps), inputs, *cut) for cut in cuts]
    for layer, expected in whole.items():
        for at, array in enumerate(expected):
            total = sum(part[layer][at] for part in parts)
            np.testing.assert_allclose(total, array, rtol=1e-4, atol=1e-6, err_msg=f"{layer} {at}")


def test_random_numbers_belong_to_streams_in_folded_blobs_too(tmp_path: Path) -> None:
    net = net_of(tmp_path)
    net.begin(5)
    whole = net._run
    net.begin(5, (2, 5))
    part = net._run
    shape = (STEPS, STREAMS, 3)
    every = whole.uniforms("k", "layer", shape)
    np.testing.assert_array_equal(part.uniforms("k", "layer", (STEPS, 3, 3)), every[:, 2:5])
    folded = part.uniforms("k", "layer", (STEPS * 3, 3))
    np.testing.assert_array_equal(folded.reshape(STEPS, 3, 3), every[:, 2:5])
    static = whole.uniforms("k", "layer", (STREAMS, 5))
    np.testing.assert_array_equal(part.uniforms("k", "layer", (3, 5)), static[2:5])


def test_a_blob_without_streams_cannot_cross_the_cut(tmp_path: Path) -> None:
    text = NET.format(steps=STEPS, streams=STREAMS, kind="LSTM")
    text += 'layer { name: "few" type: "Reduction" bottom: "lstm" top: "few" reduction_param { axis: 1 } }\n'
    text += 'layer { name: "sum" type: "EuclideanLoss" bottom: "few" bottom: "few" top: "sum" }\n'
    with pytest.raises(NetError, match=r"'few' crosses the cut .*expected \(4, 8\) first"):
        Net(spec_of(tmp_path, text), "TRAIN", ops=OPS, part="conv")


def text_source(folder: Path, **options: int):
    (folder / "text.txt").write_text("abcdefghij" * 40)
    return open_text(base_dir=folder, source="text.txt", streams=4, **options)


def batches(source, steps: int, *, shuffle: bool = False) -> Batches:
    return Batches(source, Transform(), steps, shuffle=shuffle, seed=1, train=True)


def test_rows_of_a_batch_are_streams(tmp_path: Path) -> None:
    steps = batches(text_source(tmp_path, length=20), 5, shuffle=True)
    rows = StreamBatches(steps, 4)
    assert rows.shapes == [(5,)] * 3
    for ticket in (0, 3, 30):
        for mine, whole in zip(rows.read(ticket, 1, 3), steps.read(ticket, 0, 5), strict=True):
            np.testing.assert_array_equal(mine, turned(whole)[1:3])
    both = rows.samples(2, 6)
    np.testing.assert_array_equal(both[0][:2], rows.read(0, 2, 4)[0])
    np.testing.assert_array_equal(both[0][2:], rows.read(1, 0, 2)[0])


def test_a_sequence_may_last_several_batches_and_begins_with_cont_0(tmp_path: Path) -> None:
    rows = StreamBatches(batches(text_source(tmp_path, length=20), 5, shuffle=True), 4)
    begins = [float(rows.read(ticket, 0, 1)[1][0, 0]) for ticket in range(8)]
    assert begins == [0, 1, 1, 1, 0, 1, 1, 1]
    first, second = (rows.read(ticket, 0, 4)[2] for ticket in (0, 1))
    assert first.shape == second.shape == (4, 5)
    data = rows.read(1, 0, 4)[0]
    np.testing.assert_array_equal(first[:, -1], data[:, 0])  # the next letter


def test_a_batch_that_cuts_a_sequence_unevenly_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"found 6 steps of time, .* divisor of 20"):
        batches(text_source(tmp_path, length=20), 6)


def test_data_with_another_number_of_streams_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"found samples of shape \(4,\), expected \(8, ...\)"):
        StreamBatches(batches(text_source(tmp_path, length=20), 5), 8)
