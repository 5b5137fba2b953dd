"""The reports of a run next to its iterations: epochs, training accuracy, and the best test."""

from __future__ import annotations

from pathlib import Path

import pytest

from nets.definition.spec import ZOO
from tests.helpers.support import configure, train

IMAGES = 1438  # of the digits for training


@pytest.mark.parametrize(("preset", "workers", "groups"), [("omnivore", 2, 1), ("omnivore", 2, 2)])
def test_a_progress_report_has_the_epochs_of_its_iterations(
    tmp_path: Path, preset: str, workers: int, groups: int
) -> None:
    cluster = configure(tmp_path, preset, workers=workers, groups=groups, iterations=5, batch=16)
    reports = train(cluster, checkpoint=False).journal.of("progress")
    assert [report["iteration"] for report in reports] == [1, 2, 3, 4, 5]
    assert [report["epoch"] for report in reports] == [
        pytest.approx(16 * done / IMAGES) for done in range(1, 6)
    ]


def test_epochs_go_on_where_a_resumed_run_began(tmp_path: Path) -> None:
    cluster = configure(tmp_path, "single", iterations=3, batch=16)
    train(cluster)
    (checkpoint,) = tmp_path.glob("*.safetensors")
    cluster.write_text(
        cluster.read_text().replace(
            "[train]\n", f'[train]\nmax_iter = 5\nresume = "{checkpoint.name}"\n', 1
        )
    )
    reports = train(cluster, checkpoint=False).journal.of("progress")
    assert [report["epoch"] for report in reports] == [
        pytest.approx(16 * done / IMAGES) for done in (4, 5)
    ]


@pytest.mark.parametrize("preset", ["single", "omnivore", "replicas"])
def test_an_accuracy_layer_of_the_training_net_is_reported_for_the_batch(
    tmp_path: Path, preset: str
) -> None:
    workers = 1 if preset == "single" else 2
    cluster = configure(tmp_path, preset, workers=workers, iterations=3, batch=16)
    text = (ZOO / "lenet.prototxt").read_text()
    layer = 'layer { name: "hits" type: "Accuracy" bottom: "ip2" bottom: "label" top: "hits" }\n'
    (tmp_path / "net.prototxt").write_text(text + layer)
    solver = tmp_path / "solver.prototxt"
    solver.write_text(solver.read_text().replace("lenet.prototxt", "net.prototxt"))
    reports = train(cluster, checkpoint=False).journal.of("progress")
    hits = [report["train_hits"] for report in reports]
    assert all(16 * value == pytest.approx(round(16 * value)) for value in hits)
    assert all(0 <= value <= 1 for value in hits)
    losses = [report["loss"] for report in reports]
    solver.write_text(solver.read_text().replace("net.prototxt", "lenet.prototxt"))
    plain = train(cluster, checkpoint=False).journal.of("progress")
    assert [report["loss"] for report in plain] == losses
    assert not any("train_hits" in report or "train_accuracy" in report for report in plain)


def test_the_last_report_has_the_best_test_and_its_iteration(tmp_path: Path) -> None:
    cluster = configure(tmp_path, "single", iterations=12, batch=16, test=True)
    solver = tmp_path / "solver.prototxt"
    solver.write_text(solver.read_text() + "test_interval: 3\n")
    journal = train(cluster, checkpoint=False).journal
    tests = {report["iteration"]: report["accuracy"] for report in journal.of("test")}
    (ended,) = journal.of("finished")
    best = max(tests.values())
    first = min(at for at, value in tests.items() if value == best)
    assert (ended["best_accuracy"], ended["best_iteration"]) == (best, first)
    cluster.write_text(cluster.read_text() + '[checkpoint]\nbest = "loss"\n')
    journal = train(cluster, checkpoint=False).journal
    losses = {report["iteration"]: report["loss"] for report in journal.of("test")}
    (ended,) = journal.of("finished")
    assert ended["best_loss"] == min(losses.values()) == losses[ended["best_iteration"]]
    assert "best_accuracy" not in ended


def test_a_run_without_tests_names_no_best_test(tmp_path: Path) -> None:
    journal = train(configure(tmp_path, "single", iterations=1), checkpoint=False).journal
    (ended,) = journal.of("finished")
    assert not any(name.startswith("best") for name in ended)
