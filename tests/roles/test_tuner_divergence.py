"""The tuner's reports and requests where every probe diverges."""

from __future__ import annotations

from pathlib import Path

from roles.tuning.choices import Choices
from tests.roles.tuned_run import MOMENTA, choices_of, told, tuned


def test_a_setting_that_is_known_to_diverge_is_not_followed_by_a_search_at_once(
    tmp_path: Path,
) -> None:
    choices = Choices(groups=(1, 2, 4), momenta=MOMENTA, last=20_000, probe_iterations=10)
    journal = tuned(tmp_path, choices, base_lr=1e6)
    assert len(choices_of(journal)) == len(journal.of("released")) == 1
    assert not any(line.startswith("the next search") for line in told(journal))
    assert "no further search: all settings that are left diverged" in told(journal)


def test_seconds_that_no_probe_showed_are_not_reported_as_no_time(tmp_path: Path) -> None:
    choices = Choices(groups=(1, 2, 4), momenta=MOMENTA, rates=(0.1, 1.0), last=120)
    journal = tuned(tmp_path, choices, base_lr=1e6)
    first = choices_of(journal)[0]
    assert first["groups"] not in {fields["groups"] for fields in journal.of("probe")}
    line = "no further search: no probe showed how long an iteration of 1 group takes"
    assert line in told(journal)
