"""Service times of a running run, computed from sums: warm-up and tests are left out, and the
window slides."""

from __future__ import annotations

import pytest

from roles.forecasting.live_times import ITERATIONS, SECONDS, LiveTimes


class Told:
    """The sums that the processes of a run would send, second by second, with iterations of half a
    second."""

    def __init__(self) -> None:
        self.live = LiveTimes("coordinator")
        self.now = 0.0
        self._sums: dict[str, dict[str, list[float]]] = {}

    def work(self, actor: str, label: str, count: int, seconds: float) -> None:
        sums = self._sums.setdefault(actor, {}).setdefault(label, [0, 0.0, 0.0])
        sums[0] += count
        sums[1] += count * seconds
        sums[2] += count * seconds**2

    def second(self, forward: float = 0.1, times: int = 1) -> Told:
        for _ in range(times):
            self.work("worker", "forward", 2, forward)
            self.work("coordinator", "iteration", 2, 0.5)
            self.tell()
        return self

    def tell(self) -> None:
        self.now += 1.0
        self.live.hear(self._sums, self.now)


def mean(told: Told) -> float:
    count, seconds, _ = told.live.work()["worker"]["forward"]
    return seconds / count


def test_the_first_pieces_which_are_slow_are_left_out() -> None:
    told = Told()
    told.work("worker", "build", 1, 7.0)
    told.tell()
    told.second(forward=3.0).second(forward=2.0)
    assert (told.live.iterations, told.live.iteration_seconds, told.live.use()) == (0, 0.0, {})
    told.second().second()
    assert mean(told) == pytest.approx(0.1)
    assert (told.live.iterations, told.live.iteration_seconds) == (4, 0.5)
    assert told.live.use()["worker"] == pytest.approx(0.2)


def test_the_window_holds_as_many_seconds_and_iterations_as_it_needs_and_twice_as_many_at_most() -> (
    None
):
    told = Told().second()
    lengths = [told.second().live.iterations for _ in range(100)][20:]
    assert min(lengths) >= max(ITERATIONS, 2 * SECONDS)
    assert max(lengths) <= 2 * max(ITERATIONS, 2 * SECONDS)
    told.second(forward=0.2, times=40)
    assert mean(told) == pytest.approx(0.2)


def test_tests_and_checkpoints_count_neither_as_work_of_training_nor_as_its_time() -> None:
    told = Told().second(times=4)
    told.work("worker", "test conv1", 5, 0.1)
    told.work("worker", "fc TEST", 5, 0.1)
    told.tell()  # a second in which no iteration ended
    assert set(told.live.work()["worker"]) == {"forward"}
    assert told.live.iteration_seconds == 0.5
    assert told.live.use()["worker"] == pytest.approx(0.2)


def test_work_done_before_the_run_changed_does_not_count_in_a_late_report() -> None:
    told = Told().second(times=4)
    told.second(forward=3.0)
    told.work("worker", "forward", 2, 3.0)  # work since the last report
    told.live.begin_with_the_next()
    told.second()
    assert (told.live.iterations, told.live.work()) == (0, {})
    told.second(times=3)
    assert mean(told) == pytest.approx(0.1)
    assert told.live.iterations == 6


def test_processor_time_is_reported_by_agents_and_does_not_count_as_their_work() -> None:
    told = Told().second(times=3)
    for _ in range(4):
        told.work("worker/agent", "processor", 1, 0.7)
        told.work("server/agent", "processor", 1, 0.4)
        told.second()
    assert told.live.processors() == pytest.approx(1.1)
    assert set(told.live.work()) == {"worker"}
    assert set(told.live.use()) == {"worker"}


def test_after_a_change_of_the_run_earlier_reports_do_not_count() -> None:
    told = Told().second(forward=0.1, times=5)
    told.live.begin_anew()
    assert told.live.iterations == 0
    told.second(forward=0.4, times=2)
    assert mean(told) == pytest.approx(0.4)


def test_a_process_that_was_restarted_restarts_its_sums() -> None:
    told = Told().second(times=5)
    told._sums["worker"] = {}
    told.second(forward=9.0).second(forward=0.3)
    assert told.live.work()["worker"]["forward"] == (2.0, pytest.approx(0.6), pytest.approx(0.18))


def test_a_run_without_reports_has_no_times() -> None:
    live = LiveTimes("coordinator")
    assert (live.iterations, live.iteration_seconds, live.work(), live.use()) == (0, 0.0, {}, {})
    assert repr(live) == "<live times of 0 actors, 0 iterations>"
