"""Kinds of machines to rent: the built-in ones are complete, and mistakes in a user's file are
reported by line."""

from __future__ import annotations

from pathlib import Path

import pytest

from roles.forecasting.catalogue import OURS, kind_called, kinds
from runtime import ConfigError

RENTED = {"c4.4xlarge", "c4.8xlarge", "g2.2xlarge", "g2.8xlarge"}


def test_the_built_in_machines_are_those_of_the_four_papers_with_a_source_each() -> None:
    known = kinds()
    assert set(known) == RENTED | {"g2.8xlarge-1gpu", "titan-k20x", "k20", "power8-p100"}
    assert known["c4.4xlarge"].achieved == pytest.approx(742e9 * 0.56)
    assert known["g2.8xlarge"].bytes_per_second == 1_250_000_000
    assert {name for name, kind in known.items() if kind.price_per_hour} == RENTED
    assert known["k20"].achieved == pytest.approx(2e12, rel=0.01)  # as One weird trick counts it
    text = OURS.read_text("utf-8")
    for paper in ("Omnivore", "FireCaffe", "One weird trick", "Accumulating"):
        assert paper in text


def test_the_machines_take_the_times_that_their_papers_tell() -> None:
    known = kinds()
    images = 1_281_167  # of an epoch
    nin = 47 * images * 6.7e12 / 1024  # FireCaffe, Tables 1 and 2, on a K20
    k20_of_firecaffe = known["titan-k20x"].share * known["k20"].flops
    assert nin / k20_of_firecaffe / 86400 == pytest.approx(5.8, rel=0.05)
    alexnet = 21_000 * 256 * 4.14e9  # each of four P100
    assert alexnet / known["power8-p100"].achieved / 60 == pytest.approx(62, rel=0.05)


def test_a_gpu_of_omnivore_has_twice_the_peak_of_the_processors_next_to_it() -> None:
    kind = kinds()["g2.8xlarge-1gpu"]
    assert kind.cpu_flops is not None
    assert kind.flops / kind.cpu_flops == pytest.approx(2, rel=0.1)  # "The ratio is therefore 1:2"
    assert kind.cpu_achieved == pytest.approx(665.6e9 * 0.40)
    assert kinds()["k20"].cpu_achieved is None


def test_processes_beyond_the_devices_of_a_machine_share_them() -> None:
    gpus = kinds()["power8-p100"]
    assert [gpus.of_each(count) / gpus.achieved for count in (1, 4, 8)] == [1, 1, 0.5]
    cpus = kinds()["c4.4xlarge"]
    assert [cpus.of_each(count) / cpus.achieved for count in (1, 4)] == [1, 0.25]


def test_a_catalogue_of_the_user_is_read_with_its_defaults(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text("[machine.mine]\nflops = 2e12\nshare = 0.5\n")
    mine = kind_called("mine", tmp_path / "mine.toml")
    assert (mine.achieved, mine.bytes_per_second, mine.latency, mine.price_per_hour) == (
        1e12,
        None,
        None,
        None,
    )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "flops = 0\nshare = 0.5",
            (":2: machine.a.flops: found 0 (integer), expected a finite number > 0"),
        ),
        (
            "flops = 1e9\nshare = 56",
            (":3: machine.a.share: found 56 (integer), expected a number > 0 and <= 1"),
        ),
        ("flops = 1e9", ":1: machine.a.share: missing, expected a number > 0 and <= 1"),
        (
            ("flops = 1e9\nshare = 1.0\nbytes_per_second = 0"),
            ":4: machine.a.bytes_per_second: found 0 (integer)",
        ),
        (
            ("flops = 1e9\nshare = 1.0\nprice_per_hour = -1"),
            ":4: machine.a.price_per_hour: found -1 (integer)",
        ),
        ("flops = 1e9\nshare = 1.0\ndevices = 0", ":4: machine.a.devices: found 0 (integer)"),
        ("flops = 1e9\nshare = 1.0\nprize = 1", ":4: machine.a.prize: unknown key"),
    ],
)
def test_a_mistake_in_a_catalogue_is_reported_by_line(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "m.toml").write_text(f"[machine.a]\n{text}\n")
    with pytest.raises(ConfigError) as found:
        kinds(tmp_path / "m.toml")
    (line,) = found.value.problems
    assert f"m.toml{told}" in line


@pytest.mark.parametrize(("text", "found"), [("", "missing"), ("[machine]\n", "found a table")])
def test_an_empty_catalogue_is_refused(tmp_path: Path, text: str, found: str) -> None:
    (tmp_path / "m.toml").write_text(text)
    told = rf"m.toml:1: machine: {found}, expected a non-empty table"
    with pytest.raises(ConfigError, match=told):
        kinds(tmp_path / "m.toml")


def test_an_unknown_kind_is_reported_with_the_nearest_name() -> None:
    with pytest.raises(ConfigError) as found:
        kind_called("c4.4xlarg")
    assert found.value.problems == [
        ("--machine c4.4xlarg: no such kind in the catalogue (did you mean 'c4.4xlarge'?)")
    ]
