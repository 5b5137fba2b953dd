"""The preset "auto": its candidates, their predictions without a run, and the choice among them."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from pathlib import Path

import pytest

import roles
from roles.choosing import speeds
from roles.choosing.preset import PresetChoice, choice
from roles.choosing.preset_candidates import candidates
from roles.choosing.trial import PresetTrial
from roles.forecasting.costs import Timed
from roles.forecasting.layer_times import UNTIMED, timed_quickly
from roles.learning.job import Job
from roles.planning.planner import plan
from roles.tuning.tuner import TunerOptions
from runtime import ConfigError
from runtime.config.file import Loaded, load_with_program

PROFILE = {f"*/{label}": 0.0 for label in UNTIMED}
PROFILE |= {"single/*": 0.02, "replica/backward": 0.006, "replica/*": 0.004, "*/*": 0.003}
VIRTUAL = '[simulation]\nclock = "virtual"\nservice_times = "times.json"\n'
DIGITS = '[train.data]\ntrain = { format = "digits", split = "train" }\n'
LIKE_SINGLE = {
    "single",
    "sync",
    "replicas",
    "firecaffe",
    "host-accumulate",
    "singa",
    "mxnet-sync",
    "local-fc-shards",
}
LIKE_SINGLE |= {"parameter-server", "one-weird-trick"}


def loaded(folder: Path, text: str, *settings: str) -> Loaded:
    (folder / "cluster.toml").write_text(text)
    return load_with_program(folder / "cluster.toml", settings)


def auto(folder: Path, text: str = "", more: str = "") -> Loaded:
    return loaded(folder, f"{more}{text}[train.strategy]\npreset = 'auto'\nworkers = 3\n")


def found(of: Loaded) -> tuple[set[str], dict[str, str]]:
    """The names of the candidates, and the reason why each other preset is not a candidate."""
    assert isinstance(of.options, roles.Options)
    some, left = candidates(of.config, of.options)
    return {candidate.name for candidate in some}, left


def chosen(of: Loaded) -> PresetChoice:
    assert isinstance(of.options, roles.Options)
    made = choice(of.config, of.options)
    assert made is not None
    return made


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a cluster.toml whose predictions come from a profile."""
    made = tmp_path_factory.mktemp("auto")
    (made / "times.json").write_text(json.dumps(PROFILE))
    auto(made, DIGITS, VIRTUAL)
    return made


@pytest.fixture(scope="module")
def predicted(folder: Path) -> PresetChoice:
    return chosen(load_with_program(folder / "cluster.toml"))


@pytest.fixture
def made(folder: Path, predicted: PresetChoice) -> PresetChoice:
    """A choice in which no preset was tried yet."""
    config = load_with_program(folder / "cluster.toml").config
    trials = (PresetTrial(config, trial.counted) for trial in predicted.trials)
    return dataclasses.replace(predicted, trials=tuple(trials))


def test_candidates_are_the_presets_that_compute_the_same_as_single_each_once(
    tmp_path: Path,
) -> None:
    names, left = found(auto(tmp_path, DIGITS))
    assert names | left.keys() == LIKE_SINGLE | {"omnivore"}
    assert left == {
        "omnivore": "with one group it is 'sync'",
        "parameter-server": "with one group it is 'mxnet-sync'",
    }


def test_presets_that_refuse_a_solver_are_left_out_with_the_reason(tmp_path: Path) -> None:
    names, left = found(auto(tmp_path, f"[train.optimizer]\ntype = 'Muon'\n{DIGITS}"))
    divided = {"one-weird-trick", "local-fc-shards"}
    assert names == LIKE_SINGLE - {"parameter-server", *divided}
    assert all("'Muon' needs whole parameters" in left[name] for name in divided)


@pytest.mark.slow
def test_workers_that_would_normalise_their_own_rows_are_left_out_unless_all_do_so_alike(
    tmp_path: Path,
) -> None:
    data = (
        "[train.data]\ntrain = { format = 'synthetic', shape = [3, 32, 32], classes = 10, "
        "size = 64 }\n"
    )
    net = f"[train]\nnet = 'resnet20'\nsolver = 'resnet20_solver'\nbatch = 16\n{data}"
    names, left = found(auto(tmp_path, net))
    assert names == {"single"}
    assert "takes its statistics from the rows of a worker, not of the batch" in left["replicas"]
    names, _ = found(
        loaded(tmp_path, f"{net}[train.strategy]\npreset='auto'\nworkers=2\nreproducible=true\n")
    )
    assert {"single", "replicas"} <= names


def test_a_mistake_of_all_candidates_is_reported_as_a_mistake_of_single(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^.*cluster.toml:2: train.net: .*none.prototxt"):
        chosen(auto(tmp_path, "[train]\nnet = 'none.prototxt'\n"))


@pytest.mark.parametrize(
    ("key", "said"),
    [
        (
            "groups = 4",
            ("groups: found 4, but preset = 'auto' chooses among presets that do not all use"),
        ),
        (
            "live = true",
            (
                "live: found true, but preset = 'auto' chooses among presets that do "
                "not all use this key"
            ),
        ),
        (
            "options = { every = 2 }",
            ("options: found {'every': 2}, but preset = 'auto' chooses among presets"),
        ),
    ],
)
def test_keys_that_only_some_presets_read_are_refused_with_their_line(
    tmp_path: Path, key: str, said: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        chosen(loaded(tmp_path, f"[train.strategy]\npreset = 'auto'\n{key}\n"))
    [line] = refused.value.problems
    assert line.startswith(f"{tmp_path}/cluster.toml:3: train.strategy.{said}")


def test_a_script_names_its_preset() -> None:
    with pytest.raises(
        ConfigError, match=(r"preset: found 'auto', which is allowed only in a cluster.toml")
    ):
        roles.training({"strategy": {"preset": "auto"}})


def test_the_two_best_by_prediction_are_tried_and_the_best_is_expected(made: PresetChoice) -> None:
    table = [fields for name, fields in made.told if name == "candidate"]
    predicted = [fields["predicted_seconds"] for fields in table]
    assert predicted == sorted(predicted)
    assert {fields["preset"] for fields in table} == LIKE_SINGLE - {"parameter-server"}
    assert dict(zip([f["preset"] for f in table], predicted, strict=True))[
        "single"
    ] == pytest.approx(0.02)
    assert [trial.name for trial in made.trials] == [fields["preset"] for fields in table[:2]]
    event, fields = made.expected.why
    assert (event, fields["preset"], fields["workers"]) == ("choice", table[0]["preset"], 3)
    assert fields["why"].startswith("predicted; `up` measures ")


def told(made: PresetChoice, *seconds: float) -> None:
    for trial, second in zip(made.trials, seconds, strict=True):
        for done in range(1, 60):
            trial.heard("progress", {"iteration": done}, done * second)
        trial.ended("")


def test_measurements_override_predictions(made: PresetChoice) -> None:
    told(made, 0.03, 0.02)
    event, fields = made.chosen().why
    assert (event, fields["preset"]) == ("choice", made.trials[1].name)
    assert fields["why"] == f"measured 20 ms an iteration, {made.trials[0].name} 30 ms"


def test_a_trial_that_fails_is_never_chosen(made: PresetChoice) -> None:
    told(made, 0.01, 0.02)
    assert made.trials[0].ended("it died") == (
        "trial",
        {"preset": made.trials[0].name, "failed": "it died"},
    )
    event, fields = made.chosen().why
    assert (event, fields["preset"]) == ("choice", made.trials[1].name)
    assert fields["why"].endswith(f"{made.trials[0].name} failed")


def test_a_run_too_short_to_measure_is_chosen_by_prediction(made: PresetChoice) -> None:
    assert made.chosen().why[1]["preset"] == made.trials[0].name
    assert "too short" in made.chosen().why[1]["why"]


def test_the_chosen_topology_equals_the_one_of_the_preset_named_by_hand(
    folder: Path, made: PresetChoice
) -> None:
    for trial in made.trials:
        workers = trial.candidate.options.train.strategy.workers
        by_hand = [f"train.strategy.preset={trial.name}", f"train.strategy.workers={workers}"]
        of = load_with_program(folder / "cluster.toml", by_hand)
        assert isinstance(of.options, roles.Options)
        assert trial.candidate.options.train == of.options.train
        assert trial.candidate.topology == plan(of.config, of.options)


def test_a_trial_neither_tests_nor_saves_and_has_no_tuner(tmp_path: Path) -> None:
    (tmp_path / "times.json").write_text(json.dumps(PROFILE))
    text = f"{VIRTUAL}[train]\nmomentum = 'auto'\nmax_iter = 1000\n"
    made = chosen(loaded(tmp_path, f"{text}[train.strategy]\npreset = 'auto'\nworkers = 2\n"))
    assert len(made.trials) == 2
    for trial in made.trials:
        table = next(
            actor.options for actor in trial.topology.actors if actor.name == trial.topology.lead
        ).timetable
        assert (table.tests, table.snapshot_interval, table.snapshot_last) == ((), 0, False)
        assert not any(isinstance(actor.options, TunerOptions) for actor in trial.topology.actors)
        assert any(
            isinstance(actor.options, TunerOptions) for actor in trial.candidate.topology.actors
        )


def test_where_array_work_takes_no_time_nothing_is_tried(tmp_path: Path) -> None:
    made = chosen(auto(tmp_path, DIGITS, "[simulation]\nclock = 'virtual'\n"))
    assert made.trials == ()
    assert made.chosen() == made.expected
    assert "takes no time" in made.expected.why[1]["why"]


# -- predictions from layers that are measured on this machine


def in_proportion(job: Job, rows: Iterable[int]) -> Timed:
    """Times of a millisecond a row forward and two backward, for every layer of LeNet. All other
    work takes no time."""
    names = [layer.proto.name for layer in job.spec("TRAIN").layers]
    layers = {many: dict.fromkeys(names, (1e-3 * many, 2e-3 * many)) for many in rows}
    return Timed(layers, dict.fromkeys(names, 0.0), 0.0)


def predictions(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    processors: int,
    machines: str = "[[machine]]\nthreads = 1\n",
) -> dict[str, tuple[float, str]]:
    monkeypatch.setattr(speeds, "timed_quickly", in_proportion)
    monkeypatch.setattr(speeds, "processors_of", lambda config: processors)
    text = f"{machines}{DIGITS}[train.strategy]\npreset = 'auto'\nworkers = 4\n"
    told = [fields for name, fields in chosen(loaded(folder, text)).told if name == "candidate"]
    return {
        fields["preset"]: (fields["predicted_seconds"], fields.get("busiest", ""))
        for fields in told
    }


@pytest.mark.slow
def test_four_workers_on_four_processors_are_faster_than_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = predictions(tmp_path, monkeypatch, processors=4)
    assert known["replicas"][0] == pytest.approx(known["single"][0] / 4, rel=0.05)


def test_on_one_processor_no_preset_is_faster_than_one_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = predictions(tmp_path, monkeypatch, processors=1)
    assert min(seconds for seconds, _ in known.values()) == pytest.approx(
        known["single"][0], rel=0.05
    )
    assert known["replicas"][1] == "processors 100%"


def test_between_hosts_the_declared_network_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts = "[launcher]\nkind = 'ssh'\n" + "".join(
        f"[[machine]]\nname = 'm{number}'\nhost = '10.0.0.{number}'\naddress = '10.0.0.{number}'\n"
        for number in range(1, 5)
    )

    def known(rate: int) -> dict[str, tuple[float, str]]:
        links = f"{hosts}[links]\nbytes_per_second = {rate}\n"
        return predictions(tmp_path, monkeypatch, 0, links)

    slow, fast = known(10**7), known(10**10)
    size = 4 * 431_080  # bytes of LeNet's gradients
    # a ring sends 1.5 times as many; some of them while the backward pass goes on
    assert slow["replicas"][0] > fast["replicas"][0] + 0.75 * size / 10**7
    assert slow["single"] == fast["single"]


def test_layers_are_timed_with_the_rows_that_workers_have_and_long_passes_once(
    tmp_path: Path,
) -> None:
    of = auto(tmp_path, DIGITS)
    assert isinstance(of.options, roles.Options)
    job = dataclasses.replace(roles.planning.planner.job_of(of.config, of.options), kernels="numpy")
    found = timed_quickly(job, {2, 4})
    assert list(found.layers) == [2, 4]
    assert all(forward > 0 for forward, _ in found.layers[4].values())
