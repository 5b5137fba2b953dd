"""The passes that each member gets: all members of a group get the same passes in the same order,
whatever the order of their requests."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from roles.coordination.grouping import Grouping
from roles.coordination.sample_ledger import Pass
from roles.messages import TEST, TRAIN, Ticket

GROUPS = [["a", "b", "c"], ["d"], ["e", "f"]]
WORKERS = [name for group in GROUPS for name in group]


class Deciding:
    """A source of training passes in which every third pass is a test."""

    def __init__(self) -> None:
        self.made = 0

    def __call__(self, members: Sequence[str]) -> tuple[Pass, tuple[int, ...]]:
        self.made += 1
        return Pass(TEST if self.made % 3 == 0 else TRAIN, self.made, 60), tuple(
            range(0, 61, 60 // len(members))
        )


@given(st.lists(st.sampled_from(WORKERS), max_size=80))
def test_every_member_gets_its_groups_passes_in_order_and_no_two_groups_share_one(
    asking: list[str],
) -> None:
    grouping = Grouping(GROUPS)
    decide = Deciding()
    got: dict[str, list[Ticket]] = {name: [] for name in WORKERS}
    for name in asking:
        ticket = grouping.next_of(name, decide)
        assert ticket is not None
        got[name].append(ticket)
    seen: set[int] = set()
    for index, members in enumerate(GROUPS):
        longest = max((got[name] for name in members), key=len)
        numbers = [ticket.number for ticket in longest]
        assert numbers == sorted(numbers)
        assert not seen & set(numbers)
        seen |= set(numbers)
        for rank, name in enumerate(members):
            assert [ticket.number for ticket in got[name]] == numbers[: len(got[name])]
            assert all(
                (ticket.group, ticket.rank, ticket.members) == (index, rank, len(members))
                for ticket in got[name]
            )
    assert len(seen) == decide.made


def test_a_ticket_names_the_groups_training_iteration_before_it() -> None:
    grouping = Grouping([["a"], ["b"]])
    decide = Deciding()
    order = [grouping.next_of(name, decide) for name in "aabba"]
    assert [(t.phase, t.number, t.after) for t in order if t is not None] == [
        (TRAIN, 1, -1), (TRAIN, 2, 1), (TEST, 3, -1), (TRAIN, 4, -1), (TRAIN, 5, 2),
    ]  # fmt: skip


def test_several_iterations_of_one_ticket_equal_single_requests() -> None:
    passes = iter(
        [Pass(TRAIN, 1, 60), Pass(TRAIN, 2, 60, passes=3), Pass(TEST, 0, 60), Pass(TRAIN, 5, 60)]
    )
    grouping = Grouping([["a"]])
    order = [grouping.next_of("a", lambda members: (next(passes), (0, 60))) for _ in range(4)]
    each = [ticket for tickets in order if tickets is not None for ticket in tickets.each()]
    assert [(t.phase, t.number, t.after, t.count, t.mine) for t in each] == [
        (TRAIN, 1, -1, 1, (0, 60)),
        (TRAIN, 2, 1, 1, (0, 60)),
        (TRAIN, 3, 2, 1, (0, 60)),
        (TRAIN, 4, 3, 1, (0, 60)),
        (TEST, 0, 4, 1, (0, 60)),
        (TRAIN, 5, 4, 1, (0, 60)),
    ]


def test_nothing_is_handed_out_while_nothing_is_decided() -> None:
    grouping = Grouping(GROUPS)
    assert grouping.next_of("a", lambda members: None) is None
    ticket = grouping.next_of("a", Deciding())
    assert ticket is not None
    assert ticket.number == 1


def test_a_stranger_gets_no_ticket() -> None:
    assert Grouping(GROUPS).next_of("x", Deciding()) is None


def test_a_pass_of_fewer_rows_than_members_is_for_the_first_of_them_only() -> None:
    grouping = Grouping([["a", "b", "c"]])
    passes = iter([(Pass(TEST, 0, 2), (0, 1, 2)), (Pass(TRAIN, 5, 60), (0, 20, 40, 60))])
    tickets = {name: grouping.next_of(name, lambda members: next(passes)) for name in "cab"}
    assert {name: (t.phase, t.members) for name, t in tickets.items() if t is not None} == {
        "c": (TRAIN, 3), "a": (TEST, 2), "b": (TEST, 2),
    }  # fmt: skip
    later = grouping.next_of("a", lambda members: None)
    assert later is not None
    assert later.number == 5
