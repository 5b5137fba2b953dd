"""The tuner with a stand-in for the coordinator, on virtual time: its requests, its messages, its
records, and its end."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from roles.messages import Held, Hold, Probe, Probed, Release, Released
from roles.tuning.choices import Choices, Setting
from roles.tuning.compensation import Compensation
from roles.tuning.gradient_statistics import GetGradientStatistics, GradientStatistics
from roles.tuning.noise import gain
from roles.tuning.record import FILE, Start, read
from roles.tuning.tuner import WARM_UP, Tuner, TunerOptions
from runtime import Actor, ActorSpec, ConfigError, Envelope, MessageError, Topology
from runtime.plan.topology import Placement, ProcessSpec
from runtime.simulation.clock import run_virtual
from runtime.simulation.cluster import Journal, simulate
from tests.roles.laboratories import Quadratic

SECONDS = {1: 1.0, 2: 0.6, 4: 0.5}
BATCH = 16
MOMENTA = (0.0, 0.3, 0.6, 0.9)
FOLLOWS = Compensation(0.9, "omnivore")


class Coordinator(Actor):
    """A coordinator that trains a quadratic: `last` iterations, one after the other, while the run
    is not held. It refuses probes after `patience` of them, like a coordinator whose run winds
    down. It cuts the probe with the number `cut` and lets the run go on, like a coordinator whose
    run winds down during a probe. After that it accepts no requests. Twice the batch takes `slower`
    times as long. After a release, rates from `falls` on diverge within 5 iterations, if the release
    comes before iteration `bears_from`. With
    `follows`, momentum follows the number of groups, and a request that names one is reported. Three
    iterations after each release a script changes the settings, as the next of `regroups` says."""

    def __init__(
        self,
        *,
        last: int,
        base_lr: float = 0.1,
        patience: int = 1000,
        cut: int = 0,
        slower: float = 1.0,
        falls: float = math.inf,
        bears_from: float = math.inf,
        follows: bool = False,
        regroups: Sequence[Mapping[str, float]] = (),
    ) -> None:
        self._regroups = list(regroups)
        self._since = 0
        self._falls = falls
        self._bears_from = bears_from
        self._follows = follows
        self._slower = slower
        self._last = last
        self._patience = patience
        self._cut = cut
        self._lab = Quadratic(SECONDS)
        self._now = Setting(1, 0.9, base_lr, BATCH)
        self._held: asyncio.Event | None = None
        self._ended = asyncio.Event()  # the end of an iteration
        self.released = asyncio.Event()
        self.released.set()

    async def run(self) -> None:
        while self._lab.iteration < self._last:
            await self.released.wait()
            await asyncio.sleep(SECONDS[self._now.groups] * self._times(self._now))
            if self.released.is_set():
                self._lab.train(self._now, 1)
                self._ended.set()
        self.emit("finished", iterations=self._lab.iteration)

    async def on_hold(self, message: Hold, envelope: Envelope) -> None:
        self.released.clear()
        await asyncio.sleep(0.25)  # wait for the iteration in progress
        now = self._now
        held = Held(
            iteration=self._lab.iteration,
            workers=4,
            groups=now.groups,
            base_lr=now.base_lr,
            momentum=now.momentum,
            batch=now.batch,
            since=self._since,
            follows=self._follows,
        )
        await self.reply(envelope, held)

    async def on_probe(self, message: Probe, envelope: Envelope) -> None:
        self._patience -= 1
        if self._patience < 0:
            raise MessageError("bad_value", "the run ends")
        wanted = self._wanted(message)
        seconds = message.seconds / self._times(wanted)
        trial = await self._lab.probe(wanted, message.iterations, seconds, kept=message.kept)
        seconds = trial.seconds * self._times(wanted)
        # a probe is cut at the first iteration that ends after the limit
        was_cut = len(trial.losses) < message.iterations and not trial.diverged
        trial = dataclasses.replace(
            trial, seconds=max(seconds, message.seconds) if was_cut else seconds
        )
        await asyncio.sleep(trial.seconds + 0.1)  # and put the model back
        self._cut -= 1
        if self._cut == 0:
            self.released.set()
            await self.reply(
                envelope,
                Probed(losses=trial.losses[:4], seconds=trial.seconds * 4 / len(trial.losses)),
            )
            return
        await self.reply(
            envelope,
            Probed(
                losses=trial.losses, seconds=trial.seconds, diverged=trial.diverged, kept=trial.kept
            ),
        )

    async def on_release(self, message: Release, envelope: Envelope) -> None:
        self._now = self._wanted(message)
        if message.groups or message.batch:
            self._since = self._lab.iteration
        self.emit("released", **vars(self._now))
        self.released.set()
        begin = self._lab.iteration
        kept = self._lab.now
        is_bold = self._now.base_lr >= self._falls and begin < self._bears_from
        fell = bool(message.watched) and is_bold
        until = min(begin + (5 if fell else message.watched), self._last)
        while self._lab.iteration < until:
            self._ended.clear()
            await self._ended.wait()
            if self._regroups and self._lab.iteration - begin == 3:
                self._regroup(**self._regroups.pop(0))
        gone = self._lab.iteration - begin
        if fell:
            self.released.clear()
            self._lab.now = kept
            self._lab.iteration = begin
        now = self._now
        settings = {"groups": now.groups, "momentum": now.momentum, "base_lr": now.base_lr}
        released = Released(
            workers=4,
            batch=now.batch,
            follows=self._follows,
            iterations=gone,
            diverged=fell,
            **settings,
        )
        await self.reply(envelope, released)

    def _regroup(self, **values: float) -> None:
        """Change the settings, as at the request of a script."""
        self._follows = self._follows and "momentum" not in values
        self._now = self._now.but(**values)
        self._since = self._lab.iteration
        self.emit("regrouped", **vars(self._now))

    def _wanted(self, wish: Probe | Release) -> Setting:
        now = self._now
        groups = wish.groups or now.groups
        if self._follows and wish.momentum >= 0:
            self.emit("named", momentum=wish.momentum)
        before = FOLLOWS.momentum(groups) if self._follows else now.momentum
        return Setting(
            groups,
            before if wish.momentum < 0 else wish.momentum,
            now.base_lr if wish.base_lr < 0 else wish.base_lr,
            wish.batch or now.batch,
        )

    def _times(self, setting: Setting) -> float:
        """The time of an iteration relative to the first batch."""
        return self._slower ** math.log2(setting.batch / BATCH)


class Model(Actor):
    """A model server that reports the noise of its gradients, from the second request on."""

    def __init__(self, *, noise: float) -> None:
        self._noise = noise
        self._asked = 0

    async def on_get_gradient_statistics(
        self, message: GetGradientStatistics, envelope: Envelope
    ) -> None:
        self._asked += 1
        noise = self._noise if self._asked > 1 else math.nan
        unknown = dict.fromkeys(
            ("momentum", "groups", "staleness", "gradients", "gradients_error"), math.nan
        )
        await self.reply(
            envelope,
            GradientStatistics(
                iteration=0, updates=0, noise=noise, noise_error=noise / 10, **unknown
            ),
        )


def tuned(
    directory: Path,
    choices: Choices,
    start: Start | None = None,
    *,
    noise: float = math.nan,
    **coordinator: Any,
) -> Journal:
    options = TunerOptions(
        coordinator="coordinator", choices=choices, start=start, measuring=("model",)
    )
    actors = (
        ActorSpec("coordinator", "coordinator", {"last": choices.last, **coordinator}),
        ActorSpec("tuner", "tuner", options),
        ActorSpec("model", "model", {"noise": noise}),
    )
    links = (("tuner", "coordinator"), ("tuner", "model"))
    placement = Placement(
        Topology("roles", actors, links, "coordinator"),
        (ProcessSpec("here", "here", ("coordinator", "tuner", "model")),),
    )
    roles = {"coordinator": Coordinator, "tuner": Tuner, "model": Model}
    return run_virtual(simulate(placement, roles, directory=directory))


def everything(last: int, **more: Any) -> Choices:
    return Choices(
        **{"groups": (1, 2, 4), "momenta": MOMENTA, "rates": (0.1, 1.0, 10.0), "last": last, **more}
    )


def told(journal: Journal) -> list[str]:
    return [fields["why"] for fields in journal.of("tuning") if "groups" not in fields]


def choices_of(journal: Journal) -> list[dict[str, Any]]:
    return [fields for fields in journal.of("tuning") if "groups" in fields]


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
