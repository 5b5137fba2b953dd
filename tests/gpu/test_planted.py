"""Faults that a replay or a graph could have, planted one by one: each leaves other numbers than
plain steps, or is found when the recording is tried."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.fake_cuda.processes import command, on_fake_cuda

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

# Faults that show in every order, and those that show in some.
IN_ORDER = {
    "numbers_are_written_before_the_device_has_read_the_last_ones",
    "scores_are_read_without_a_wait",
    "a_graph_is_launched_over_memory_that_has_moved",
    "calls_are_replayed_over_memory_that_has_moved",
    "a_part_is_launched_over_memory_that_has_moved",
    "the_rate_is_an_argument_of_a_captured_kernel",
    "the_key_of_dropout_is_an_argument_of_a_recorded_kernel",
}
DRAWN = {
    "a_graph_is_launched_in_another_stream",
    "arrays_that_leave_are_copied_in_another_stream",
    "images_and_numbers_arrive_in_another_stream",
}


@pytest.mark.parametrize("name", sorted(IN_ORDER | DRAWN))
def test_a_planted_fault_is_found_and_the_right_form_has_the_bits_of_plain_steps(
    name: str, stand_in: Path
) -> None:
    done = command(["-m", "tests.gpu.planted", name], on_fake_cuda(stand_in))
    assert done.returncode == 0, done.stderr
    wrong = json.loads(done.stdout)
    assert wrong["right"] == []
    assert (0 in wrong["planted"]) == (name in IN_ORDER)
    assert len(wrong["planted"]) >= 3, wrong
