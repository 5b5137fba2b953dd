"""The number of groups with which a candidate is compared with others: the fewest that are as fast
as any."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from roles.choosing.iteration_worth import Worth
from roles.choosing.preset_candidates import Candidate
from roles.choosing.speeds import Speed
from roles.tuning.hardware import fewest
from runtime.durations import duration


@dataclass(frozen=True)
class Counted:
    """A candidate and its predicted speeds by groups. It is compared with `groups` groups, of which
    `iterations` are worth one iteration of one group."""

    candidate: Candidate
    groups: int
    speeds: Mapping[int, Speed]
    iterations: float = 1.0

    @property
    def speed(self) -> Speed:
        """The predicted speed with the number of groups that counts."""
        return self.speeds[self.groups]

    @property
    def seconds(self) -> float:
        """Predicted seconds of an iteration."""
        return self.speed.seconds

    @property
    def shown_groups(self) -> dict[str, int]:
        """The number of groups as a field of an event, if the candidate has a choice of them."""
        return {"groups": self.groups} if self.candidate.regroups else {}

    @property
    def by_groups(self) -> str:
        """The predicted seconds of an iteration for each number of groups, in words."""
        return ", ".join(
            f"{groups}: {duration(each.seconds)}" for groups, each in self.speeds.items()
        )

    def __str__(self) -> str:
        times = "" if self.iterations == 1 else f" x {self.iterations:.3g}"
        return f"{self.named} {duration(self.seconds)}{times}"

    @property
    def named(self) -> str:
        """The candidate's name, with the number of groups if it has a choice of them."""
        if not self.candidate.regroups:
            return self.candidate.name
        return f"{self.candidate.name} with {self.groups} group{'s'[: self.groups != 1]}"


def counted(candidate: Candidate, speeds: Mapping[int, Speed], worth: Worth) -> Counted:
    """Count the candidate with the fewest groups whose iteration takes at most 5 % longer than its
    fastest. The optimizer of Omnivore starts there, too (section 5.2).

    The time for the work of an iteration of one group is compared. Several groups of which nothing
    is known do not count.
    """
    needed = {groups: worth.needed(candidate, groups) for groups in speeds}
    known = {groups: each for groups, each in needed.items() if each is not None}
    known = known or {min(speeds): 1.0}
    seconds = {groups: each * speeds[groups].seconds for groups, each in known.items()}
    groups = fewest(seconds)
    return Counted(candidate, groups, speeds, known[groups])


def in_words(candidates: Sequence[Counted]) -> str:
    """The predicted seconds of an iteration of each candidate."""
    return ", ".join(map(str, candidates))
