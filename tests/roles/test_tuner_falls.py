"""The tuner where training diverges with its choice, on virtual time."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from roles.tuning.choices import Choices, Setting
from roles.tuning.course import WARM_UP
from runtime.simulation.cluster import Journal
from tests.roles.tuned_run import (
    choices_of,
    everything,
    told,
    tuned,
)


def test_if_training_diverges_after_all_the_next_best_less_bold_setting_is_taken(
    tmp_path: Path,
) -> None:
    usual = choices_of(tuned(tmp_path, everything(3000)))[0]
    falls = usual["base_lr"]
    journal = tuned(tmp_path, everything(3000), falls=falls)
    made = choices_of(journal)
    at = usual["iteration"]
    *fell, taken = [each for each in made if each["iteration"] == at]
    assert fell[0] == usual
    assert all(each["base_lr"] >= falls > taken["base_lr"] for each in fell)
    for each, later in itertools.pairwise([*fell, taken]):
        setting = Setting(each["groups"], each["momentum"], each["base_lr"])
        assert (
            f"training diverged within 5 iterations with {setting}: it goes back to iteration {at}"
        ) in told(journal)
        assert later["why"].startswith(f"{setting} diverged; ")
    assert journal.of("finished") == [{"iterations": 3000}]


def bold_then_careful(directory: Path, **coordinator: Any) -> tuple[Journal, Setting, Setting]:
    """A short run whose first choice by theory diverges, and its first two choices."""
    usual = choices_of(tuned(directory, everything(1500)))[0]
    journal = tuned(directory, everything(1500), falls=usual["base_lr"], **coordinator)
    bold, careful, *_ = [Setting(**fields) for fields in journal.of("released")]
    assert bold.base_lr == usual["base_lr"] and careful.step < bold.step
    assert careful.groups == bold.groups > 1
    return journal, bold, careful


def test_a_setting_that_diverges_in_an_untrained_net_is_tried_once_more_after_a_warm_up(
    tmp_path: Path,
) -> None:
    journal, bold, careful = bold_then_careful(tmp_path, bears_from=50)
    assert [Setting(**fields) for fields in journal.of("released")] == [bold, careful, bold]
    first, warming, last = choices_of(journal)
    assert first["iteration"] == warming["iteration"]
    trained = last["iteration"] - warming["iteration"]
    assert WARM_UP * careful.groups <= trained <= WARM_UP * careful.groups + 1
    assert last["why"] == f"{bold} once more: it diverged in a net that had hardly learnt"
    assert journal.of("finished") == [{"iterations": 1500}]


def test_a_setting_that_diverges_after_its_warm_up_too_is_not_tried_a_third_time(
    tmp_path: Path,
) -> None:
    journal, bold, careful = bold_then_careful(tmp_path)
    released = [Setting(**fields) for fields in journal.of("released")]
    assert released == [bold, careful, bold, careful]
    warming, again, after = choices_of(journal)[1:]
    assert warming["iteration"] < again["iteration"] == after["iteration"]
    assert journal.of("finished") == [{"iterations": 1500}]


def test_a_request_during_the_warm_up_stays_in_force(tmp_path: Path) -> None:
    journal, bold, careful = bold_then_careful(tmp_path, regroups=[{}, {"momentum": 0.1}])
    changed = careful.but(momentum=0.1)
    assert [Setting(**fields) for fields in journal.of("released")] == [bold, careful, changed]
    assert f"a request changed {careful} to {changed} while it was watched" in told(journal)


@pytest.mark.parametrize(
    ("rates", "why"),
    [((0.1, 1.0), ", so a tenth of the rate"), ((), "everything that was tried diverges")],
)
def test_if_no_tried_setting_converges_a_lower_rate_is_taken_if_it_may_be_chosen(
    tmp_path: Path, rates: tuple[float, ...], why: str
) -> None:
    journal = tuned(
        tmp_path, Choices(groups=(1, 2), rates=rates, last=2000), falls=0.002, base_lr=0.1
    )
    made = choices_of(journal)
    assert made[-1]["why"].endswith(why)
    assert (made[-1]["base_lr"] < 0.002) == bool(rates)
    assert len(journal.of("released")) == len(made) <= 6
    assert sum(why.startswith("no further search") for why in told(journal)) == 1
    assert journal.of("finished") == [{"iterations": 2000}]
