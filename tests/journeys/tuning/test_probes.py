"""A run that is held, tried with other groups and rates, and released: the result is the same as
without probes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from roles.coordination.probing import pace
from runtime import ProgramFailed
from tests.helpers.scientist import asks, by_rank, same, ten_ms, tried
from tests.helpers.support import ROOT, Simulated, configure, train

ITERATIONS = 12
PRESETS = (
    "single",
    "sync",
    "mxnet-sync",
    "replicas",
    "firecaffe",
    "parameter-server",
    "host-accumulate",
    "one-weird-trick",
    "local-fc-shards",
)


@pytest.mark.few("[sync]")
@pytest.mark.parametrize("preset", PRESETS)
def test_probes_leave_no_trace_in_the_model_and_their_samples_come_again(
    tmp_path: Path, preset: str
) -> None:
    apart = tmp_path / "apart"
    plain = train(configure(apart, preset, workers=2, iterations=ITERATIONS))
    probes = (
        {"iterations": 3},
        {"iterations": 4, "base_lr": 0.05, "momentum": 0.5},
        {"iterations": 3},
    )
    found = tried(
        configure(tmp_path / "tried", preset, workers=2, iterations=ITERATIONS), asks(*probes)
    )
    same(found, plain)
    (held,) = found.journal.of("hold")
    at = held["iteration"]
    assert 0 < at < ITERATIONS
    first, other, again = (probe["losses"] for probe in found.journal.of("probe"))
    assert first == again == tuple(plain.losses()[at : at + 3])  # the same model, the same samples
    assert other[0] == first[0]
    assert other[2] != first[2]
    assert [fields["iterations"] for fields in found.journal.of("finished")] == [ITERATIONS]


@pytest.mark.few("[sync]")
@pytest.mark.parametrize("preset", PRESETS)
def test_a_probe_that_is_kept_is_training_and_uses_no_sample_twice(
    tmp_path: Path, preset: str
) -> None:
    plain = train(configure(tmp_path / "apart", preset, workers=2, iterations=ITERATIONS))
    probes = (
        {"iterations": 3, "kept": True},
        {"iterations": 3, "base_lr": 0.05},
        {"iterations": 2, "kept": True},
    )
    found = tried(
        configure(tmp_path / "tried", preset, workers=2, iterations=ITERATIONS), asks(*probes)
    )
    same(found, plain)
    at = found.journal.of("hold")[0]["iteration"]
    first, between, second = found.journal.of("probe")
    assert (first["kept"], between["kept"], second["kept"]) == (True, False, True)
    assert first["losses"] + second["losses"] == tuple(plain.losses()[at : at + 5])
    assert between["losses"][0] == second["losses"][0]
    assert [fields["iterations"] for fields in found.journal.of("finished")] == [ITERATIONS]


@pytest.mark.parametrize(
    "probe",
    [
        {"iterations": 5, "base_lr": 3.0},
        {"iterations": 4, "base_lr": 1e6},
        {"iterations": ITERATIONS},
    ],
)
def test_a_probe_whose_loss_rises_or_that_would_outlast_the_run_is_not_kept(
    tmp_path: Path, probe: dict[str, Any]
) -> None:
    plain = train(configure(tmp_path / "apart", "sync", workers=2, iterations=ITERATIONS))
    cluster = configure(tmp_path / "tried", "sync", workers=2, iterations=ITERATIONS)
    found = tried(cluster, asks({**probe, "kept": True}))
    same(found, plain)
    assert [fields["kept"] for fields in found.journal.of("probe")] == [False]


def test_the_pace_of_a_probe_comes_from_its_later_half_between_two_turns_of_all_groups() -> None:
    assert pace([9.0, 10.0, 11.0, 12.0], 1) == 1.0
    assert pace([9.0, 9.0, 10.0, 10.0, 11.0, 11.0, 12.0, 12.0, 13.0, 13.0], 2) == 0.5
    assert pace([9.0, 9.0, 9.0], 2) == pace([], 1) == 0.0


PROBES = (
    {"iterations": 3, "base_lr": 0.05},
    {"iterations": 5, "momentum": 0.0},
    {"iterations": 4, "groups": 4},
)
CODED = '[train.gradients]\nformat = "{}"\n'
OTHERS = {
    "one-bit": ("sync", CODED.format("one-bit"), "train.strategy.live=true"),
    "one-bit in a tree": (
        "singa",
        CODED.format("one-bit"),
        "train.strategy.live=true",
        "train.strategy.fan_in=3",
    ),
    "threshold": (
        "mxnet-sync",
        CODED.format("threshold") + "tau = 0.001\n",
    ),
    "one-bit of groups": (
        "omnivore",
        CODED.format("one-bit"),
        "train.strategy.groups=2",
        "train.strategy.live=true",
    ),
    "groups": ("omnivore", "", "train.strategy.groups=2", "train.strategy.live=true"),
    "groups that race": ("adam", "", "train.strategy.groups=2"),
    "mxnet-async": ("mxnet-async", ""),
    "distbelief": ("distbelief", ""),
    "async": ("async", ""),
    "sparknet": ("sparknet", "", "train.strategy.tau=3"),
    "dl4j": ("dl4j", "", "train.strategy.tau=3"),
    "shares": ("sync", "", "train.strategy.shares=throughput"),
}


@pytest.mark.few("[one-bit]")
@pytest.mark.parametrize("name", OTHERS)
def test_state_outside_the_model_is_restored_too(tmp_path: Path, name: str) -> None:
    """The state outside the model is restored: errors that senders keep of coarse gradients, the
    time of the next mean, and the progress and speed of workers. The result equals a hold without
    probes."""
    preset, more, *settings = OTHERS[name]
    live = "train.strategy.live=true" in settings
    probes = PROBES[: 3 if live else 2]
    found = []
    for kind, wanted in (("held", asks()), ("probed", asks(*probes))):
        cluster = configure(tmp_path / kind, preset, workers=4, iterations=ITERATIONS)
        cluster.write_text(cluster.read_text() + more)
        found.append(
            tried(cluster, wanted, *settings, times=by_rank if name == "shares" else ten_ms)
        )
    same(*found)
    assert len(found[1].journal.of("probe")) == len(probes)


def zoo(net: str, *before: tuple[str, str]) -> str:
    """A net of the zoo with more layers. `before` has pairs of a layer's name and the text to put
    before it."""
    text = (ROOT / "nets" / "zoo" / f"{net}.prototxt").read_text()
    for layer, more in before:
        head = f'layer {{\n  name: "{layer}"'
        assert text.count(head) == 1
        text = text.replace(head, f"{more}\n{head}")
    return text


@pytest.mark.few("[sync]")
@pytest.mark.parametrize(
    "preset", ["sync", "single", "mxnet-sync", "local-fc-shards", "one-weird-trick", "replicas"]
)
def test_random_numbers_after_probes_are_the_same_as_without_probes(
    tmp_path: Path, preset: str
) -> None:
    drop = 'layer {{ name: "drop {0}" type: "Dropout" bottom: "{0}" top: "{0}" }}'
    net = zoo("lenet", ("conv2", drop.format("pool1")), ("ip2", drop.format("ip1")))
    found = []
    for kind, wanted in (("plain", []), ("tried", asks({"iterations": 3}, {"iterations": 2}))):
        cluster = configure(tmp_path / kind, preset, workers=2, iterations=ITERATIONS)
        (tmp_path / kind / "net.prototxt").write_text(net)
        found.append(tried(cluster, wanted, "train.net=net.prototxt"))
    plain, probed = found
    same(probed, plain)
    at = probed.journal.of("hold")[0]["iteration"]
    first = probed.journal.of("probe")[0]["losses"]
    assert first == tuple(plain.losses()[at : at + 3])


@pytest.mark.few("[sync]")
@pytest.mark.parametrize("preset", ["sync", "singa", "single"])
def test_a_run_that_resumes_another_has_its_learning_rate_after_probes_too(
    tmp_path: Path, preset: str
) -> None:
    first = tried(configure(tmp_path / "first", preset, workers=2, iterations=6), [])
    resume = f"train.resume={tmp_path / 'first' / first.journal.of('checkpoint')[-1]['file']}"
    found = []
    for kind, wanted in (("plain", []), ("tried", asks({"iterations": 3}))):
        cluster = configure(tmp_path / kind, preset, workers=2, iterations=6 + ITERATIONS)
        found.append(tried(cluster, wanted, resume))
    same(found[1], found[0])


def test_the_state_of_recurrent_layers_is_put_back(tmp_path: Path) -> None:
    """`cont` is always 1 here, so the last state of a pass is the first of the next."""
    ones = 'shape { dim: 8 dim: 8 } data_filler { type: "constant" value: 1 }'
    net = zoo(
        "char_lstm",
        (
            "embed",
            (
                f'layer {{ name: "ones" type: "DummyData" top: "ones" '
                f"dummy_data_param {{ {ones} }} }}"
            ),
        ),
    )
    for old, new in (
        ("num_output: 256", "num_output: 8"),
        ('bottom: "cont"', 'bottom: "ones"'),
        ("dim: 64", "dim: 8"),
    ):
        net = net.replace(old, new)
    text = "".join(np.random.default_rng(1).choice(list("abcde"), 2000))
    data = '[train]\nnet = "net.prototxt"\nsolver = "solver.prototxt"\nprecision = "exact"\n'
    data += (
        '[train.data]\ntrain = {format = "text", source = "input.txt", streams = 8, length = 8}\n'
    )
    data += '[train.strategy]\npreset = "single"\n'
    found = []
    for kind, wanted in (("plain", []), ("tried", asks({"iterations": 3}))):
        configure(tmp_path / kind, "single", iterations=ITERATIONS).write_text(data)
        (tmp_path / kind / "net.prototxt").write_text(net)
        (tmp_path / kind / "input.txt").write_text(text)
        found.append(tried(tmp_path / kind / "cluster.toml", wanted))
    same(found[1], found[0])


def test_a_probe_may_have_other_groups_and_its_seconds_cover_its_iterations(
    tmp_path: Path,
) -> None:
    cluster = configure(tmp_path / "a", "sync", workers=4, iterations=ITERATIONS, more="")
    live = "train.strategy.live=true"
    plain = tried(cluster, [], live)
    wanted = asks({"iterations": 6}, {"iterations": 6, "groups": 4}, {"iterations": 6, "groups": 2})
    found = tried(configure(tmp_path / "b", "sync", workers=4, iterations=ITERATIONS), wanted, live)
    same(found, plain)
    one, four, two = found.journal.of("probe")
    assert [len(probe["losses"]) for probe in (one, four, two)] == [6, 6, 6]
    assert one["losses"] != four["losses"]
    assert 0 < four["seconds"] < one["seconds"]


def test_a_probe_ends_after_its_seconds(tmp_path: Path) -> None:
    cluster = configure(tmp_path, "sync", workers=2, iterations=ITERATIONS)
    found = tried(
        cluster, asks({"iterations": 1000, "seconds": 0.7}, {"iterations": 1000, "seconds": 1.4})
    )
    short, long = found.journal.of("probe")
    assert 0.7 <= short["seconds"] < 1.2
    assert 1.4 <= long["seconds"] < 1.9
    assert len(short["losses"]) < len(long["losses"]) < 1000


def test_a_probe_that_diverges_is_cut_and_the_run_goes_on_from_the_model_before(
    tmp_path: Path,
) -> None:
    plain = train(configure(tmp_path / "plain", "sync", workers=2, iterations=ITERATIONS))
    cluster = configure(tmp_path / "tried", "sync", workers=2, iterations=ITERATIONS)
    with np.errstate(all="ignore"):
        found = tried(cluster, asks({"iterations": 500, "base_lr": 1e9}, {"iterations": 2}))
    same(found, plain)
    wild, tame = found.journal.of("probe")
    assert wild["diverged"]
    assert len(wild["losses"]) < 50
    assert np.isfinite(wild["losses"]).all()
    assert not tame["diverged"]


def test_a_release_sets_how_the_run_goes_on(tmp_path: Path) -> None:
    cluster = configure(tmp_path, "sync", workers=4, iterations=ITERATIONS)
    wanted = asks(
        {"iterations": 2, "groups": 4}, release={"groups": 2, "momentum": 0.4, "base_lr": 0.02}
    )
    found = tried(cluster, wanted, "train.strategy.live=true")
    (now,) = found.journal.of("regrouped")
    (held,) = found.journal.of("hold")
    rates = {"base_lr": pytest.approx(0.02), "momentum": pytest.approx(0.4), "batch": 16}
    assert now == {"iteration": held["iteration"], "workers": 4, "groups": 2, **rates}
    assert [fields["iteration"] for fields in found.journal.of("progress")] == list(range(1, 13))
    assert [round(fields["staleness"]) for fields in found.journal.of("progress")][-1] == 1


WILD = {"what": "release", "base_lr": 1e9, "watched": 10}
TAME = {"what": "release", "base_lr": 0.01, "watched": 10}


def by_iteration(run: Simulated) -> dict[str, float]:
    """The last reported loss of each iteration."""
    return {fields["iteration"]: fields["loss"] for fields in run.journal.of("progress")}


# One case of each kind from the list above: the same state is restored. The order of turns among
# groups and the measured speed of workers are not restored, so "one-bit of groups" and "shares" end
# with other numbers.
@pytest.mark.few("[sync]")
@pytest.mark.parametrize(
    "name", ["sync", "single", "replicas", "local-fc-shards", "one-bit", "groups", "sparknet"]
)
def test_training_that_diverges_while_it_is_watched_goes_back_and_leaves_no_trace(
    tmp_path: Path, name: str
) -> None:
    preset, more, *settings = OTHERS.get(name, (name, ""))
    found = []
    for kind, wanted in (("held", asks()), ("fell", [{"what": "hold"}, WILD, TAME])):
        cluster = configure(tmp_path / kind, preset, workers=4, iterations=ITERATIONS)
        cluster.write_text(cluster.read_text() + more)
        with np.errstate(all="ignore"):
            found.append(tried(cluster, wanted, *settings))
    held, fell = found
    assert by_iteration(fell) == by_iteration(held)
    for array, expected in held.arrays.items():
        np.testing.assert_array_equal(fell.arrays[array], expected, err_msg=array)
    wild, tame = fell.journal.of("release")
    assert wild["diverged"]
    assert 1 <= wild["iterations"] <= ITERATIONS
    left = ITERATIONS - fell.journal.of("hold")[0]["iteration"]
    assert (tame["iterations"], tame["diverged"]) == (min(10, left), False)


def test_watched_training_goes_back_as_soon_as_it_is_far_worse_than_an_untrained_model(
    tmp_path: Path,
) -> None:
    """At this rate the loss is above 70 in the next iteration. The mean of ten iterations exceeds
    ten times the loss of an untrained model only three iterations later."""
    cluster = configure(tmp_path, "sync", workers=2, iterations=40)
    found = tried(
        cluster, [{"what": "hold"}, {"what": "release", "base_lr": 0.08, "watched": 39}, TAME]
    )
    assert found.journal.of("release")[0]["diverged"]
    assert max(fields["loss"] for fields in found.journal.of("progress")) < 40


def test_a_release_is_answered_when_watching_has_ended(tmp_path: Path) -> None:
    cluster = configure(tmp_path, "sync", workers=2, iterations=ITERATIONS)
    wanted = [
        {"what": "hold"},
        {"what": "release", "watched": 3},
        {"what": "hold"},
        {"what": "release"},
    ]
    found = tried(cluster, wanted)
    first, second = found.journal.of("hold")
    assert second["iteration"] >= first["iteration"] + 3
    said = [(each["iterations"], each["diverged"]) for each in found.journal.of("release")]
    assert said == [(3, False), (0, False)]


def test_a_run_that_diverges_after_watching_has_ended_ends(tmp_path: Path) -> None:
    cluster = configure(tmp_path, "sync", workers=2, iterations=ITERATIONS)
    wanted = [
        {"what": "hold"},
        {"what": "release", "watched": 2},
        {"what": "hold"},
        {**WILD, "watched": 0},
    ]
    with np.errstate(all="ignore"), pytest.raises(ProgramFailed, match="training diverged"):
        tried(cluster, wanted)


def test_a_run_that_ends_during_a_probe_saves_the_model_before_it(tmp_path: Path) -> None:
    cluster = configure(tmp_path / "tried", "sync", workers=2, iterations=ITERATIONS)
    wanted = [{"what": "hold"}, {"what": "probe", "iterations": 500, "base_lr": 0.1}]
    found = tried(cluster, wanted, ends=3.0)
    (held,) = found.journal.of("hold")
    assert 0 < len(found.journal.of("probe")[0]["losses"]) < 500
    plain = train(configure(tmp_path / "plain", "sync", workers=2, iterations=held["iteration"]))
    same(found, plain)
    (saved,), (expected,) = found.journal.of("checkpoint"), plain.journal.of("checkpoint")
    assert (saved["iteration"], saved["file"]) == (expected["iteration"], expected["file"])


def test_a_run_that_is_held_can_end_too(tmp_path: Path) -> None:
    cluster = configure(tmp_path / "tried", "sync", workers=2, iterations=ITERATIONS)
    found = tried(cluster, [{"what": "hold"}], ends=2.0)
    (held,) = found.journal.of("hold")
    same(
        found, train(configure(tmp_path / "plain", "sync", workers=2, iterations=held["iteration"]))
    )


def test_a_run_that_has_finished_training_refuses_to_be_held(tmp_path: Path) -> None:
    cluster = configure(tmp_path, "sync", workers=2, iterations=1)
    (refused,) = tried(cluster, [{"what": "hold"}]).journal.of("refused")
    assert refused["reason"].endswith("the run ends")


def test_impossible_probes_are_refused_in_words_and_change_nothing(tmp_path: Path) -> None:
    plain = train(configure(tmp_path / "plain", "sync", workers=2, iterations=ITERATIONS))
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"what": "probe", "iterations": 0}, "found a probe of 0 iterations, expected at least 1"),
        ({"what": "probe", "iterations": 1, "groups": 3}, "this run was not prepared for it"),
        (
            {"what": "probe", "iterations": 1, "base_lr": float("inf")},
            ("found base_lr inf, expected a finite number"),
        ),
        ({"what": "hold"}, "is 'held', this message is legal in 'going on'"),
        ({"what": "release", "momentum": 1.5}, "momentum"),
    ]
    cluster = configure(tmp_path / "tried", "sync", workers=2, iterations=ITERATIONS)
    found = tried(cluster, [{"what": "hold"}, *(one for one, _ in wrong), {"what": "release"}])
    same(found, plain)
    for refused, (_, why) in zip(found.journal.of("refused"), wrong, strict=True):
        assert why in refused["reason"]
    early = tried(
        configure(tmp_path / "early", "sync", workers=2, iterations=2),
        [{"what": "probe", "iterations": 1}],
    )
    assert (
        "is 'going on', this message is legal in 'held'" in early.journal.of("refused")[0]["reason"]
    )
