"""The figures of a run's reports, each computed by hand."""

from __future__ import annotations

import pytest

from roles.learning.scoreboard import Iteration, Scoreboard, mean_scores


def test_a_report_holds_the_means_since_the_last_one() -> None:
    board = Scoreboard()
    board.begin(100.0)
    for loss, staleness in ((2.0, 0), (1.0, 3)):
        board.trained(Iteration(loss, staleness=staleness), 10, 0.1)
    first = {
        "iteration": 2,
        "max_iter": 8,
        "loss": 1.5,
        "learning_rate": 0.1,
        "elapsed_seconds": 4.0,
    }
    assert board.progress(2, 8, 104.0) == {**first, "images_per_second": 5.0, "staleness": 1.5}
    board.trained(Iteration(0.5, staleness=1), 30, 0.2)
    then = {
        "iteration": 5,
        "max_iter": 8,
        "loss": 0.5,
        "learning_rate": 0.2,
        "elapsed_seconds": 5.0,
    }
    assert board.progress(5, 8, 105.0) == {**then, "images_per_second": 30.0, "staleness": 1.0}


def test_elapsed_seconds_count_tests_and_checkpoints_and_images_a_second_do_not() -> None:
    board = Scoreboard()
    board.begin(100.0)
    board.trained(Iteration(1.0), 40, 0.1)
    board.pause(104.0)
    board.resume(110.0)
    shown = board.progress(1, 8, 110.0)
    assert (shown["elapsed_seconds"], shown["images_per_second"]) == (10.0, 10.0)


def test_a_report_of_nothing_is_zero_not_an_error() -> None:
    board = Scoreboard()
    board.begin(5.0)
    shown = board.progress(0, 8, 5.0)
    assert (
        shown["loss"],
        shown["elapsed_seconds"],
        shown["images_per_second"],
        shown["staleness"],
    ) == (0, 0, 0, 0)
    assert board.test_result() == {}
    assert board.summary(0, 5.0) == {"iterations": 0, "seconds": 0.0, "images_per_second": 0.0}


def test_the_result_of_a_test_weighs_its_batches_by_their_rows() -> None:
    board = Scoreboard()
    board.tested("TEST", 100, {"accuracy": 0.9, "loss": 0.2})
    board.tested("TEST", 50, {"accuracy": 0.6, "loss": 0.5})
    assert board.test_result() == pytest.approx({"accuracy": 0.8, "loss": 0.3})


def test_the_next_test_starts_from_zero() -> None:
    board = Scoreboard()
    board.tested("TEST", 10, {"accuracy": 0.0})
    board.test_result()
    board.tested("TEST", 10, {"accuracy": 1.0})
    assert board.test_result() == {"accuracy": 1.0}


def test_reports_after_a_test_show_its_scores_but_not_its_loss_in_place_of_the_training_loss() -> (
    None
):
    board = Scoreboard()
    board.begin(0.0)
    board.tested("TEST", 10, {"accuracy": 0.75, "loss": 9.0})
    board.test_result()
    board.trained(Iteration(0.5), 10, 0.1)
    shown = board.progress(1, 2, 1.0)
    assert (shown["accuracy"], shown["loss"]) == (0.75, 0.5)
    assert board.summary(1, 1.0)["accuracy"] == 0.75


def test_images_are_counted_for_the_batches_of_this_run_only() -> None:
    board = Scoreboard()
    board.begin(50.0)
    for images in (10, 10, 80):
        board.trained(Iteration(), images, 0.1)
    assert board.progress(103, 120, 60.0)["images_per_second"] == 10.0
    board.trained(Iteration(), 100, 0.1)
    assert board.summary(120, 60.0) == {
        "iterations": 120,
        "seconds": 10.0,
        "images_per_second": 20.0,
    }


def test_exposed_communication_is_a_mean_over_workers_and_iterations_and_left_out_if_unknown() -> (
    None
):
    board = Scoreboard()
    board.begin(0.0)
    for seconds in ([0.1, 0.3], [0.0, 0.4]):
        board.trained(Iteration(exposed=seconds), 10, 0.1)
    assert board.progress(2, 8, 1.0)["exposed_seconds"] == pytest.approx(0.2)
    board.trained(Iteration(exposed=[0.0]), 10, 0.1)
    assert "exposed_seconds" not in board.progress(3, 8, 2.0)


def test_scores_of_parts_of_a_batch_are_weighed_by_their_rows() -> None:
    assert mean_scores([(3, {"loss": 1.0}), (1, {"loss": 5.0})]) == {"loss": 2.0}
    whole = {"loss": 0.1 + 0.2}
    assert mean_scores([(3, whole), (4, dict(whole))]) == whole  # to the last bit


def test_with_average_loss_a_report_holds_the_mean_of_so_many_iterations() -> None:
    board = Scoreboard(average=3)
    board.begin(0.0)
    for done, loss in enumerate((8.0, 1.0, 2.0), 1):
        board.trained(Iteration(loss), 10, 0.1)
        shown = board.progress(done, 8, float(done))
    assert shown["loss"] == pytest.approx(11 / 3)
    board.trained(Iteration(6.0), 10, 0.1)
    # the mean of the last three, whenever the last report was
    assert board.progress(4, 8, 4.0)["loss"] == 3.0


def test_the_tests_of_several_nets_are_kept_apart_and_reports_show_the_first_net() -> None:
    board = Scoreboard()
    board.tested("TEST", 10, {"accuracy": 0.5})
    board.tested("TEST 1", 10, {"accuracy": 1.0})
    assert [board.test_result(phase) for phase in ("TEST", "TEST 1")] == [
        {"accuracy": 0.5},
        {"accuracy": 1.0},
    ]
    assert board.summary(0, 1.0)["accuracy"] == 0.5


def test_iterations_of_a_kept_probe_count_with_their_own_seconds() -> None:
    board = Scoreboard()
    board.begin(0.0)
    board.pause(1.0)
    for _ in range(2):  # the run is held all the time
        board.resume(9.0)
        board.kept(0.5)
        board.trained(Iteration(1.0), 10, 0.1)
        board.pause(9.0)
    board.resume(9.0)
    assert board.lap(9.5) == pytest.approx(1.5)  # of training, without the probe
    shown = board.progress(2, 8, 9.5)
    assert shown["images_per_second"] == pytest.approx(20 / 2.5)


def test_losses_of_iterations_that_were_undone_are_in_no_report() -> None:
    board = Scoreboard()
    board.begin(0.0)
    board.trained(Iteration(900.0, staleness=7), 10, 0.1)
    board.undone()
    board.trained(Iteration(2.0, staleness=1), 10, 0.1)
    shown = board.progress(1, 8, 1.0)
    assert (shown["loss"], shown["staleness"]) == (2.0, 1)
