"""The workers of each group, and the next pass of each worker. Decisions only, no messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from roles.coordination.sample_ledger import Pass
from roles.messages import TRAIN, Ticket

Cut = tuple[Pass, tuple[int, ...]]  # a pass, and the cuts of its batch among the members


class _Group:
    def __init__(self, members: Sequence[str]) -> None:
        self.members = tuple(members)
        # member -> number of open passes that it has not begun yet
        self.behind = dict.fromkeys(self.members, 0)
        # passes that some member has not begun yet, each with its `after`
        self.open: list[tuple[Cut, int]] = []
        self.after = -1  # the last training iteration handed out

    def begin(self, found: Cut | None) -> bool:
        """Open the next pass. Returns False if there is none."""
        if found is None:
            return False
        self.open.append((found, self.after))
        self.behind = {name: count + 1 for name, count in self.behind.items()}
        pass_ = found[0]
        if pass_.phase == TRAIN:
            self.after = pass_.number + pass_.passes - 1
        return True

    def begun(self, member: str) -> None:
        """Note that a member begins its next pass. Passes that all members have begun are
        forgotten."""
        self.behind[member] -= 1
        del self.open[: len(self.open) - max(self.behind.values())]


class Grouping:
    """The workers in groups. Every member of a group gets the same passes in the same order."""

    def __init__(self, groups: Sequence[Sequence[str]]) -> None:
        self._groups = [_Group(members) for members in groups]
        self._group_of = {
            name: index for index, group in enumerate(self._groups) for name in group.members
        }

    def __repr__(self) -> str:
        return f"<{len(self._group_of)} workers in {len(self._groups)} groups>"

    @property
    def groups(self) -> list[tuple[str, ...]]:
        """The workers of each group, by rank."""
        return [group.members for group in self._groups]

    def next_of(self, worker: str, decide: Callable[[Sequence[str]], Cut | None]) -> Ticket | None:
        """The worker's next ticket: for the first pass of its group that it has not begun, or for a
        new pass if `decide` returns one.

        None if there is nothing to do yet, or if the worker is in no group. A pass with fewer rows
        than members goes to the first members only.
        """
        if worker not in self._group_of:
            return None
        index = self._group_of[worker]
        group = self._groups[index]
        rank = group.members.index(worker)
        while True:
            at = len(group.open) - group.behind[worker]
            if at == len(group.open) and not group.begin(decide(group.members)):
                return None
            (pass_, cuts), after = group.open[at]
            group.begun(worker)
            if rank < len(cuts) - 1:
                return Ticket(
                    phase=pass_.phase,
                    number=pass_.number,
                    group=index,
                    rank=rank,
                    cuts=cuts,
                    after=after,
                    count=pass_.passes,
                    first=pass_.first,
                    probed=pass_.probed,
                )
