"""The run that follows another: the configuration and the checkpoint from which it is planned, also
after the memory of the checkpoint is closed.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nets.files import checkpoint
from roles.learning.resume import KEPT
from runtime.cluster.clients import Scale
from runtime.config.recorded import dump
from runtime.errors import ConfigError
from runtime.recovery.next_run import healed, scaled, without
from runtime.runs.checking import Checked, check
from tests.helpers.support import configure, train

KEPT_BY = '{"by": "replica-0", "run": "runs/one", "tested": -1}'


def from_memory(folder: Path, *, more: str = "") -> tuple[Checked, Checked, int, Path]:
    """A run, the run that resumes from a replica's memory, the open file of that memory, and its
    path.
    """
    cluster = configure(folder, "replicas", workers=2, iterations=6, more=more)
    state = train(cluster)
    cluster.write_text(cluster.read_text().replace("[train]\n", "[train]\nmax_iter = 9\n"))
    before = check(cluster)
    facts = checkpoint.metadata(folder / "checkpoint-0000006.safetensors")
    file = checkpoint.in_memory(state.arrays, {**facts, KEPT: KEPT_BY})
    memory = Path(f"/proc/{os.getpid()}/fd/{file}")
    found, told = healed(before, memory, folder)
    assert told == ["resumes    the state that replica-0 had in memory: iteration 6"]
    return before, found, file, memory


def test_a_run_resumes_from_memory_with_the_configuration_of_the_run_before(tmp_path: Path) -> None:
    before, found, file, memory = from_memory(tmp_path)
    os.close(file)
    lead = next(
        a for a in found.placement.topology.actors if a.name == found.placement.topology.lead
    )
    assert lead.options.job.resume == str(memory)
    written = dump(found.loaded.config, found.loaded.options)
    assert str(memory) not in written
    assert written == dump(before.loaded.config, before.loaded.options)


def test_a_run_that_began_from_memory_is_scaled_and_moved_after_that_memory_is_closed(
    tmp_path: Path,
) -> None:
    more = "".join(
        (f'[[machine]]\nname = "{name}"\naddress = "127.0.0.{at}"\n')
        for at, name in enumerate("ab", 1)
    )
    _, found, file, _ = from_memory(tmp_path, more=more)
    os.close(file)
    more_workers = scaled(found, found.loaded.config, Scale(workers=4))
    assert sum(actor.role == "replica" for actor in more_workers.placement.topology.actors) == 4
    assert {spec.machine for spec in without(found, ["b"]).placement.processes} == {"a"}
    for wish, why in (
        (Scale(including=("b",)), "machine 'b' is in the run"),
        (Scale(without=("b",)), "machine 'b' is not in the run"),
    ):
        now = found if wish.including else without(found, ["b"])
        with pytest.raises(ConfigError, match=f"nothing is to change: {why}"):
            scaled(now, found.loaded.config, wish)


def test_scaling_a_run_whose_agents_a_person_starts_says_that_their_lines_are_needed_again(
    tmp_path: Path,
) -> None:
    told = {}
    for kind in ("manual", "ssh"):
        (tmp_path / kind).mkdir()
        more = (
            f'[launcher]\nkind = "{kind}"\n[[machine]]\nname = "here"\n'
            '[[machine]]\nname = "there"\naddress = "192.0.2.1"\n'
        )
        found = check(configure(tmp_path / kind, "replicas", workers=2, more=more))
        told[kind] = "\n".join(scaled(found, found.loaded.config, Scale(workers=3)).warnings)
    assert "once its lines are typed on the machines" in told["manual"]
    assert "lines are typed" not in told["ssh"]
