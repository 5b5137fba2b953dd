"""The plain objects behind an FC shard: the rows of an FC batch, the order of turns, and the
joining of parts."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest

from nets import NetError, load_net
from nets.sharding.division import ShardedNet
from ops import get_backend
from roles.checkpoints.state_average import MeanState
from roles.fc.fc_batches import fc_batches, late_answers, rows_in
from roles.fc.queue import FcQueue
from roles.fc.swap import Columns, ColumnSwap, FcTurn
from roles.learning.batch_split import micro_cuts
from roles.learning.checkpoint_slices import cut_state, slices_of_state
from roles.messages import ActivationSlice, State
from runtime import Actor, Envelope, MessageError
from tests.roles.placed import placed

CUTS = [(0, 4), (0, 3, 6), (0, 4, 7, 10), (0, 1, 2, 9, 10), (0, 1, 2, 3, 4, 5)]


@pytest.mark.parametrize("scheme", ["a", "b", "c", "c2", "c3"])
@pytest.mark.parametrize("cuts", CUTS)
def test_every_row_of_a_pass_is_in_one_fc_batch_and_a_member_has_its_own_rows_only(
    scheme: str, cuts: tuple[int, ...]
) -> None:
    batches = fc_batches(scheme, cuts)
    taken = [row for members in batches for _, (low, high) in members for row in range(low, high)]
    assert sorted(taken) == list(range(cuts[-1]))
    for members in batches:
        assert rows_in(members) > 0
        assert [rank for rank, _ in members] == sorted({rank for rank, _ in members})
        assert all(cuts[rank] <= low < high <= cuts[rank + 1] for rank, (low, high) in members)


def test_the_schemes_follow_the_paper() -> None:
    cuts = (0, 4, 8)
    assert fc_batches("a", cuts) == [[(0, (0, 4)), (1, (4, 8))]]
    assert fc_batches("b", cuts) == [[(0, (0, 4))], [(1, (4, 8))]]
    assert fc_batches("c", cuts) == [[(0, (0, 2)), (1, (4, 6))], [(0, (2, 4)), (1, (6, 8))]]


@pytest.mark.parametrize("scheme", ["b", "c", "c2"])
@pytest.mark.parametrize("members", [1, 2, 4, 8])
@pytest.mark.parametrize("rows", [8, 10, 13, 24])
def test_fc_batches_of_a_reproducible_run_consist_of_whole_micro_batches(
    scheme: str, members: int, rows: int
) -> None:
    edges = micro_cuts(rows, 8)
    batches = fc_batches(scheme, edges[:: 8 // members], 8)
    spans = [span for batch in batches for _, span in batch]
    assert sorted(row for span in spans for row in range(*span)) == list(range(rows))
    assert {edge for span in spans for edge in span} <= set(edges)


def test_teams_of_two_take_turns_with_batches_of_half_of_their_rows() -> None:
    cuts = (0, 2, 4, 6, 8)
    assert fc_batches("c2", cuts) == [
        [(0, (0, 1)), (1, (2, 3))],
        [(0, (1, 2)), (1, (3, 4))],
        [(2, (4, 5)), (3, (6, 7))],
        [(2, (5, 6)), (3, (7, 8))],
    ]


@pytest.mark.parametrize("cuts", CUTS)
def test_teams_of_all_members_are_scheme_c_and_an_odd_member_is_a_team_by_itself(
    cuts: tuple[int, ...],
) -> None:
    members = len(cuts) - 1
    assert fc_batches(f"c{max(2, members)}", cuts) == fc_batches("c", cuts)
    if members % 2 and members > 1:
        assert fc_batches("c2", cuts)[-1] == [(members - 1, (cuts[-2], cuts[-1]))]


def test_answers_are_late_unless_a_batch_has_rows_of_all_members_and_is_not_their_last() -> None:
    cuts = (0, 4, 8, 12, 16)
    assert late_answers(fc_batches("a", cuts)) == set()
    assert late_answers(fc_batches("b", cuts)) == {(0, 0), (1, 1), (2, 2)}
    assert late_answers(fc_batches("c", cuts)) == set()
    assert late_answers(fc_batches("c2", cuts)) == {(0, 0), (0, 1), (1, 0), (1, 1), (2, 2), (2, 3)}
    # the first member has no row in the last batch
    assert late_answers([[(0, (0, 1)), (1, (1, 2))], [(1, (2, 3))]]) == {(0, 0)}


def slice_of(
    number: int, rank: int, part: int, rows: int, cuts: tuple[int, ...] = (0, 3, 6)
) -> ActivationSlice:
    blobs = (np.zeros((rows,), np.float32), np.zeros((rows, 5), np.float32))
    return ActivationSlice(
        phase="TRAIN", number=number, counted=number, rank=rank, part=part, cuts=cuts, blobs=blobs
    )


def asked(message: ActivationSlice) -> Envelope:
    return Envelope(message, 1, f"conv-{message.rank}", 1, "fc-0", reply_to=f"conv-{message.rank}")


def test_a_pass_can_have_its_turn_when_its_first_fc_batch_is_complete_and_slices_come_out_by_rank() -> (
    None
):
    queue = FcQueue("a", {"TRAIN": [(), (5,)]}, "fc-0")
    late = slice_of(7, 0, 0, 3)
    early = slice_of(7, 1, 0, 3)
    assert not queue.add(early, asked(early)) and not queue.due
    assert queue.add(late, asked(late)) and not queue.due
    queue.turn("TRAIN", 7)
    assert queue.due
    key, batches = queue.next()
    assert (key, len(batches), queue.complete(key, 0)) == (("TRAIN", 7), 1, True)
    assert [message.rank for message, _ in queue.take(key, 0)] == [0, 1]
    assert repr(queue) == "<0 passes under way, 0 wait for their turn to come>"


def test_turns_are_taken_in_their_order_and_one_may_come_before_the_pass_itself() -> None:
    queue = FcQueue("b", {"TRAIN": [(), (5,)]}, "fc-0")
    second = slice_of(2, 0, 0, 3)
    assert queue.add(second, asked(second))
    queue.turn("TRAIN", 5)
    queue.turn("TRAIN", 2)
    assert not queue.due  # pass 5 is first, and none of its slices has arrived
    first = slice_of(5, 1, 1, 3)
    assert not queue.add(first, asked(first))
    assert queue.due and queue.next()[0] == ("TRAIN", 5)
    assert not queue.complete(("TRAIN", 5), 0) and queue.complete(("TRAIN", 5), 1)
    for number, state in ((2, "has its turn"), (5, "had its turn")):
        with pytest.raises(MessageError, match=rf"illegal: .* is '{state}'"):
            queue.told(FcTurn(phase="TRAIN", number=number), "fc-0")
    with pytest.raises(MessageError, match=r"illegal: .* is 'not theirs to give'"):
        queue.told(FcTurn(phase="TRAIN", number=9), "fc-1")


def test_a_slice_that_arrives_again_after_its_pass_is_done_does_not_restart_the_pass() -> None:
    queue = FcQueue("b", {"TRAIN": [(), (5,)]}, "fc-0")
    slices = [slice_of(3, 0, 0, 3), slice_of(3, 1, 1, 3)]
    begun = [queue.add(message, asked(message)) for message in slices]
    queue.turn("TRAIN", 3)
    key, batches = queue.next()
    taken = [queue.take(key, part) for part in range(len(batches))]
    assert begun == [True, False]
    for state in ("being computed", "answered"):
        for message in slices:
            with pytest.raises(MessageError, match=rf"illegal: .* is '{state}'"):
                queue.add(message, asked(message))
        for part in taken if state == "being computed" else ():
            queue.answered(part)
    later = slice_of(4, 0, 0, 3)
    assert queue.add(later, asked(later))


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (slice_of(1, 0, 0, 3), "is 'here'"),
        (slice_of(1, 1, 0, 3, cuts=(0, 2, 6)), "no such slice"),
        (slice_of(1, 2, 0, 3), "no such slice"),
        (slice_of(1, 1, 3, 3), "no such slice"),
        (slice_of(1, 1, 1, 2), "expected blobs of shapes"),
    ],
)
def test_a_slice_that_fits_nowhere_is_rejected_and_changes_nothing(
    message: ActivationSlice, why: str
) -> None:
    queue = FcQueue("b", {"TRAIN": [(), (5,)]}, "fc-0")
    first = slice_of(1, 0, 0, 3)
    queue.add(first, asked(first))
    with pytest.raises(MessageError, match=why):
        queue.add(message, asked(message))
    fine = slice_of(1, 1, 1, 3)
    assert not queue.add(fine, asked(fine)) and queue.complete(("TRAIN", 1), 1)


def test_slices_of_each_phase_have_the_shapes_of_that_phase() -> None:
    queue = FcQueue("a", {"TRAIN": [(10,), (5,)], "TEST": [(), (5,)]}, "fc-0")
    plain = slice_of(0, 0, 0, 3)
    with pytest.raises(MessageError, match=r"expected blobs of shapes \[\(3, 10\), \(3, 5\)\]"):
        queue.add(plain, asked(plain))
    tested = dataclasses.replace(plain, phase="TEST")
    assert not queue.add(tested, asked(tested))
    unknown = dataclasses.replace(plain, phase="TEST:1")
    with pytest.raises(MessageError, match="expected one of the phases TRAIN, TEST"):
        queue.add(unknown, asked(unknown))


def lenet_shard(rank: int, of: int) -> ShardedNet:
    ops = get_backend("numpy")
    return ShardedNet(
        load_net("lenet"), "TRAIN", rank=rank, of=of, ops=ops, batch=2, input_shape=(1, 28, 28)
    )


def columns(
    width: int, *, link: int = 1, backward: bool = False, dtype: str = "float32", more: int = 0
) -> Columns:
    values = (np.zeros((4, width), dtype),) * (1 + more)
    return Columns(phase="TRAIN", number=1, part=0, link=link, backward=backward, values=values)


@pytest.mark.parametrize(
    ("message", "sender", "why"),
    [
        (columns(3), "stranger", "not another shard's"),
        (columns(3), "a", "not another shard's"),
        (columns(4), "b", "another shape or type"),
        (columns(3, more=1), "b", "another shape or type"),
        (columns(3, dtype="float64"), "b", "another shape or type"),
        # b has 167 columns; the receiver, a, has 166
        (columns(167, backward=True), "b", "another shape or type"),
        (columns(3, link=2), "b", "no columns of that link"),
        (columns(166, link=0, backward=True), "b", "no columns of that link"),
    ],
)
def test_columns_that_are_not_awaited_are_rejected_and_change_nothing(
    message: Columns, sender: str, why: str
) -> None:
    actor = Actor()
    placed(actor, "a")
    swap = ColumnSwap(actor, ["a", "b", "c"], lenet_shard(0, 3))
    with pytest.raises(MessageError, match=why):
        swap.came(message, sender)
    swap.came(columns(3), "b")
    with pytest.raises(MessageError, match="is 'here'"):
        swap.came(columns(3), "b")
    swap.came(columns(166, backward=True), "c")
    assert repr(swap) == "<shard 0 of 3, 2 swaps open>"


def test_parts_of_parameters_and_histories_put_together_are_the_whole_and_cut_again_are_the_parts() -> (
    None
):
    shards = [lenet_shard(rank, 3) for rank in range(3)]
    rng = np.random.default_rng(0)
    whole = {
        f"{layer}.{at}{kind}": rng.standard_normal(param.shape).astype(np.float32)
        for layer, params in shards[0].whole_params.items()
        for (at, param), kind in itertools.product(enumerate(params), ("", ".history", ".history2"))
    }
    assembly = MeanState()
    for shard in (shards[2], shards[0], shards[1]):
        state = cut_state({**whole, "conv1.0": rng.standard_normal(3)}, shard)
        assert state.keys() == whole.keys()
        slices = slices_of_state(state, shard)
        assembly.add(
            State(names=tuple(state), arrays=tuple(state.values()), version=1, slices=slices)
        )
    found = assembly.arrays()
    assert found.keys() == whole.keys()
    assert all(np.array_equal(found[name], array) for name, array in whole.items())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("servers", [2, 3, 5, 7])
def test_the_mean_of_equal_arrays_is_that_array_to_the_last_bit(servers: int, dtype: type) -> None:
    array = np.random.default_rng(0).standard_normal(1000).astype(dtype)
    mean = MeanState()
    for _ in range(servers):
        mean.add(State(names=("ip.0",), arrays=(array,), version=1, slices={}))
    (found,) = mean.arrays().values()
    assert (found.dtype, found.tobytes()) == (array.dtype, array.tobytes())


def test_the_mean_of_different_arrays_is_their_mean() -> None:
    arrays = np.random.default_rng(0).standard_normal((3, 100)).astype(np.float32)
    mean = MeanState()
    for array in arrays:
        mean.add(State(names=("ip.0",), arrays=(array,), version=1, slices={}))
    np.testing.assert_allclose(
        mean.arrays()["ip.0"], arrays.astype(np.float64).mean(0), rtol=1e-6, atol=1e-8
    )


def test_a_checkpoint_with_a_part_missing_is_not_written_and_one_of_another_net_is_not_read() -> (
    None
):
    shard = lenet_shard(0, 2)
    assembly = MeanState()
    half = np.zeros((5, 500), np.float32)
    assembly.add(
        State(names=("ip2.0",), arrays=(half,), version=1, slices={"ip2.0": [0, 0, 5, 10]})
    )
    with pytest.raises(NetError, match=r"'ip2\.0': 5 units of it did not arrive"):
        assembly.arrays()
    with pytest.raises(NetError, match=r"'ip2\.0': found \(5, 500\), expected shape \(10, 500\)"):
        cut_state({"ip2.0": half}, shard)
