"""The tuner in a run whose settings change by themselves or at the request of a script: momentum that
follows the groups, other groups, momentum or rate between two searches."""

from __future__ import annotations

from pathlib import Path

import pytest

from roles.tuning.choices import Setting
from roles.tuning.record import FILE, Start, read
from tests.roles.tuned_run import FOLLOWS, choices_of, everything, told, tuned


@pytest.mark.parametrize("rates", [(), (0.1, 1.0, 10.0)], ids=["groups", "groups and rate"])
def test_a_momentum_that_follows_the_groups_is_shown_as_the_run_has_it_and_never_named(
    tmp_path: Path, rates: tuple[float, ...]
) -> None:
    choices = everything(6000, momenta=(), rates=rates, compensation=FOLLOWS)
    journal = tuned(tmp_path, choices, follows=True)
    probes = journal.of("probe")
    assert {probe["groups"] for probe in probes} >= {1, 2}
    for setting in (*probes, *choices_of(journal), *journal.of("released")):
        assert setting["momentum"] == pytest.approx(FOLLOWS.momentum(setting["groups"]), abs=1e-6)
    assert journal.of("named") == []
    record = read(tmp_path / FILE).setting
    assert record.momentum == pytest.approx(FOLLOWS.momentum(record.groups), abs=1e-6)


def test_a_start_with_other_groups_has_the_momentum_for_them(tmp_path: Path) -> None:
    start = Start(Setting(4, 0.1, 0.1), 4, 4, "tuning.json")
    journal = tuned(
        tmp_path, everything(6000, momenta=(), rates=(), compensation=FOLLOWS), start, follows=True
    )
    first = journal.of("probe")[0]
    assert (first["groups"], first["momentum"]) == (4, pytest.approx(FOLLOWS.momentum(4)))
    assert journal.of("named") == []


@pytest.mark.parametrize("momentum", [0.5, FOLLOWS.momentum(2)], ids=["other", "same"])
def test_a_momentum_that_a_script_named_is_kept_with_other_groups(
    tmp_path: Path, momentum: float
) -> None:
    """Also if it is the momentum that the groups had by themselves: it follows them no more."""
    choices = everything(6000, momenta=(), rates=(), compensation=FOLLOWS, epoch_iterations=100)
    by_hand = {"groups": 2, "momentum": momentum}
    journal = tuned(tmp_path, choices, follows=True, regroups=[by_hand])
    first, *later = choices_of(journal)
    assert later
    assert first["momentum"] == pytest.approx(FOLLOWS.momentum(first["groups"]))
    assert [each["momentum"] for each in later] == [pytest.approx(momentum)] * len(later)
    probes = journal.of("probe")[first["probes"] :]
    assert len({probe["groups"] for probe in probes}) > 1
    assert [probe["momentum"] for probe in probes] == [pytest.approx(momentum)] * len(probes)


@pytest.mark.parametrize("by_hand", [{"groups": 1}, {"momentum": 0.25}, {"base_lr": 0.02}])
def test_a_search_starts_from_the_settings_that_a_script_changed(
    tmp_path: Path, by_hand: dict[str, float]
) -> None:
    journal = tuned(tmp_path, everything(6000), regroups=[by_hand])
    (changed,) = journal.of("regrouped")
    first, second, *_ = choices_of(journal)
    before = Setting(first["groups"], first["momentum"], first["base_lr"])
    now = Setting(changed["groups"], changed["momentum"], changed["base_lr"])
    line = f"a request changed {before} to {now} since the last search; this one starts from it"
    assert line in told(journal)
    probes = journal.of("probe")[first["probes"] :]
    made = [Setting(each["groups"], each["momentum"], each["base_lr"]) for each in probes]
    assert now in made
    assert second["iteration"] > first["iteration"]


@pytest.mark.parametrize("kept", [{"groups": 2}, {"momentum": 0.25}])
def test_training_that_diverges_after_a_script_changed_it_is_that_of_the_changed_settings(
    tmp_path: Path, kept: dict[str, float]
) -> None:
    """A setting that the tuner does not choose stays as the script has set it."""
    choices = everything(3000, groups=(), momenta=())
    journal = tuned(tmp_path, choices, falls=0.02, regroups=[kept])
    (changed,) = journal.of("regrouped")
    first, second, *_ = choices_of(journal)
    at = Setting(changed["groups"], changed["momentum"], changed["base_lr"])
    assert any(f"iterations with {at}: it goes back" in why for why in told(journal))
    assert any(why.endswith(f"to {at} while it was watched") for why in told(journal))
    assert second["why"].startswith(f"{at} diverged")
    name, value = next(iter(kept.items()))
    assert first[name] != value
    assert journal.of("released")[1][name] == second[name] == value
