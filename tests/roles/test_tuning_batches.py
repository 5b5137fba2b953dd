"""The choice of the batch from the known noise of gradients and the time of an iteration for each
batch."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable

import pytest

from roles.tuning.batch_choice import PAYS, Batches, noise_of, worth_telling
from roles.tuning.choices import LEAST, WARM, Choices, Chosen, Setting, Trial
from roles.tuning.gradient_statistics import GradientStatistics
from roles.tuning.judgement import THRESHOLD
from roles.tuning.noise import gain
from roles.tuning.trials import Trials

NOW = Setting(1, 0.9, 0.01, 64)
NOISY = 1e6  # noise scales in images
CLEAN = 1.0
LONG = 100_000


class Lab:
    """A laboratory in which `seconds(batch)` is the time of an iteration. The batch `wild`
    diverges."""

    def __init__(self, seconds: Callable[[int], float], wild: int = 0) -> None:
        self._seconds = seconds
        self._wild = wild
        self.seconds: dict[int, float] = {}
        self.asked: list[tuple[int, int]] = []

    async def probe(
        self,
        setting: Setting,
        iterations: int,
        seconds: float,
        *,
        kept: bool = False,
        falls: float = THRESHOLD,
    ) -> Trial:
        self.asked.append((setting.batch, iterations))
        each = self._seconds(setting.batch)
        if setting.batch == self._wild:
            return Trial((1.0,), each, True, each)
        done = min(iterations, math.floor(seconds / each)) if seconds else iterations
        return Trial((1.0,) * done, done * each, cost=done * each)


def chosen(
    lab: Lab,
    noise: float,
    *batches: int,
    now: Setting = NOW,
    left: int = LONG,
    told: list[str] | None = None,
) -> Chosen:
    choices = Choices(batches=batches, probe_iterations=20, last=left)
    trials = Trials(
        lab, choices, left, batch=now.batch, tell=(told if told is not None else []).append
    )

    async def search() -> Chosen:
        await trials.of(now)
        before = Chosen(now, "as it was", iteration_seconds=trials.iteration_seconds)
        return await Batches(trials, before, noise).choose(batches)

    return asyncio.run(search())


def test_with_noisy_gradients_the_batch_with_most_images_a_second_is_taken() -> None:
    found = chosen(Lab({64: 1.0, 128: 1.4, 256: 3.0}.__getitem__), NOISY, 64, 128, 256)
    assert found.setting.batch == 128
    assert found.setting.base_lr == pytest.approx(0.01 * gain(NOISY, 128, 64), rel=1e-5)
    assert (found.setting.groups, found.setting.momentum) == (1, 0.9)
    assert (
        "the noise scale is 1e+06 images: compared with a batch of 64, 128 is worth 2 of its iterations"
    ) in found.why
    assert "takes 1.4 times as long" in found.why
    assert "128 makes 1.43 times the progress per second" in found.why
    assert found.why.endswith("the 100000 iterations that are left do the work of 199987")


def test_with_clean_gradients_no_larger_batch_is_tried() -> None:
    lab = Lab(lambda batch: 1.0)
    found = chosen(lab, CLEAN, 64, 128, 256)
    assert found.setting == NOW
    assert lab.asked == [(64, 20)]
    assert "128 is worth 1.01 of its iterations, 256 is worth 1.01" in found.why
    assert "none makes 5% more progress per second" in found.why


@pytest.mark.parametrize("more", [0.99, 1.01])
def test_a_batch_that_pays_less_than_five_percent_is_not_taken(more: float) -> None:
    seconds = gain(NOISY, 128, 64) / (PAYS * more)
    found = chosen(Lab({64: 1.0, 128: seconds}.__getitem__), NOISY, 64, 128)
    assert found.setting.batch == (128 if more > 1 else 64)


def test_a_run_with_a_large_batch_goes_back_when_that_pays_no_more() -> None:
    now = NOW.but(batch=256, base_lr=0.04)
    found = chosen(Lab(lambda batch: batch / 64), 64.0, 64, 128, 256, now=now)
    assert found.setting.batch == 64
    assert found.setting.base_lr == pytest.approx(0.04 * gain(64.0, 64, 256), rel=1e-5)


def test_a_batch_has_a_few_iterations_before_its_own_and_probes_last_about_as_long() -> None:
    lab = Lab(lambda batch: 1.0)
    chosen(lab, NOISY, 64, 128, 256)
    assert lab.asked == [(64, 20), (128, WARM), (128, LEAST), (256, WARM), (256, LEAST)]


def test_a_batch_that_diverges_with_its_learning_rate_is_reported_and_not_taken() -> None:
    told: list[str] = []
    found = chosen(Lab(lambda batch: 1.0, wild=256), NOISY, 64, 128, 256, told=told)
    assert found.setting.batch == 128
    assert told == ["a batch of 256 with base_lr 0.03999 diverges"]


def test_after_a_change_of_batch_the_seconds_of_an_iteration_belong_to_the_new_batch() -> None:
    found = chosen(Lab({64: 1.0, 128: 1.4, 256: 3.0}.__getitem__), NOISY, 64, 128, 256)
    assert found.iteration_seconds == {1: pytest.approx(1.4)}
    assert [setting.batch for setting, _ in found.tried] == [64, 128, 128, 256, 256]


def test_a_budget_that_pays_for_no_other_batch_keeps_the_present_one_and_is_reported() -> None:
    told: list[str] = []
    lab = Lab(lambda batch: 1.0)
    found = chosen(lab, NOISY, 64, 128, left=220, told=told)  # 22 s, of which 20 are spent
    assert found.setting == NOW
    assert told == [("the budget has too little left to try every batch: the best so far is taken")]


def statistics(noise: float, error: float) -> GradientStatistics:
    unknown = dict.fromkeys(
        ("momentum", "groups", "staleness", "gradients", "gradients_error"), math.nan
    )
    return GradientStatistics(iteration=0, updates=0, noise=noise, noise_error=error, **unknown)


def test_of_several_model_servers_the_smallest_clear_noise_scale_counts() -> None:
    assert noise_of([]) is None
    assert noise_of([statistics(math.nan, math.nan), statistics(100.0, 60.0)]) is None
    assert (
        noise_of([statistics(300.0, 10.0), statistics(200.0, 10.0), statistics(100.0, 90.0)])
        == 200.0
    )


def test_twice_the_batch_is_reported_if_it_is_worth_more_than_one_and_a_half() -> None:
    assert worth_telling(127.0, 64) == ""
    line = worth_telling(640.0, 64)
    assert "an iteration with twice the batch, 128, is worth 1.83 of the present ones" in line
    assert "train.batch = 'auto' measures this" in line
