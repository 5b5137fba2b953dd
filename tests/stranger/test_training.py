"""A role, a preset and an exchange of an installed package: named in cluster.toml, planned, run,
and reported in words when wrong."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import roles
from nets.files.checkpoint import load
from ops import Array
from roles.forecasting.traffic import traffic
from runtime import ConfigError
from runtime.cli.main import main
from tests.helpers.support import configure, events, run_directory, run_up, train
from tests.journeys.plan.test_traffic import ITERATIONS, measured, topology
from tests.roles.summing import array_of, names_of, options_of, summed

BROUGHT = {
    "convoy.roles": {"tally": "tests.stranger.role:Tally"},
    "convoy.presets": {"tallied": "tests.stranger.preset:TALLIED"},
    "convoy.exchanges": {"circle": "tests.stranger.ring:Ring"},
}
Install = Callable[..., None]


@pytest.fixture(autouse=True)
def brought(install: Install) -> None:
    install(BROUGHT)


def configured(folder: Path, strategy: str) -> Path:
    return configure(folder, strategy, workers=3, iterations=3)


def trained(folder: Path, strategy: str, *settings: str) -> tuple[Path, dict[str, Array]]:
    """Train in processes. Returns the run directory and the arrays of the last checkpoint."""
    cluster = configured(folder, strategy)
    done = run_up(cluster, *(word for setting in settings for word in ("--set", setting)))
    assert done.returncode == 0, done.stderr
    directory = run_directory(cluster)
    return directory, load(max(directory.glob("*.safetensors")))[0]


def test_the_role_works_where_the_preset_puts_it_and_changes_no_number(tmp_path: Path) -> None:
    directory, found = trained(tmp_path / "tallied", "tallied", "train.strategy.options.every=2")
    told = events(directory, "tally")
    assert sorted((event["actor"], event["iteration"], event["bytes"]) for event in told) == [
        (f"tally-conv-0-{rank}", iteration, 4 * 25_570) for rank in range(3) for iteration in (0, 2)
    ]
    expected = train(configured(tmp_path / "sync", "sync")).arrays
    assert all(np.array_equal(found[name], expected[name]) for name in expected)


def test_processes_sum_the_same_by_the_ring_as_by_other_exchanges(tmp_path: Path) -> None:
    _, found = trained(tmp_path / "circle", "replicas", 'train.strategy.exchange="circle"')
    expected = train(configured(tmp_path / "collective", "replicas")).arrays
    assert found.keys() == expected.keys()
    for name, of in expected.items():
        assert np.abs(found[name] - of).max() <= 1e-5 * np.abs(of).max(), name


@pytest.mark.parametrize("members", [1, 2, 3, 5, 8])
def test_all_members_of_the_ring_have_the_same_bits_of_the_sum(members: int) -> None:
    found = summed(options_of("circle", members), members)
    for step, bucket in found["member-0"].found:
        mine = [found[name].found[step, bucket] for name in names_of(members)]
        arrays = [array_of(rank, step, mine[0].size).astype(np.float64) for rank in range(members)]
        assert len({array.tobytes() for array in mine}) == 1
        largest = sum(map(np.abs, arrays))
        assert (np.abs(mine[0] - sum(arrays)) <= 1e-6 * largest).all()


@pytest.mark.parametrize(
    "strategy",
    [
        {"preset": "replicas", "exchange": "circle"},
        {"preset": "one-weird-trick", "exchange": "host"},
        {"preset": "tallied"},
    ],
    ids=lambda strategy: strategy["preset"],
)
def test_their_declared_traffic_is_the_traffic_that_they_send(
    tmp_path: Path, strategy: dict[str, str]
) -> None:
    of = topology(**strategy, workers=3)
    assert measured(of, tmp_path) == {
        link: {kind: ITERATIONS * (size or 0) for kind, size in kinds.items()}
        for link, kinds in traffic(of).items()
    }


def test_every_preset_of_replicas_takes_every_exchange() -> None:
    for preset in (
        "replicas",
        "firecaffe",
        "host-accumulate",
        "sparknet",
        "dl4j",
        "one-weird-trick",
    ):
        for exchange in ("collective", "tree", "host", "circle"):
            of = topology(preset, workers=3, exchange=exchange)
            (kind,) = {
                actor.options.exchange.kind
                for actor in of.actors
                if hasattr(actor.options, "exchange")
            }
            assert kind == exchange


# -- error messages

MISTAKES = {
    "a preset's name": (
        'preset = "talied"',
        (r"preset: found 'talied' \(string\), expected " r".*'tallied' or 'auto'"),
    ),
    "an exchange's name": (
        'preset = "replicas"\nexchange = "circel"',
        (
            r"exchange: found 'circel' \(string\), expected 'collective' or .* or 'circle' \(did "
            r"you mean 'circle'"
        ),
    ),
    "an exchange without replicas": (
        'preset = "sync"\nexchange = "circle"',
        (
            "exchange: found 'circle', but the workers of preset 'sync' hold no replicas that "
            "exchange sums$"
        ),
    ),
    "an order that does not repeat": (
        'preset = "replicas"\nexchange = "circle"\nworkers = 2\nreproducible = true',
        "reproducible: found true, but exchange 'circle' adds up in its own order",
    ),
    "an option": (
        'preset = "tallied"\n[train.strategy.options]\nevry = 2',
        r"options\.evry: unknown key \(did you mean 'every'\?\)$",
    ),
    "an option's type": (
        'preset = "tallied"\n[train.strategy.options]\nevery = "2"',
        r"options\.every: found str, expected int$",
    ),
    "options of a preset that has none": (
        'preset = "sync"\n[train.strategy.options]\nevery = 2',
        "options: found a table, but preset 'sync' has no options of its own$",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_an_impossible_setting_is_one_line_with_its_key(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text, expected = MISTAKES[name]
    monkeypatch.chdir(tmp_path)
    Path("cluster.toml").write_text(f"[train.strategy]\n{text}\n")
    assert main(["check", "cluster.toml"]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert re.search(rf"^cluster.toml:\d+: train\.strategy\.{expected}", line), line


@pytest.mark.parametrize(
    ("group", "key", "place", "expected"),
    [
        (
            "convoy.presets",
            "preset",
            "no_such_module:X",
            (r"convoy\.presets: 'odd' of other " r"1\.0 .* cannot be imported"),
        ),
        (
            "convoy.presets",
            "preset",
            "tests.stranger.ring:__doc__",
            ("preset 'odd': found .*, expected a roles"),
        ),
        (
            "convoy.exchanges",
            "exchange",
            "tests.stranger.ring:parts",
            ("exchange 'odd': found .*, expected a class on"),
        ),
    ],
)
def test_an_entry_point_of_the_wrong_kind_is_reported(
    install: Install, group: str, key: str, place: str, expected: str
) -> None:
    install({group: {"odd": place}}, package="other")
    with pytest.raises(ConfigError, match=rf"^training\(\): train\.strategy\.{key}: {expected}"):
        roles.training({"strategy": {"preset": "replicas", key: "odd"}})
