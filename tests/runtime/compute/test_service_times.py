"""Profiles of service times: measured times are replayed, distributions have their moments, and
seeds decide the draws.
"""

from __future__ import annotations

import asyncio
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runtime.compute.emulated_device import EmulatedDevice, Turns, device_here, device_of
from runtime.compute.service_times import Recorder, ServiceTimes, as_text, gather, read_table
from runtime.errors import ConfigError, ProgramFailed
from runtime.simulation.clock import VirtualTimeLoop, run_virtual


def drawn(value: Any, count: int = 1, seed: int = 1, rows: int = 0) -> list[float]:
    times = ServiceTimes({"worker/*": value}, seed)
    return [times.seconds("w-0", "worker", "forward", rows) for _ in range(count)]


def test_a_number_is_the_time_of_every_piece() -> None:
    assert drawn(0.25, 3) == [0.25] * 3


def test_measured_times_are_replayed_each_as_often_as_the_others() -> None:
    found = drawn([0.1, 0.2, 0.4], 3000)
    assert set(found) == {0.1, 0.2, 0.4}
    assert [found.count(value) / 3000 for value in (0.1, 0.2, 0.4)] == pytest.approx(
        [1 / 3] * 3, abs=0.03
    )


@pytest.mark.parametrize("law", ["lognormal", "gamma"])
@pytest.mark.parametrize("cv", [0.1, 1.0])
def test_a_law_has_the_given_mean_and_coefficient_of_variation(law: str, cv: float) -> None:
    found = np.array(drawn({"mean": 0.02, "cv": cv, "law": law}, 40_000))
    assert found.min() >= 0
    assert found.mean() == pytest.approx(0.02, rel=0.03)
    assert found.std() / found.mean() == pytest.approx(cv, rel=0.06)


def test_without_variation_the_mean_is_the_time() -> None:
    assert drawn({"mean": 0.02}, 2) == [0.02, 0.02]


def test_work_on_twice_the_rows_takes_twice_as_long_where_the_profile_knows_its_rows() -> None:
    assert drawn({"seconds": [0.5], "rows": 32}, rows=64) == [1.0]
    assert drawn({"seconds": [0.5], "rows": 32}) == [0.5]
    assert drawn({"seconds": [0.5]}, rows=64) == [0.5]


def test_the_same_seed_gives_an_actor_the_same_times_whatever_the_others_do() -> None:
    table = {"*/*": {"mean": 1.0, "cv": 1.0}}
    alone = ServiceTimes(table, 7)
    beside = ServiceTimes(table, 7)
    mine = [alone.seconds("a", "r", "x") for _ in range(5)]
    among = []
    for _ in range(5):
        beside.seconds("b", "r", "x")
        among.append(beside.seconds("a", "r", "x"))
        beside.seconds("a", "r", "y")
    assert mine == among
    assert mine != [ServiceTimes(table, 8).seconds("a", "r", "x") for _ in range(5)]


def test_the_first_entry_that_fits_role_or_actor_and_label_counts() -> None:
    times = ServiceTimes(
        {"slow-*/forward *": 3.0, "worker/forward *": 2.0, "worker/*": 1.0, "*/*": 0.0}, 1
    )
    found = [
        times.seconds(*key)
        for key in (("slow-1", "worker", "forward conv1"), ("w", "worker", "forward a/b"))
    ]
    assert found == [3.0, 2.0]
    assert times.seconds("w", "worker", "backward conv1") == 1.0
    assert times.seconds("s", "server", "update") == 0.0


def test_work_that_no_entry_fits_is_an_error_that_names_it() -> None:
    with pytest.raises(ProgramFailed, match=r"no entry fits 'server/update' \(actor s-0\)"):
        ServiceTimes({"worker/*": 1.0}, 1).seconds("s-0", "server", "update")


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"mean": 1, "laws": "gamma"}, r"unknown key 'laws' \(did you mean 'law'\?\)"),
        ({"mean": -1}, "mean: found -1, expected a finite number >= 0"),
        ({"mean": 1e-320}, r"mean: found 1e-320, expected 0 or 1e-12 to 1e\+15"),
        ([0.1, 1e308], r"seconds: found 1e\+308, expected 0 or 1e-12 to 1e\+15"),
        ({"mean": 1, "cv": 1e-155}, "cv: found 1e-155, expected 0 or 1e-06 to 1000"),
        ({"mean": 1, "cv": 1e6}, "cv: found 1000000.0, expected 0 or 1e-06 to 1000"),
        ({"mean": 1, "rows": 1e-300}, r"rows: found 1e-300, expected 0 or 1 to 1e\+09"),
        (
            {"mean": 1, "law": "gama"},
            (r"law: found 'gama', expected one of lognormal, gamma " r"\(did you mean 'gamma'\?\)"),
        ),
        ({"mean": 1, "seconds": [1]}, "expected either 'seconds' or 'mean'"),
        ([], r"seconds: found \[\], expected numbers >= 0"),
        (["1"], "seconds: found '1', expected a finite number >= 0"),
        (True, "seconds: found True, expected a finite number >= 0"),
    ],
)
def test_a_mistake_in_a_profile_is_named_with_its_key(value: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=rf"p\.json: 'worker/x': {said}"):
        ServiceTimes({"worker/x": value}, 1, "p.json")


def test_all_mistakes_of_a_profile_are_reported_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        ServiceTimes({"worker": 1, "worker/a": "x", "worker/b": 1}, 1, "p.json")
    assert len(caught.value.problems) == 2
    assert "expected WHO/LABEL" in caught.value.problems[0]


@pytest.mark.parametrize(
    ("text", "said"), [("{", "are not valid JSON"), ("[1]", "found list, expected a JSON table")]
)
def test_a_file_that_is_not_a_profile_is_named(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "p.json").write_text(text)
    with pytest.raises(ConfigError, match=said):
        read_table(tmp_path / "p.json")
    with pytest.raises(ConfigError, match="cannot be read"):
        read_table(tmp_path / "missing.json")


def test_the_records_of_several_processes_become_one_profile_that_reads_back(
    tmp_path: Path,
) -> None:
    for process, seconds in (("a", 0.1), ("b", 0.2)):
        recorder = Recorder()
        recorder.note("worker", "forward", seconds)
        recorder.note("server", "update", 1.0)
        recorder.leave(tmp_path, process)
    found = gather(tmp_path)
    assert found == {"server/update": [1.0, 1.0], "worker/forward": [0.1, 0.2]}
    assert list(tmp_path.iterdir()) == []
    assert json.loads(as_text(found)) == found
    assert ServiceTimes(found, 1).seconds("s", "server", "update") == 1.0


@pytest.mark.parametrize(("processes", "other"), [("12", 2.0), ("11", 6.0)])
def test_emulated_actors_share_the_device_of_their_process_which_does_one_piece_at_a_time(
    processes: str, other: float
) -> None:
    async def main() -> list[tuple[str, float]]:
        times = ServiceTimes({"*/*": 2.0}, 1)
        ends = []
        turns = {process: Turns() for process in processes}
        devices = {
            name: EmulatedDevice("worker", times, turns[process])
            for name, process in zip("ab", processes, strict=True)
        }

        async def piece(name: str) -> None:
            await devices[name].run(name, "work", lambda: None)
            ends.append((name, asyncio.get_running_loop().time()))

        await asyncio.gather(piece("a"), piece("a"), piece("b"))
        return sorted(ends)

    assert run_virtual(main()) == [("a", 2.0), ("a", 4.0), ("b", other)]


class CoarseLoop(VirtualTimeLoop):
    """A loop whose timers ring at whole milliseconds, as those of a real loop do."""

    def call_at(self, when: float, *args: Any, **kwargs: Any) -> asyncio.TimerHandle:
        return super().call_at(math.ceil(when * 1000) / 1000, *args, **kwargs)


@pytest.mark.parametrize(("seconds", "pieces"), [(0.0004, 500), (0.0013, 300)])
def test_timers_that_ring_late_do_not_add_up(seconds: float, pieces: int) -> None:
    async def main() -> float:
        device = EmulatedDevice("worker", ServiceTimes({"*/*": seconds}, 1), Turns())
        for _ in range(pieces):
            await device.run("a", "work", lambda: None)
        return asyncio.get_running_loop().time()

    with asyncio.Runner(loop_factory=CoarseLoop) as runner:
        assert runner.run(main()) == pytest.approx(seconds * pieces, abs=0.003)


def test_work_can_report_its_number_of_rows_only_to_the_device_that_runs_it() -> None:
    async def main() -> float:
        times = ServiceTimes({"*/*": {"mean": 1.0, "rows": 10}}, 1)
        device = EmulatedDevice("worker", times, Turns())

        def work() -> None:
            here = device_here()
            assert here is device
            here.is_about(30)

        await device.run("a", "work", work)
        assert device_here() is None
        return device.busy

    assert run_virtual(main()) == 3.0


def test_an_actor_has_its_own_device_only_if_its_topology_says_so(tmp_path: Path) -> None:
    assert device_of("r", None, Turns()) is None
    free = device_of("r", {"profile": "", "seed": 1}, Turns())
    (tmp_path / "p.json").write_text('{"r/*": 0.5}')
    timed = device_of("r", {"profile": str(tmp_path / "p.json"), "seed": 1}, Turns())
    assert free is not None and timed is not None

    async def main() -> tuple[float, float]:
        for device in (free, timed):
            await device.run("a", "work", lambda: None)
        return free.busy, timed.busy

    assert run_virtual(main()) == (0.0, 0.5)
