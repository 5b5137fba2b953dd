"""The coordinator with a stand-in for the workers, on virtual time: the reports of a run."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from roles.coordination.coordinator import Coordinator
from roles.learning.job import Job
from roles.messages import STOP, TRAIN, NextTicket, PassDone, Ticket, Updated
from runtime import Actor, ActorSpec, ProgramFailed, Topology
from runtime.plan.topology import Placement, ProcessSpec
from runtime.simulation.clock import run_virtual
from runtime.simulation.cluster import Journal, simulate

JOB = Job(
    net="lenet",
    solver="lenet_digits_solver",
    data={},
    seed=1,
    batch=10,
    test_batches=(10,),
    base_directory=".",
)


class Worker(Actor):
    """A worker that runs one iteration a second with the given losses, the last one for ever. The
    model server's report of iteration `late` arrives after the worker's report of the next
    iteration."""

    def __init__(self, *, losses: list[float], late: int = -1) -> None:
        self._losses = losses
        self._late = late

    async def run(self) -> None:
        position = 0
        held: list[Updated] = []
        while True:
            ticket = await self.ask("coordinator", NextTicket(), Ticket)
            if ticket.phase == STOP:
                return
            await asyncio.sleep(1)
            loss = self._losses[min(position, len(self._losses) - 1)]
            done = PassDone(
                members=1, phase=TRAIN, number=ticket.number, rows=10, scores={"loss": loss}
            )
            await self.tell("coordinator", done)
            held.append(Updated(number=ticket.number, version=position, staleness=0))
            while held and ticket.number != self._late:
                await self.tell("coordinator", held.pop(0))
            position += 1


def train(
    directory: Path, *, first: int, last: int, losses: list[float], late: int = -1, display: int = 5
) -> Journal:
    options: dict[str, Any] = {
        "job": JOB,
        "timetable": {"first": first, "last": last, "batch": 10},
        "groups": [["worker"]],
        "updates": 1,
        "servers": [],
        "display": display,
    }
    worker = ActorSpec("worker", "worker", {"losses": losses, "late": late})
    actors = (ActorSpec("coordinator", "coordinator", options), worker)
    topology = Topology("roles", actors, (("worker", "coordinator"),), "coordinator")
    placement = Placement(
        topology, tuple(ProcessSpec(actor.name, "here", (actor.name,)) for actor in actors)
    )
    return run_virtual(
        simulate(placement, {"coordinator": Coordinator, "worker": Worker}, directory=directory)
    )


@pytest.mark.parametrize("first", [0, 100])
def test_a_resumed_run_reports_its_own_speed_not_the_speed_of_the_run_before(
    tmp_path: Path, first: int
) -> None:
    journal = train(tmp_path, first=first, last=first + 10, losses=[0.5])
    shown = journal.of("progress")
    assert [fields["iteration"] for fields in shown] == [first + n for n in (1, 5, 10)]
    assert [fields["images_per_second"] for fields in shown] == pytest.approx([10.0] * 3)
    (end,) = journal.of("finished")
    assert (end["iterations"], end["images_per_second"], end["seconds"]) == (
        first + 10,
        pytest.approx(10.0),
        pytest.approx(10.0),
    )
    assert (tmp_path / end["checkpoint"]).is_file()


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_nan_loss_ends_the_run_in_words(tmp_path: Path, bad: float) -> None:
    with pytest.raises(
        ProgramFailed,
        match=(r"at iteration 3: training diverged; the learning rate is .*, " r"try a smaller"),
    ):
        train(tmp_path, first=0, last=10, losses=[0.5, 0.5, 0.5, bad])


@pytest.mark.parametrize(("first", "since"), [(0, "yet"), (100, "since the resume")])
def test_a_nan_loss_of_the_first_iteration_is_not_blamed_on_the_rate(
    tmp_path: Path, first: int, since: str
) -> None:
    with pytest.raises(ProgramFailed) as caught:
        train(tmp_path, first=first, last=first + 10, losses=[float("nan")])
    text = str(caught.value)
    assert f"at iteration {first}: no parameter has changed {since}" in text
    assert "base_lr" not in text


def test_a_progress_report_has_the_losses_of_its_own_iterations_even_if_later_losses_arrive_first(
    tmp_path: Path,
) -> None:
    losses = [5.0, 4.0, 3.0, 2.0, 1.0]
    journal = train(tmp_path, first=0, last=5, losses=losses, late=2, display=1)
    assert [fields["loss"] for fields in journal.of("progress")] == losses
