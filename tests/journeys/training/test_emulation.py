"""Emulated devices and the virtual clock: messages of real size, times of a profile, and repeatable
runs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import roles
from nets.data import Batches
from roles.planning.strategies import PRESETS
from runtime.cli.main import main
from runtime.plan.prospects import Wanted
from runtime.runs.checking import check
from runtime.runs.virtual_run import service_time_of
from runtime.transport.inproc import InprocNetwork, Transfer
from tests.helpers.support import configure, events, run_directory, run_up, train

Sizes = list[tuple[str, str, int]]  # receiver, kind, bytes

VIRTUAL = (
    '[simulation]\nclock = "virtual"\nlatency = 0.0001\nbytes_per_second = "125MB"\nseed = {seed}\n'
)
FAR = VIRTUAL.format(seed=1) + 'links = { "conv-* -> fc" = { latency = 1.0 } }\n'
EMULATED = '[train.devices]\n"*" = "emulated:times.json"\n'
STATE = {"KeepCopy", "Copied", "GetCopy", "CopiedArray", "GetOuter"}
TIMES = {
    "conv_compute/forward *": {"mean": 0.004, "cv": 0.5, "law": "gamma"},
    "conv_compute/backward *": {"mean": 0.006, "cv": 0.5},
    "*/fc *": [0.001, 0.0011, 0.0013],
    "*/*": 0,
}


def emulated(
    directory: Path, preset: str, *, seed: int = 1, clock: str = VIRTUAL, **shape: int
) -> Path:
    """A cluster.toml whose devices are all emulated, with the profile next to it."""
    cluster = configure(directory, preset, more=clock.format(seed=seed) + EMULATED, **shape)
    (directory / "times.json").write_text(json.dumps(TIMES))
    return cluster


def sizes_of(cluster: Path) -> Sizes:
    """The receiver, kind and size of every message of a simulated run."""
    seen: Sizes = []

    def note(transfer: Transfer) -> None:
        kind = type(transfer.envelope.message).__name__
        seen.append((transfer.envelope.receiver, kind, transfer.size))

    train(cluster, network=InprocNetwork(on_transfer=note), checkpoint=False)
    return sorted(seen)


def without_state(sizes: Sizes) -> Sizes:
    """All but the messages for a checkpoint. An emulated run has no model to save. Islands ask for
    the outer model with GetOuter before a checkpoint."""
    kept = [entry for entry in sizes if entry[1] not in STATE]
    asked = sum(entry[1] == "GetOuter" for entry in sizes)
    for entry in [entry for entry in kept if entry[1] == "OuterModel"][:asked]:
        kept.remove(entry)
    return kept


def train_only(cluster: Path) -> list[dict[str, float]]:
    """Train on virtual time. Returns the progress reports."""
    return train(cluster, checkpoint=False).journal.of("progress")


@pytest.mark.few("[sync]", "[one-weird-trick]", "[local-fc-shards]")
@pytest.mark.parametrize("preset", sorted(PRESETS))
def test_messages_between_emulated_devices_have_the_size_of_real_ones(
    tmp_path: Path, preset: str
) -> None:
    shape = {"workers": 3, "groups": 2, "iterations": 1}
    real = sizes_of(configure(tmp_path / "real", preset, **shape))
    unreal = sizes_of(emulated(tmp_path / "unreal", preset, **shape))
    assert unreal == without_state(real)
    assert {entry[1] for entry in unreal}.isdisjoint(STATE)


@pytest.mark.parametrize("form", ["bfloat16", "one-bit"])
def test_compressed_gradients_of_emulated_devices_have_the_size_of_real_ones(
    tmp_path: Path, form: str
) -> None:
    found = []
    for name, make in (("real", configure), ("unreal", emulated)):
        cluster = make(tmp_path / name, "sync", workers=2, iterations=1)
        cluster.write_text(cluster.read_text() + f'[train.gradients]\nformat = "{form}"\n')
        found.append([entry for entry in sizes_of(cluster) if entry[1] == "LayerGradient"])
    assert found[0] == found[1] != []


def test_emulated_workers_read_no_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(self: object, *args: object) -> None:
        raise AssertionError("images were read")

    monkeypatch.setattr(Batches, "read", read)
    assert len(train_only(emulated(tmp_path, "sync", workers=2, iterations=3))) == 3


def test_an_iteration_takes_the_time_of_the_profile(tmp_path: Path) -> None:
    cluster = emulated(
        tmp_path, "single", iterations=4, batch=64, clock='[simulation]\nclock = "virtual"\n'
    )
    (tmp_path / "times.json").write_text('{"single/train": [0.25], "*/*": 0}')
    reports = train_only(cluster)
    assert [report["images_per_second"] for report in reports] == [pytest.approx(64 / 0.25)] * 4


def test_emulated_workers_in_one_process_share_its_device_as_real_ones_do(tmp_path: Path) -> None:
    together = '[placement]\nprocesses = "one"\n[simulation]\nclock = "virtual"\n'
    cluster = emulated(tmp_path, "async", workers=8, iterations=80, clock=together)
    (tmp_path / "times.json").write_text(
        '{"conv_compute/forward *": 0.05, "conv_compute/backward *": 0.05, "*/*": 0}'
    )
    (finished,) = train(cluster, checkpoint=False).journal.of("finished")
    assert finished["seconds"] == pytest.approx(80 * 0.2)  # two layers, twice 0.05 s each


def test_a_pipeline_takes_the_same_time_predicted_emulated_and_with_real_arrays(
    tmp_path: Path,
) -> None:
    times = {"conv_compute/forward *": 0.002, "conv_compute/backward *": 0.003, "*/*": 0}
    found = {}
    for name, clock in (
        ("emulated", '[simulation]\nclock = "virtual"\n' + EMULATED),
        ("real", '[simulation]\nclock = "virtual"\nservice_times = "times.json"\n'),
    ):
        cluster = configure(tmp_path / name, "omnivore", workers=2, iterations=80, more=clock)
        cluster.write_text(cluster.read_text() + "pipeline = 2\n")
        (tmp_path / name / "times.json").write_text(json.dumps(times))
        made = check(cluster)
        assert isinstance(made.loaded.options, roles.Options)
        found[f"{name}, predicted"] = roles.prospects(
            made.loaded.config, made.loaded.options, made.placement, Wanted()
        ).of_chosen.seconds
        service_time = None
        if name == "real":
            service_time = service_time_of(made.placement, made.loaded.config)
        (finished,) = train(cluster, checkpoint=False, service_time=service_time).journal.of(
            "finished"
        )
        found[name] = finished["seconds"] / 80
    # two layers, forward and backward, for each of the two groups that share a process
    assert found == pytest.approx(dict.fromkeys(found, 0.01), rel=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("real", [False, True])
def test_up_on_the_virtual_clock_leaves_the_same_journal_every_time(
    tmp_path: Path, real: bool
) -> None:
    found = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        cluster = emulated(
            tmp_path / name, "omnivore", workers=4, groups=2, iterations=8, seed=seed
        )
        if real:  # real gradients, in the time of the same profile
            timed = 'service_times = "times.json"\n[train]'
            cluster.write_text(
                cluster.read_text().replace(EMULATED, "").replace("[train]", timed, 1)
            )
        done = run_up(cluster)
        assert done.returncode == 0, done.stderr
        assert "simulated" in done.stdout
        found.append((run_directory(cluster) / "events.jsonl").read_bytes())
    assert found[0] == found[1] != found[2]
    assert (b"checkpoint-0000008" in found[0]) is real


def test_a_run_with_processes_can_have_emulated_workers(tmp_path: Path) -> None:
    cluster = emulated(
        tmp_path, "async", workers=3, iterations=12, clock="[run]\nrecord_service_times = true\n"
    )
    done = run_up(cluster)
    assert done.returncode == 0, done.stderr
    directory = run_directory(cluster)
    assert len(events(directory, "progress")) == 12
    recorded = json.loads((directory / "service-times.json").read_text())
    assert len(recorded["conv_compute/forward conv1"]) == 12
    assert np.mean(recorded["fc_server/fc TRAIN"]) >= 0.001
    assert not (directory / "service-times").exists()


def test_no_checkpoint_is_written_by_emulated_workers_with_real_servers(
    tmp_path: Path,
) -> None:
    cluster = emulated(tmp_path, "sync", workers=2, iterations=2)
    cluster.write_text(cluster.read_text().replace('"*" = ', '"conv-*" = '))
    journal = train(cluster, checkpoint=False).journal
    assert len(journal.of("progress")) == 2
    assert journal.of("checkpoint") == []
    assert list(tmp_path.glob("checkpoint*")) == []


def test_durations_recorded_by_a_run_are_a_profile_for_the_next(tmp_path: Path) -> None:
    cluster = configure(
        tmp_path / "real",
        "sync",
        workers=2,
        iterations=3,
        more="[run]\nrecord_service_times = true\n",
    )
    assert run_up(cluster).returncode == 0
    recorded = (run_directory(cluster) / "service-times.json").read_text()
    again = emulated(tmp_path / "again", "sync", workers=2, iterations=3)
    (tmp_path / "again" / "times.json").write_text(recorded)
    assert len(train_only(again)) == 3


@pytest.mark.parametrize(
    ("more", "change", "said"),
    [
        (
            "[simulation]\nlatency = 0.1\n",
            ("", ""),
            ("cluster.toml:2: simulation.latency: has an effect only with"),
        ),
        ("", ("times.json", "tines.json"), "service times cannot be read"),
        (
            "",
            ("emulated:times", "emulatd:times"),
            ("expected 'cpu', 'cuda:N', 'emulated' or 'emulated:PROFILE.json'"),
        ),
        ("", ('"*"', '"convoy-*"'), "'convoy-*' fits no actor"),
        (
            ('[train.gradients]\nformat = "threshold"\n'),
            ("", ""),
            "emulated devices have no numbers to compare with tau",
        ),
        (
            "",
            ("workers = 2", "workers = 2\nreproducible = true"),
            "reproducible: found true, but emulated devices have no numbers",
        ),
    ],
)
def test_settings_that_cannot_be_emulated_are_reported_before_anything_starts(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    more: str,
    change: tuple[str, str],
    said: str,
) -> None:
    cluster = emulated(tmp_path, "sync", workers=2, clock="")
    cluster.write_text(more + cluster.read_text().replace(*change))
    assert main(["check", str(cluster)]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.slow
def test_a_network_that_matches_no_actors_is_reported_before_anything_starts(
    tmp_path: Path,
) -> None:
    cluster = emulated(tmp_path, "sync", workers=2, clock="")
    cluster.write_text(FAR + cluster.read_text())
    done = run_up(cluster)
    assert done.returncode == 2
    assert (
        "simulation.links.'conv-* -> fc': fits no link between processes, expected SENDER -> REC"
    ) in done.stderr
    assert list((tmp_path / "runs").iterdir()) == []


@pytest.mark.slow
def test_a_label_missing_from_the_profile_ends_the_run_in_words(tmp_path: Path) -> None:
    cluster = emulated(tmp_path, "sync", workers=2)
    (tmp_path / "times.json").write_text('{"conv_compute/*": 0.1}')
    done = run_up(cluster)
    assert done.returncode == 1
    assert "no entry fits" in done.stderr
    assert "Traceback" not in done.stderr
