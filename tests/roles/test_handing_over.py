"""A run that is handed over ends at its checkpoint. A handover that is impossible is refused in
words, and the run goes on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from roles.coordination.handing_over import HandingOver
from roles.coordination.schedule import NetTest, RunStage, Schedule, Timetable
from roles.messages import TRAIN
from runtime import Envelope, HandedOver, HandOver, Message, MessageError
from runtime.messages.message import Refusal

ASKED = Envelope(HandOver(), 1, "supervisor", 1, "coordinator", reply_to="supervisor")


@dataclass
class Around:
    """The surroundings of the handover: the answers, the probing, the checkpoints."""

    quiet: bool = True
    last: str = "checkpoint-0000001.safetensors"
    unsaved: str = ""
    said: list[Message] = field(default_factory=list)

    async def reply(self, envelope: Envelope, message: Message) -> None:
        assert envelope is ASKED
        self.said.append(message)

    async def written(self) -> None:
        """The checkpoint is written at once."""


def handing(
    schedule: Schedule, *, emulated: bool = False, **around: Any
) -> tuple[HandingOver, Around]:
    these = Around(**around)
    return HandingOver(these, schedule, these, these, emulated=emulated), these  # type: ignore[arg-type]


def trained(last: int = 10) -> Schedule:
    """A schedule with one iteration in progress."""
    schedule = Schedule(Timetable(last=last, batch=8, test_interval=2, tests=(NetTest(4, 4),)))
    assert schedule.next_pass(1) == (TRAIN, 0, 8, 1, 0, 0)
    return schedule


async def test_a_run_ends_where_it_was_saved_and_hands_out_nothing_more() -> None:
    schedule = trained()
    handing_over, around = handing(schedule)
    handing_over.hear(ASKED)
    assert schedule.next_pass(1) is None, "the iteration in progress must end first"
    assert schedule.reported(0) and schedule.stage is RunStage.SAVING
    await handing_over.saved()
    schedule.saved()
    assert (schedule.stage, schedule.completed, schedule.images) == (RunStage.DONE, 1, 8)
    assert schedule.next_pass(1) is None and handing_over.done
    (answer,) = around.said
    assert isinstance(answer, HandedOver) and (answer.file, answer.at) == (
        around.last,
        "iteration 1",
    )


async def test_a_run_whose_checkpoint_cannot_be_written_goes_on() -> None:
    schedule = trained()
    handing_over, around = handing(
        schedule, unsaved=("checkpoint-0000001.safetensors: No space left on device")
    )
    handing_over.hear(ASKED)
    schedule.reported(0)
    await handing_over.saved()
    schedule.saved()
    assert schedule.stage is RunStage.TRAINING and not handing_over.done
    (answer,) = around.said
    assert (
        isinstance(answer, Refusal)
        and ("No space left on device; training goes on") in answer.error
    )


async def test_a_run_that_reaches_its_end_meanwhile_ends_as_usual() -> None:
    schedule = trained(last=1)
    handing_over, around = handing(schedule)
    handing_over.hear(ASKED)
    schedule.reported(0)
    assert schedule.stage is RunStage.TESTING
    schedule.next_pass(1)
    schedule.tested()
    await handing_over.saved()
    schedule.saved()
    assert schedule.stage is RunStage.DONE and not handing_over.done
    (answer,) = around.said
    assert isinstance(answer, Refusal) and answer.error == "the training is at its end"


def test_a_run_that_cannot_be_handed_over_now_refuses_at_once() -> None:
    with pytest.raises(
        MessageError, match="the tuner tries settings, or watches the one that it chose"
    ):
        handing(trained(), quiet=False)[0].hear(ASKED)
    with pytest.raises(MessageError, match="there is no model"):
        handing(trained(), emulated=True)[0].hear(ASKED)
    ending = trained()
    ending.wind_down()
    with pytest.raises(MessageError, match="the run ends"):
        handing(ending)[0].hear(ASKED)
    twice = handing(trained())[0]
    twice.hear(ASKED)
    with pytest.raises(MessageError, match="being handed over already"):
        twice.hear(ASKED)


async def test_a_request_that_arrives_while_the_best_model_is_saved_waits_for_a_checkpoint() -> (
    None
):
    schedule = trained()
    schedule.reported(0)
    schedule.next_pass(1)
    schedule.reported(1)
    schedule.next_pass(1)
    schedule.tested()
    schedule.save_best()
    handing_over, around = handing(schedule)
    handing_over.hear(ASKED)
    await handing_over.saved()
    schedule.saved()
    assert around.said == [] and schedule.stage is RunStage.SAVING and schedule.to_be_saved
    await handing_over.saved()
    schedule.saved()
    assert handing_over.done and schedule.stage is RunStage.DONE
