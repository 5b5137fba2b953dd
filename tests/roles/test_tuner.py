"""The tuner with a stand-in for the coordinator, on virtual time: its requests, its messages, its
records, and its end."""

from __future__ import annotations

import dataclasses
import itertools
import json
from pathlib import Path

import pytest

from roles.tuning.choices import Choices, Setting
from roles.tuning.noise import gain
from roles.tuning.record import FILE, Start, read
from runtime import ConfigError
from tests.roles.tuned_run import (
    BATCH,
    MOMENTA,
    choices_of,
    everything,
    told,
    tuned,
)


def test_it_searches_again_after_each_epoch_within_its_budget_and_every_choice_has_its_reason(
    tmp_path: Path,
) -> None:
    choices = everything(6000)
    journal = tuned(tmp_path, choices)
    made = choices_of(journal)
    assert len(made) >= 2
    assert all(choice["why"] for choice in made)
    released = [Setting(**fields) for fields in journal.of("released")]
    assert released == [
        Setting(each["groups"], each["momentum"], each["base_lr"], BATCH) for each in made
    ]
    assert sum(choice["seconds"] for choice in made) <= 0.1 * 6000 * 1.0
    for choice, later in itertools.pairwise(made):
        epoch = choices.epoch(choices.length(6000 - choice["iteration"]))
        assert later["iteration"] - choice["iteration"] == pytest.approx(epoch, rel=0.01)
    assert told(journal)[-1].startswith("no further search: ")
    assert journal.of("finished") == [{"iterations": 6000}]


@pytest.mark.parametrize("batches", [(), (64, 128)])
def test_a_run_too_short_for_grids_searches_once_unless_the_batch_is_to_be_chosen(
    tmp_path: Path, batches: tuple[int, ...]
) -> None:
    choices = everything(1500, batches=batches)
    assert choices.is_short(choices.last)
    journal = tuned(tmp_path, choices)
    once = any(
        why.startswith("no further search: a run that is too short for grids")
        for why in told(journal)
    )
    assert once == (not batches)
    assert journal.of("finished") == [{"iterations": 1500}]


def test_the_reported_seconds_are_all_seconds_in_which_the_run_was_held(tmp_path: Path) -> None:
    journal = tuned(tmp_path, everything(400))
    (made,) = choices_of(journal)
    probes = sum(fields["seconds"] + 0.1 for fields in journal.of("probe"))
    assert made["seconds"] == pytest.approx(0.25 + probes)


def test_its_record_has_every_probe_and_another_run_starts_from_it(tmp_path: Path) -> None:
    first = tmp_path / "first"
    second = tmp_path / "second"
    first.mkdir()
    second.mkdir()
    journal = tuned(first, everything(6000))
    record = json.loads((first / FILE).read_text())
    made = choices_of(journal)
    assert [search["iteration"] for search in record["searches"]] == [
        choice["iteration"] for choice in made
    ]
    assert [search["why"] for search in record["searches"]] == [choice["why"] for choice in made]
    probes = [probe for search in record["searches"] for probe in search["probes"]]
    names = ("groups", "momentum", "base_lr", "iterations", "seconds")
    shown = [tuple(fields[name] for name in names) for fields in journal.of("probe")]
    assert [tuple(probe[name] for name in names) for probe in probes] == shown
    assert record["choice"] == record["searches"][-1]["choice"]
    measured = {"1": 1.0, "2": 0.6, "4": 0.5}
    assert record["iteration_seconds"] == pytest.approx(
        {groups: measured[groups] for groups in record["iteration_seconds"]}
    )
    assert not [path for path in first.iterdir() if path.name != FILE]

    start = read(first / FILE)
    journal = tuned(second, everything(6000), start)
    taken = Setting(**record["choice"])
    assert Setting(**journal.of("released")[0]) == taken
    assert choices_of(journal)[0]["why"] == f"the choice of {FILE}"
    assert len(choices_of(journal)) > 1  # and it continues to search


def test_only_settings_to_be_chosen_are_taken_from_another_runs_record(tmp_path: Path) -> None:
    start = Start(Setting(4, 0.3, 0.05), 4, 4, FILE)
    journal = tuned(tmp_path, Choices(momenta=MOMENTA, last=6000), start)
    assert Setting(**journal.of("released")[0]) == Setting(1, 0.3, 0.1, BATCH)
    assert len(choices_of(journal)) > 1
    assert {fields["groups"] for fields in journal.of("probe")} == {1}  # in later searches too


def test_a_start_that_diverges_here_is_reported_and_the_search_restarts(tmp_path: Path) -> None:
    journal = tuned(tmp_path, everything(6000), Start(Setting(4, 0.9, 100.0), 4, 4, FILE))
    assert told(journal)[0].startswith("the setting of tuning.json, ")
    assert told(journal)[0].endswith(", diverges here: the cold start follows")
    assert journal.of("released")[0]["base_lr"] < 100


@pytest.mark.parametrize("patience", [0, 1, 5])
def test_a_run_that_winds_down_during_a_probe_is_released_unchanged(
    tmp_path: Path, patience: int
) -> None:
    journal = tuned(tmp_path, everything(6000), patience=patience)
    assert len(journal.of("probe")) == patience
    assert [Setting(**fields) for fields in journal.of("released")] == [Setting(1, 0.9, 0.1, BATCH)]
    assert told(journal)[-1].startswith("no further search: coordinator refused Probe")
    assert journal.of("finished") == [{"iterations": 6000}]
    assert not (tmp_path / FILE).exists()


@pytest.mark.parametrize("cut", [2, 4])
def test_a_probe_that_the_end_of_the_run_cuts_is_the_last_request(tmp_path: Path, cut: int) -> None:
    journal = tuned(tmp_path, everything(6000), cut=cut)
    assert len(journal.of("probe")) == cut - 1
    assert told(journal)[-1] == "no further search: the run ends"
    assert journal.of("released") == []
    assert journal.of("finished") == [{"iterations": 6000}]


def test_the_batch_is_chosen_as_soon_as_the_noise_of_gradients_is_known(tmp_path: Path) -> None:
    choices = Choices(batches=(16, 32, 64), last=2000)
    journal = tuned(tmp_path, choices, noise=1000.0, slower=1.2, base_lr=0.01)
    first, second, *_ = choices_of(journal)
    assert (first["batch"], second["batch"], second["groups"], second["momentum"]) == (
        16,
        64,
        1,
        0.9,
    )
    assert second["base_lr"] == pytest.approx(0.01 * gain(1000.0, 64, 16), rel=1e-5)
    assert "the noise of gradients is not known well enough, so the batch stays 16" in told(journal)
    assert "64 is worth 3.82 of its iterations and takes 1.44 times as long" in second["why"]
    assert Setting(**journal.of("released")[1]) == Setting(1, 0.9, second["base_lr"], 64)
    assert {fields["batch"] for fields in journal.of("probe")} == {16, 32, 64}
    record = json.loads((tmp_path / FILE).read_text())
    assert record["searches"][1]["choice"]["batch"] == 64
    assert {probe["batch"] for probe in record["searches"][1]["probes"]} == {16, 32, 64}
    assert record["iteration_seconds"]["1"] == pytest.approx(1.44)


def test_a_run_that_starts_from_a_record_with_a_larger_batch_takes_it_with_its_rate(
    tmp_path: Path,
) -> None:
    start = Start(Setting(4, 0.3, 0.05, 32), 4, 4, FILE)
    journal = tuned(tmp_path, Choices(batches=(16, 32), last=1000), start)
    assert Setting(**journal.of("released")[0]) == Setting(1, 0.9, 0.05, 32)
    older = dataclasses.replace(start, setting=Setting(4, 0.3, 0.05))
    journal = tuned(tmp_path, Choices(batches=(16, 32), last=1000), older)
    assert Setting(**journal.of("released")[0]) == Setting(1, 0.9, 0.1, BATCH)


@pytest.mark.parametrize(("noise", "worth"), [(1000.0, True), (20.0, False)])
def test_if_no_batch_is_chosen_the_journal_reports_when_twice_the_batch_would_pay(
    tmp_path: Path, noise: float, worth: bool
) -> None:
    journal = tuned(tmp_path, Choices(momenta=MOMENTA, last=10_000), noise=noise)
    line = (
        "the noise scale is 1e+03 images: an iteration with twice the batch, 32, is worth "
        "1.97 of the present ones"
    )
    assert any(why.startswith(line) for why in told(journal)) == worth
    assert not any("batch" in choice for choice in choices_of(journal))


def test_a_disk_that_takes_no_record_ends_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / FILE).mkdir()
    journal = tuned(tmp_path, everything(400))
    assert journal.of("finished") == [{"iterations": 400}]
    assert "tuning.json: cannot be written: " in caplog.text


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "expected the record of a run with a tuner"),
        ("[]", "expected the record of a run with a tuner"),
        ('{"choice": {"groups": 1}}', "expected a tuning.json that a run with a tuner wrote"),
        (
            (
                '{"choice": {"groups": 0, "momentum": 0, "base_lr": 1}, "saturated_groups": 0, '
                '"next_groups": 1}'
            ),
            "at least",
        ),
        (
            (
                '{"choice": {"groups": 1, "momentum": 1, "base_lr": 1}, "saturated_groups": 0, '
                '"next_groups": 1}'
            ),
            "< 1",
        ),
        (
            (
                '{"choice": {"groups": 1, "momentum": 0, "base_lr": NaN}, "saturated_groups": 0, '
                '"next_groups": 1}'
            ),
            "> 0",
        ),
        (
            (
                '{"choice": {"groups": 1e999, "momentum": 0, "base_lr": 1}, "saturated_groups": 0, '
                '"next_groups": 1}'
            ),
            "run",
        ),
        (None, "found no such file"),
    ],
)
def test_a_file_that_is_not_a_record_is_refused_in_words(
    tmp_path: Path, text: str | None, why: str
) -> None:
    if text is not None:
        (tmp_path / FILE).write_text(text)
    with pytest.raises(ConfigError, match=why):
        read(tmp_path / FILE)
