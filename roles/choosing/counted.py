"""The number of groups with which a candidate is compared with others: the fewest that are as fast
as any."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from roles.choosing.iteration_worth import Theory
from roles.choosing.preset_candidates import Candidate
from roles.choosing.speeds import Speed
from roles.forecasting.prediction_error import spoken
from roles.tuning.short import AS_FAST


@dataclass(frozen=True)
class Counted:
    """A candidate and its predicted speeds by groups. It is compared with `groups` groups."""

    candidate: Candidate
    groups: int
    speeds: Mapping[int, Speed]

    @property
    def speed(self) -> Speed:
        """The predicted speed with the number of groups that counts."""
        return self.speeds[self.groups]

    @property
    def seconds(self) -> float:
        """Predicted seconds of an iteration."""
        return self.speed.seconds

    @property
    def by_groups(self) -> str:
        """The predicted seconds of an iteration for each number of groups, in words."""
        return ", ".join(
            f"{groups}: {spoken(each.seconds)}" for groups, each in self.speeds.items()
        )

    def __str__(self) -> str:
        return f"{self.named} {spoken(self.seconds)}"

    @property
    def named(self) -> str:
        """The candidate's name, with the number of groups if it has a choice of them."""
        if not self.candidate.regroups:
            return self.candidate.name
        return f"{self.candidate.name} with {self.groups} group{'s'[: self.groups != 1]}"


def counted(candidate: Candidate, speeds: Mapping[int, Speed], theory: Theory) -> Counted:
    """Count the candidate with the fewest groups whose iteration takes at most 5 % longer than its
    fastest. The optimizer of Omnivore starts there, too (section 5.2).

    Of several groups, only those count whose iteration is worth as much as one of one group.
    """
    worth = {groups: speed for groups, speed in speeds.items() if theory.holds(groups)}
    worth = worth or dict(speeds)
    limit = AS_FAST * min(speed.seconds for speed in worth.values())
    fewest = min(groups for groups, speed in worth.items() if speed.seconds <= limit)
    return Counted(candidate, fewest, speeds)


def in_words(candidates: Sequence[Counted]) -> str:
    """The predicted seconds of an iteration of each candidate."""
    return ", ".join(map(str, candidates))
