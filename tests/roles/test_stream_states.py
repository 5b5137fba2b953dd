"""The states of recurrent layers that a worker keeps: for which pass and which streams they
count."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from nets import Net, load_net
from ops import get_backend
from roles.learning.micro_batches import MicroBatches
from roles.learning.stream_states import StreamRows, StreamStates, place_of
from tests.helpers.recurrent_runs import NET, STEPS, STREAMS

NAME = "lstm.0.beside.streams.at-16"


def net_of(folder: Path) -> Net:
    path = folder / "net.prototxt"
    path.write_text(NET.format(steps=STEPS, streams=STREAMS, kind="LSTM"))
    return Net(load_net(path), "TRAIN", ops=get_backend("numpy"))


def passed(states: StreamStates, net: Net | MicroBatches, first: int, low: int, high: int) -> None:
    """A pass over the streams [low, high) that leaves states which tell stream and place."""
    states.begin(first, STREAMS, (low, high), lambda: net.begin(0, (low, high)))
    left = np.arange(low, high, dtype=np.float32)[:, None] + first + STREAMS
    net.set_states({f"lstm.{n}": np.repeat(left, 7, axis=1) for n in (0, 1)})


def streams_in(net: Net | MicroBatches) -> list[float]:
    """The first number of each stream's state; [] if the pass starts from zeros."""
    return [float(row[0]) for row in net.states().get("lstm.0", [])]


def begun(states: StreamStates, net: Net | MicroBatches, first: int, low: int, high: int):
    states.begin(first, STREAMS, (low, high), lambda: net.begin(0, (low, high)))
    return streams_in(net)


def test_states_count_for_the_batch_that_follows_only(tmp_path: Path) -> None:
    net = net_of(tmp_path)
    states = StreamStates(net)
    passed(states, net, 0, 0, 4)
    assert begun(states, net, 8, 0, 4) == [8, 9, 10, 11]
    passed(states, net, 8, 0, 4)
    assert begun(states, net, 32, 0, 4) == []


def test_streams_that_stay_with_a_worker_keep_their_states_when_its_share_changes(
    tmp_path: Path,
) -> None:
    net = net_of(tmp_path)
    states = StreamStates(net)
    passed(states, net, 0, 2, 6)
    assert begun(states, net, 8, 3, 8) == [11, 12, 13, 0, 0]


def test_micro_batches_keep_the_states_of_all_their_streams(tmp_path: Path) -> None:
    net = MicroBatches(lambda: net_of(tmp_path), 4)
    states = StreamStates(net)
    passed(states, net, 0, 2, 6)
    assert begun(states, net, 8, 0, 4) == [0, 0, 10, 11]


def test_states_of_other_workers_are_used_at_their_place(tmp_path: Path) -> None:
    net = net_of(tmp_path)
    states = StreamStates(net)
    whole = np.repeat(np.arange(8, dtype=np.float32)[:, None], 7, axis=1)
    states.give({NAME: whole, "lstm.1.beside.streams.at-16": whole, "lstm.0": whole})
    saved, slices = states.saved()
    assert set(saved) == {NAME, "lstm.1.beside.streams.at-16"}
    assert slices[NAME] == [0, 0, 8, 8]
    assert begun(states, net, 16, 5, 7) == [5, 6]


def test_a_copy_of_the_states_is_put_back(tmp_path: Path) -> None:
    net = net_of(tmp_path)
    states = StreamStates(net)
    passed(states, net, 0, 0, 4)
    kept = states.set_aside()
    passed(states, net, 8, 0, 4)
    for _ in range(2):
        states.take_back(kept)
        assert begun(states, net, 8, 0, 4) == [8, 9, 10, 11]
        passed(states, net, 8, 0, 2)


def test_states_of_a_batch_are_put_together_and_one_with_a_missing_stream_is_left_out(
    tmp_path: Path,
) -> None:
    rows = StreamRows()
    for low, high in ((0, 4), (4, 8)):
        net = net_of(tmp_path)
        states = StreamStates(net)
        passed(states, net, 8, low, high)
        arrays, slices = states.saved()
        assert set(arrays) == {NAME, "lstm.1.beside.streams.at-16"}
        for name, array in arrays.items():
            rows.add(name, array, slices[name])
    rows.add("rnn.0.beside.streams.at-24", np.ones((4, 3), np.float32), [0, 0, 4, 8])
    found = rows.arrays()
    assert set(found) == {NAME, "lstm.1.beside.streams.at-16"}
    np.testing.assert_array_equal(found[NAME][:, 0], np.arange(16, 24))
    rows.add(NAME, np.arange(16, 24, dtype=np.float32)[:, None] + np.zeros((8, 7)), [0, 0, 8, 8])
    np.testing.assert_array_equal(rows.arrays()[NAME], found[NAME])


def test_only_names_of_states_have_a_place() -> None:
    assert place_of(NAME) == 16
    names = ("lstm.0", "ip.0.beside.0.conv-0-0", "lstm.0.beside.streams.at-x")
    assert [place_of(name) for name in names] == [None, None, None]
