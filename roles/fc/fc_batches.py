"""The FC batches of a pass and their rows, by the schemes of One weird trick, section 4.

    a   one batch of all members' rows
    b   a batch for each member, of its rows: done and answered one after the other
    c   as many batches, each of the same share of every member's rows, so that all send at the same
        time
    cN  a hybrid of b and c: one team of N members after the other, each with the batches that c
        makes of its rows. The last team may be smaller.

Workers and FC shards derive the same batches from a ticket's cuts. In a reproducible run a share
consists of whole micro-batches, so a member of few micro-batches has a part in few FC batches.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from roles.learning.batch_split import micro_cuts

Span = tuple[int, int]  # rows [low, high) of the whole batch
# rank and rows of each member that is part of an FC batch, in the order of ranks
Members = list[tuple[int, Span]]


def team_of(scheme: str, members: int) -> int:
    """The number of members whose rows are together in an FC batch."""
    if scheme == "b":
        return 1
    return min(int(scheme[1:]), members) if scheme[1:] else members


def fc_batches(scheme: str, cuts: Sequence[int], micro_batches: int = 0) -> list[Members]:
    """The FC batches of a pass with these cuts, in their order. Every row is in one batch, and no
    batch is empty. With `micro_batches`, the batch is divided between two of these only."""
    spans = list(enumerate(itertools.pairwise(cuts)))
    if scheme == "a":
        return [spans]
    rows = cuts[-1]
    edges = sorted({*micro_cuts(rows, micro_batches)}) if micro_batches else range(rows + 1)
    size = team_of(scheme, len(spans))
    found: list[Members] = []
    for first in range(0, len(spans), size):
        team = spans[first : first + size]
        inside = [
            (rank, [edge for edge in edges if low <= edge <= high]) for rank, (low, high) in team
        ]
        for part in range(len(team)):
            shares = [(rank, _share(of, part, len(team))) for rank, of in inside]
            found.append([(rank, share) for rank, share in shares if _size(share)])
    return [members for members in found if members]


def late_answers(batches: Sequence[Members]) -> set[tuple[int, int]]:
    """(FC batch, rank) of the answers that leave after the last FC batch of the pass if shards and
    workers share devices.

    With its last answer a worker goes backward, and all shards would wait for its device. Answers
    to a part of the members would keep the links to these members busy, and all shards would wait
    for the columns behind them.
    """
    ends = {rank: part for part, members in enumerate(batches) for rank, _ in members}
    return {
        (part, rank)
        for part, members in enumerate(batches)
        for rank, _ in members
        if part < len(batches) - 1 and (part == ends[rank] or len(members) < len(ends))
    }


def rows_in(members: Members) -> int:
    """The rows of an FC batch."""
    return sum(_size(span) for _, span in members)


def _share(edges: Sequence[int], part: int, parts: int) -> Span:
    """One of so many parts of the rows that may be cut at these edges."""
    most = len(edges) - 1
    return edges[most * part // parts], edges[most * (part + 1) // parts]


def _size(span: Span) -> int:
    return span[1] - span[0]
