"""The task of the part about a recurrent net, without a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.tuning.recurrent import SEQUENCE, STEPS, STREAMS, TEXT, letters
from roles.options import Options
from roles.planning.planner import plan
from runtime.config.file import of_script, program_options


@pytest.mark.skipif(not TEXT.is_file(), reason="needs the folder shakespeare in ../shared/data")
def test_the_task_hands_its_states_on_for_a_sequence_of_batches(tmp_path: Path) -> None:
    task = letters(tmp_path)
    strategy = {"preset": "omnivore", "workers": 2, "groups": 2}
    said = {"train": {**task.options, "strategy": strategy}}
    config = of_script("task", said, tmp_path)
    topology = plan(config, program_options(config, Options))
    (lead,) = (actor.options for actor in topology.actors if actor.name == topology.lead)
    assert lead.sequence == SEQUENCE
    assert lead.job.batch == STREAMS
    assert lead.job.data["TRAIN"]["length"] == SEQUENCE * STEPS
