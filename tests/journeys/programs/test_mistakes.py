"""Mistakes that authors of actors make: each is reported in words, with the line of their code, and
none lets the run hang."""

from __future__ import annotations

import asyncio
import inspect
import logging
import sys
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import runtime
from runtime import (
    Actor,
    ActorSpec,
    Array,
    ConvoyError,
    Envelope,
    Message,
    Topology,
    message,
)

Body = Callable[[Actor], Awaitable[object]]


@message
class Job(Message):
    number: int


@message
class Rows(Message):
    values: Array
    more: tuple[Array, ...] = ()


class Undeclared(Message):
    number: int


class Helper(Actor):
    handle: Callable[[Actor, Envelope], Awaitable[object]]

    async def on_job(self, message: Job, envelope: Envelope) -> object:
        return await HANDLE[message.number](self, envelope)

    async def on_rows(self, message: Rows, envelope: Envelope) -> int:
        return len(message.values)


class Lead(Actor):
    def __init__(self, *, mistake: str) -> None:
        self._mistake = mistake

    async def run(self) -> None:
        mistake = MISTAKES.get(self._mistake) or globals()[self._mistake]
        self.emit("done", answer=await mistake(self))


class Stopping(Actor):
    """Notes its end, which fails if its name is "fails"."""

    async def on_stop(self) -> None:
        STOPPED.append(self.name)
        if self.name == "fails":
            await _cancelled()


STOPPED: list[str] = []
HANDLE: list[Callable[[Actor, Envelope], Awaitable[object]]] = []
MISTAKES: dict[str, Body] = {}
ROLES = {"lead": Lead, "helper": Helper, "stopping": Stopping}


async def tells_without_await(lead: Actor) -> None:
    lead.tell("helper", Job(number=0))  # type: ignore[unused-coroutine]
    await asyncio.get_running_loop().create_future()


async def drops_a_task(lead: Actor) -> None:
    async def fails() -> None:
        raise ValueError("in a task")

    asyncio.ensure_future(fails())  # noqa: RUF006
    await asyncio.get_running_loop().create_future()


async def emits_a_long_text(lead: Actor) -> None:
    lead.emit("seen", x="x" * 100_000)
    await asyncio.get_running_loop().create_future()


async def blocks(lead: Actor) -> None:
    threading.Event().wait()


IN_PROCESSES = {
    "tells_without_await": (
        'lead.tell("helper"',
        "coroutine 'Actor.tell' was never awaited: write `await` before the call",
    ),
    "drops_a_task": ('raise ValueError("in', ", in fails: ValueError: in a task (in a task that "),
    "emits_a_long_text": ("", "header of runtime.EventReport has 100"),
    "blocks": ("threading.Event()", ", in blocks; the last lines of"),
}


def handler(body: Callable[[Actor, Envelope], Awaitable[object]]) -> Job:
    """The message that makes the helper run `body` in its handler."""
    HANDLE.append(body)
    return Job(number=len(HANDLE) - 1)


def result_of(directory: Path, body: Body, processes: Any = "here") -> dict[str, Any]:
    MISTAKES[body.__name__] = body
    specs = (ActorSpec("lead", "lead", {"mistake": body.__name__}), ActorSpec("helper", "helper"))
    topology = Topology(__name__, specs, (("lead", "helper"),), "lead")
    return runtime.run(topology, directory=directory, processes=processes)


def error_of(directory: Path, body: Body) -> str:
    with pytest.raises(ConvoyError) as told:
        result_of(directory, body)
    return str(told.value)


def line_with(text: str) -> int:
    """The number of the line of the calling test that has this text."""
    frame = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    lines, first = inspect.getsourcelines(frame.f_back.f_code)
    return first + next(number for number, line in enumerate(lines) if text in line)


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        (object(), "event 'seen': x is object, expected None, bool"),
        (np.ones(3), r"event 'seen': x is an array: events carry its numbers, as a list"),
        ({"a": [{1: 2}]}, r"event 'seen': x['a'][0] is a dict with keys that are not str"),
        (1 << 70, "event 'seen': x is 1.181e+21, more than 64 bits hold"),
    ],
)
def test_an_event_with_a_field_that_cannot_travel_is_refused_where_it_is_emitted(
    tmp_path: Path, field: object, expected: str
) -> None:
    async def emits(lead: Actor) -> None:
        lead.emit("seen", x=field)  # here

    told = error_of(tmp_path, emits)
    assert f"test_mistakes.py:{line_with('# here')}, in emits: bad_type: {expected}" in told


def test_numbers_of_numpy_are_fields_of_events(tmp_path: Path) -> None:
    async def scores(lead: Actor) -> object:
        return {"loss": np.float32(0.5), "right": np.int64(3), "all": (np.bool_(1), np.float64(2))}

    answer = result_of(tmp_path, scores)["answer"]
    assert answer == {"loss": 0.5, "right": 3, "all": (True, 2.0)}
    assert [type(each) for each in (answer["loss"], answer["right"])] == [float, int]


def test_an_ask_without_await_is_named_where_its_coroutine_is_used(tmp_path: Path) -> None:
    async def forgets(lead: Actor) -> None:
        lead.emit("seen", x=lead.ask("helper", Job(number=0), int))

    told = error_of(tmp_path, forgets)
    assert "in forgets: bad_type: event 'seen': x is a coroutine: write `await`" in told

    async def passes_on(helper: Actor, envelope: Envelope) -> object:
        return [asyncio.get_running_loop().create_future()]

    job = handler(passes_on)

    async def asks(lead: Actor) -> object:
        return await lead.ask("helper", job, int)

    assert "value[0]: found Future: write `await` before the call" in error_of(tmp_path, asks)


def test_a_handler_that_ends_without_an_answer_is_refused_to_the_asker(tmp_path: Path) -> None:
    async def forgets(helper: Actor, envelope: Envelope) -> None: ...

    job = handler(forgets)

    async def asks(lead: Actor) -> object:
        return await lead.ask("helper", job, int)

    told = error_of(tmp_path, asks)
    _, line = inspect.getsourcelines(Helper.on_job)
    assert f"test_mistakes.py:{line}, in on_job: the handler ended without an answer" in told


def test_an_envelope_that_is_kept_can_be_answered_after_its_handler(tmp_path: Path) -> None:
    kept = []

    async def keeps(helper: Actor, envelope: Envelope) -> None:
        kept.append(envelope)
        asyncio.get_running_loop().call_soon(
            lambda: kept.append(asyncio.ensure_future(helper.reply(envelope, 5)))
        )

    job = handler(keeps)

    async def asks(lead: Actor) -> object:
        return await lead.ask("helper", job, int)

    assert result_of(tmp_path, asks) == {"answer": 5}


def test_a_second_reply_and_an_exception_after_a_reply_end_the_run_with_their_line(
    tmp_path: Path,
) -> None:
    async def twice(helper: Actor, envelope: Envelope) -> None:
        await helper.reply(envelope, 1)
        await helper.reply(envelope, 2)  # here

    async def fails(helper: Actor, envelope: Envelope) -> None:
        await helper.reply(envelope, 1)
        raise ValueError("too late for the asker")

    async def both(helper: Actor, envelope: Envelope) -> object:
        await helper.reply(envelope, 1)
        return 2

    jobs = [handler(body) for body in (twice, fails, both)]

    async def asks(lead: Actor) -> object:
        await lead.ask("helper", jobs.pop(0), int)
        return await asyncio.get_running_loop().create_future()

    told = error_of(tmp_path, asks)
    assert f"test_mistakes.py:{line_with('# here')}, in twice: answered: helper has already" in told
    assert "in fails: ValueError: too late for the asker" in error_of(tmp_path, asks)
    assert "helper has already answered Job(number=" in error_of(tmp_path, asks)


async def _cancelled() -> None:
    task = asyncio.ensure_future(asyncio.sleep(60))
    task.cancel()
    await task


def test_an_actor_that_awaits_a_cancelled_task_is_reported_with_its_line(tmp_path: Path) -> None:
    async def handles(helper: Actor, envelope: Envelope) -> None:
        await _cancelled()

    job = handler(handles)

    async def asks(lead: Actor) -> object:
        return await lead.ask("helper", job, int)

    async def tells(lead: Actor) -> object:
        await lead.tell("helper", job)
        return await asyncio.get_running_loop().create_future()

    async def runs(lead: Actor) -> object:
        return await _cancelled()

    for body in (asks, tells, runs):
        told = error_of(tmp_path, body)
        assert "test_mistakes.py:" in told
        assert "in _cancelled: CancelledError: a task or a future that it awaits was" in told


def test_an_end_that_awaits_a_cancelled_task_does_not_keep_other_actors_from_theirs(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def ends(lead: Actor) -> int:
        return 1

    MISTAKES["ends"] = ends
    names = ("fails", "last")
    specs = (
        ActorSpec("lead", "lead", {"mistake": "ends"}),
        *(ActorSpec(name, "stopping") for name in names),
    )
    topology = Topology(__name__, specs, tuple(("lead", name) for name in names), "lead")
    assert runtime.run(topology, directory=tmp_path, processes="here") == {"answer": 1}
    assert [*names] == STOPPED
    assert "fails: on_stop failed" in caplog.text


def test_an_error_in_a_task_group_of_a_handler_is_the_error_that_the_asker_sees(
    tmp_path: Path,
) -> None:
    async def fails() -> None:
        raise ValueError("in a group")

    async def groups(helper: Actor, envelope: Envelope) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(fails())

    job = handler(groups)

    async def asks(lead: Actor) -> object:
        return await lead.ask("helper", job, int)

    assert "in fails: ValueError: in a group" in error_of(tmp_path, asks)


def test_a_late_answer_to_an_asker_that_no_longer_waits_is_no_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    waits = asyncio.Event()

    async def slow(helper: Actor, envelope: Envelope) -> object:
        await waits.wait()
        return 1

    async def quick(helper: Actor, envelope: Envelope) -> object:
        return 2

    first, second = handler(slow), handler(quick)

    async def gives_up(lead: Actor) -> object:
        asking = asyncio.ensure_future(lead.ask("helper", first, int))
        await asyncio.sleep(0)
        asking.cancel()
        waits.set()
        return await lead.ask("helper", second, int)

    with caplog.at_level(logging.WARNING):
        assert result_of(tmp_path, gives_up) == {"answer": 2}
    assert caplog.records == []


def test_an_exit_in_an_actor_is_named_with_its_line(tmp_path: Path) -> None:
    async def leaves(lead: Actor) -> None:
        sys.exit("enough")

    told = error_of(tmp_path, leaves)
    assert f"test_mistakes.py:{line_with('sys.exit')}, in leaves: SystemExit: enough" in told


@pytest.mark.parametrize(
    ("sends", "expected"),
    [
        (lambda lead: lead.ask(Job(number=1), "helper", int), "found 'helper', expected a message"),
        (
            lambda lead: lead.ask("helper", Job(number=1), Job(number=2)),
            "found Job(number=2) as the class of the answer, expected a class of messages",
        ),
        (
            lambda lead: lead.ask("helper", Job(number=1), list[int]),
            "found list[int] as the class of the answer",
        ),
        (
            lambda lead: lead.reply(Job(number=1), 5),  # type: ignore[arg-type]
            "reply(envelope, answer): found Job(number=1), expected the envelope of the ask",
        ),
        (lambda lead: lead.tell("helper", Job), "found the class Job, expected an object of it"),
        (lambda lead: lead.tell("helper", Job(number="3")), "Job.number is '3', expected int"),
        (
            lambda lead: lead.tell("helper", Rows(values=[1, 2])),  # type: ignore[arg-type]
            "Rows.values is a list, expected a NumPy array",
        ),
        (
            lambda lead: lead.tell("helper", Rows(values=np.ones(2), more=np.ones((2, 2)))),  # type: ignore[arg-type]
            "Rows.more is a ndarray, expected a tuple of arrays",
        ),
        (
            lambda lead: lead.tell("helper", Undeclared(number=1)),  # type: ignore[call-arg]
            "Undeclared cannot be sent yet: write @message above `class Undeclared`",
        ),
        (lambda lead: lead.compute(pow, 2, 3), "found <built-in function pow> as the label"),
        (lambda lead: lead.compute("power", pow(2, 3)), "8 as the function; give a str and a"),
    ],
)
def test_what_is_sent_or_computed_in_a_wrong_form_is_named(
    tmp_path: Path, sends: Any, expected: str
) -> None:
    async def wrong(lead: Actor) -> None:
        await sends(lead)

    assert expected in error_of(tmp_path, wrong)


def test_methods_of_an_actors_life_must_be_coroutines() -> None:
    with pytest.raises(TypeError, match=r"Plain\.run: write `async def run\(self\)`$"):

        class Plain(Actor):
            def run(self) -> None: ...  # type: ignore[override]

    with pytest.raises(TypeError, match=r"Yields\.on_stop: .* without `yield`; a handler returns"):

        class Yields(Actor):
            async def on_stop(self) -> Any:
                yield 3


def test_a_handler_of_a_class_without_the_decorator_is_refused() -> None:
    with pytest.raises(TypeError, match="on_undeclared: Undeclared cannot be sent yet: write @mes"):

        class Takes(Actor):
            async def on_undeclared(self, message: Undeclared, envelope: Envelope) -> None: ...


def test_an_actor_cannot_use_the_runtime_in_its_constructor() -> None:
    class Early(Actor):
        def __init__(self) -> None:
            self.counter("jobs", "Jobs.")

    with pytest.raises(
        AttributeError, match="Early cannot send, measure, compute or report in __i"
    ):
        Early()


@pytest.mark.few("[tells_without_await]")
@pytest.mark.parametrize("name", IN_PROCESSES)
def test_a_mistake_that_python_hardly_reports_ends_a_run_of_processes_with_its_line(
    tmp_path: Path, name: str
) -> None:
    line, expected = IN_PROCESSES[name]
    with pytest.raises(ConvoyError) as ended:
        result_of(tmp_path, globals()[name], processes="one-per-actor")
    told = str(ended.value)
    assert expected in told
    lines = Path(__file__).read_text().splitlines()
    number = next(number for number, text in enumerate(lines, 1) if line in text)
    assert f"test_mistakes.py:{number}" in told or not line
