"""The benchmark of scaling: its clusters at a small size, and its verdicts on figures that miss
their bars."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.helpers.report import Record
from benchmarks.scaling import scaling
from benchmarks.scaling.runs import GIGABIT, Wanted, one_layer, simulated
from roles.messages import LayerGradient


def test_a_net_of_one_layer_sends_its_gradients_in_one_message_of_the_size_that_is_asked_for(
    tmp_path: Path,
) -> None:
    net = one_layer(tmp_path, 3_000_000)
    wanted = Wanted(
        "parameter-server", 2, iterations=2, net=net, shape=(3, 50, 50), more=scaling.LINKS
    )
    sizes = [
        transfer.size
        for transfer in simulated(wanted.write(tmp_path)).transfers
        if isinstance(transfer.envelope.message, LayerGradient)
    ]
    assert len(sizes) == 2 * 2
    assert sizes == [pytest.approx(3_000_000, rel=0.02)] * 4


@pytest.mark.parametrize("workers", [2, 4])
def test_server_and_tree_take_the_time_of_their_equations(tmp_path: Path, workers: int) -> None:
    record = Record("r")
    net = one_layer(tmp_path, scaling.GRADIENTS)
    server, tree = (
        scaling.exchange(preset, workers, net, tmp_path)
        for preset in (scaling.SERVERS, scaling.TREE)
    )
    one = scaling.GRADIENTS / GIGABIT
    assert scaling.seconds_in(server) == pytest.approx(workers * one, rel=0.01)
    assert server.seconds() == [pytest.approx(2 * workers * one, rel=0.01)] * 5
    assert tree.seconds() == [pytest.approx(2 * {2: 1, 4: 2}[workers] * one, rel=0.01)] * 5
    assert record.status == "running"


def test_the_part_on_staleness_sees_g_minus_1_and_a_fresh_fc_phase(tmp_path: Path) -> None:
    record = Record("r")
    scaling.staleness(record, tmp_path, most=2)
    assert record.tables[0].rows == [[1, 60, 0, 0, 0], [2, 120, pytest.approx(1, abs=0.1), 1, 0]]
    assert record.status == "running"


def test_the_part_on_shares_sees_the_gain_of_proportional_shares(tmp_path: Path) -> None:
    record = Record("r")
    scaling.shares(record, tmp_path, most=2)
    assert record.status == "running"
    equal, proportional = (row[1] for row in record.tables[0].rows)
    assert equal == pytest.approx(0.6, rel=0.05)
    assert proportional == pytest.approx(0.3, rel=0.1)


def test_figures_that_miss_their_bars_are_reported_and_fail() -> None:
    record = Record("r")
    scaling.near(record, "tree", 1.1, 1.0)
    scaling.fresh(record, "4 groups", 3.2, 4)
    scaling.fresh(record, "1 group", 0.0, 1)
    assert record.status == "running"
    scaling.near(record, "tree", 1.3, 1.0)
    scaling.fresh(record, "4 groups", 3.5, 4)
    record.judge("faster", 2.0, least=3.0)
    assert record.status == "failed"
    assert [note.partition(":")[0] for note in record.notes] == [
        "MISSED tree",
        "MISSED 4 groups",
        "MISSED faster",
    ]


def test_without_a_preset_its_part_is_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = {name: preset for name, preset in scaling.PRESETS.items() if name != scaling.TREE}
    monkeypatch.setattr(scaling, "PRESETS", others)  # the order of the original table stays
    record = Record("r")
    scaling.communication(record, tmp_path, most=2)
    assert (record.status, record.notes) == ("skipped", ["no preset firecaffe"])


def test_workers_are_dealt_to_at_most_four_processes() -> None:
    assert scaling.together(1).count("[[process]]") == 1
    text = scaling.together(6)
    assert text.count("[[process]]") == 4
    assert 'actors = ["conv-0-0", "conv-4-0"]' in text
