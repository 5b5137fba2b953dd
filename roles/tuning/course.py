"""The way on after a search: the choice, and other choices where training diverges with it.
Decisions only, no messages."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

from roles.tuning.choices import Choices, Chosen, Setting
from roles.tuning.search import instead
from roles.tuning.trials import Trials

# Turns of each group with a careful setting before the setting that diverged is tried once more. A
# net that has hardly learnt bears the least: LeNet with 8 groups diverged at the whole gain in the
# first 36 iterations with some seeds, and bears it with all of them later. At an eighth of the gain
# it had not reached in 5 000 iterations what the whole gain reaches in 1 500.
WARM_UP = 25
PAYS = 4  # times as many iterations as those of the warm-up must be left
# times that training goes back to the model of one search; a run that still diverges then would
# diverge with any setting
FALLS = 5


@dataclass
class Course:
    """The way on after a search in a run that had the setting `now` and ends at iteration `last`.

    `chosen`: the choice that training goes on with. `at`: the iteration of the kept model. `falls`:
    how often training has diverged. `later`: the setting that diverged and is tried once more after
    a warm-up with the choice; None: there is no warm-up.
    """

    trials: Trials
    now: Setting
    chosen: Chosen
    at: int
    last: int
    falls: int = 0
    later: Setting | None = None

    @property
    def left(self) -> int:
        """The number of iterations to go from the kept model."""
        return self.last - self.at

    @property
    def warm_up(self) -> int:
        """The number of iterations of a warm-up with the choice."""
        return WARM_UP * self.chosen.setting.groups

    def fell(self, choices: Choices, was: Setting, iterations: int) -> Iterator[str]:
        """Choose another setting after training diverged with the setting `was`. Yields lines to
        report."""
        chosen = self.chosen
        if was != chosen.setting:
            yield _changed(chosen.setting, was)
            chosen = dataclasses.replace(chosen, setting=was)
        yield (
            f"training diverged within {iterations} iterations with {was}: "
            f"it goes back to iteration {self.at}"
        )
        self.falls += 1
        self.trials.fell(was)
        other = instead(self.trials, choices, self.now, chosen)
        careful = choices.possible(other.setting, was)
        self.chosen = dataclasses.replace(other, setting=careful)
        warms_up = (
            self.falls == 1
            and other.by_theory
            and careful.groups == was.groups
            and careful.step < was.step
            and not self.trials.diverges(careful)
            and self.left > PAYS * self.warm_up
        )
        self.later = was if warms_up else None

    def warmed_up(self, was: Setting, iteration: int) -> Iterator[str]:
        """Choose the setting that diverged before the warm-up, unless a request changed the choice
        to `was` meanwhile. The kept model is that of `iteration`. Yields lines to report."""
        self.at = iteration
        later = self.later
        self.later = None
        if later is None or was != self.chosen.setting:
            yield _changed(self.chosen.setting, was)
            self.chosen = dataclasses.replace(self.chosen, setting=was)
            return
        self.trials.forgive(later)
        why = f"{later} once more: it diverged in a net that had hardly learnt"
        self.chosen = dataclasses.replace(self.chosen, setting=later, why=why)


def _changed(setting: Setting, was: Setting) -> str:
    return f"a request changed {setting} to {was} while it was watched"
