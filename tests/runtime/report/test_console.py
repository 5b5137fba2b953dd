"""The output for a person: plain lines in a pipe, a table on a terminal."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from runtime.report.console import RunConsole, describe
from tests.helpers.beats import beat, status


def console(*, terminal: bool = False) -> Console:
    return Console(
        file=io.StringIO(), force_terminal=terminal, width=120, highlight=False, soft_wrap=True
    )


def output(shown: RunConsole) -> str:
    file = shown.console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue()


def table_text(shown: RunConsole) -> str:
    """The lines that are not blank."""
    plain = console()
    plain.print(shown.table())
    assert isinstance(plain.file, io.StringIO)
    return "\n".join(line for line in plain.file.getvalue().splitlines() if line.strip())


def test_in_a_pipe_every_event_is_one_plain_line() -> None:
    shown = RunConsole(console())
    shown.say("run directory runs/x")
    shown.event(
        "coordinator",
        "progress",
        {"iteration": 100, "max_iter": 400, "loss": 0.123456, "images_per_second": 123456.7},
    )
    shown.event("coordinator", "began", {"processes": 6})
    shown.event("coordinator", "empty", {})
    shown.close()
    assert output(shown).splitlines() == [
        "run directory runs/x",
        "progress   iteration 100/400  loss 0.1235  images/s 123457",
        "began      processes 6",
        "empty",
    ]


def test_a_lost_link_is_not_shown_because_an_exit_or_a_silence_will_explain_it() -> None:
    shown = RunConsole(console())
    shown.event("supervisor", "link lost", {"process": "p"})
    assert output(shown) == ""


def test_brackets_in_a_line_are_shown_as_they_are() -> None:
    shown = RunConsole(console())
    shown.say("[bold]no markup[/bold] [/] [red]")
    assert output(shown) == "[bold]no markup[/bold] [/] [red]\n"


def test_a_long_line_is_not_broken() -> None:
    shown = RunConsole(console())
    shown.say("x" * 500)
    assert output(shown) == "x" * 500 + "\n"


def test_the_table_shows_each_actor_its_work_and_the_actor_it_waits_for() -> None:
    shown = RunConsole(console(), live=False)
    shown.event("coordinator", "progress", {"iteration": "5/10"})
    shown.beat(
        "p1",
        beat(
            "p1",
            worker=status(waiting_for="server", handled=7),
            server=status(doing="fc forward", inbox=3),
        ),
    )
    shown.beat("p1", beat("p1", worker=status(waiting_for="model", handled=8)))
    head, titles, server, worker = table_text(shown).splitlines()
    assert head.split()[:3] == ["iteration", "5/10", "(50%)"]
    assert titles.split() == ["actor", "process", "doing", "waits", "for", "handled", "inbox"]
    assert server.split() == ["server", "p1", "fc", "forward", "0", "3"]
    assert worker.split() == ["worker", "p1", "idle", "model", "8", "0"]


def test_a_prediction_stands_under_the_headline_and_is_not_a_line() -> None:
    shown = RunConsole(console(), live=False)
    shown.event("coordinator", "progress", {"iteration": "5/10"})
    for seconds in (11, 12):
        shown.event(
            "supervisor",
            "prediction",
            {"text": f"predicted {seconds} ms", "predicted_seconds": seconds / 1000},
        )
    head, below, *_ = table_text(shown).splitlines()
    assert (head.split()[:2], below) == (["iteration", "5/10"], "predicted 12 ms")
    assert "predicted" not in output(shown)


def test_brackets_in_names_and_labels_are_shown_as_they_are() -> None:
    shown = RunConsole(console(), live=False)
    shown.beat(
        "p1", beat("p1", **{"worker[a]": status(doing="[/] update [conv1]", waiting_for="[red]x")})
    )
    assert table_text(shown).splitlines()[-1].split() == [
        "worker[a]", "p1", "[/]", "update", "[conv1]", "[red]x", "0", "0",
    ]  # fmt: skip


def test_on_a_terminal_progress_is_in_the_table_and_everything_else_is_a_line_above_it() -> None:
    shown = RunConsole(console(terminal=True))
    shown.event("coordinator", "progress", {"iteration": "7/10"})
    shown.event("coordinator", "checkpoint", {"file": "c.safetensors"})
    shown.close()
    shown.close()
    text = output(shown)
    assert "checkpoint file c.safetensors" in text
    assert "iteration 7/10" in text
    assert "progress" not in text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.23456, "1.235"),
        (123456.7, "123457"),
        (0.0, "0"),
        (1e-9, "1e-09"),
        (float("nan"), "nan"),
        (7, "7"),
        ("a", "a"),
    ],
)
def test_values_are_short(value: object, text: str) -> None:
    assert describe({"k": value}) == f"k {text}"


def test_the_table_shows_the_shares_of_the_last_beat_that_an_actor_waited_for_others() -> None:
    shown = RunConsole(Console(file=io.StringIO(), width=120), live=False)
    shown.beat("p1", beat("p1", worker=status(waited={"model": 4.0, "fc": 1.0})))
    shown.beat(
        "p1", beat("p1", worker=status(waiting_for="model", waited={"model": 4.1, "fc": 1.3}))
    )
    out = Console(file=io.StringIO(), width=120)
    out.print(shown.table())
    assert "fc 60%, model 20%" in out.file.getvalue()  # type: ignore[attr-defined]


def test_a_warning_that_several_processes_give_is_one_line_and_names_the_first() -> None:
    shown = RunConsole(console())
    for process in ("p1", "p2"):
        shown.event(process, "warning", {"text": "no kernels here"})
    shown.event("p2", "warning", {"text": "another"})
    assert output(shown) == "warning    p1: no kernels here\nwarning    p2: another\n"


def preparing(process: str, done: int, what: str = "compiling kernels") -> dict[str, object]:
    return {"process": process, "what": what, "done": done, "total": 10}


def test_in_a_pipe_each_phase_of_the_preparation_is_one_line_and_with_verbose_each_step() -> None:
    steps = [preparing(process, done) for done in range(5) for process in ("conv-0", "conv-1")]
    steps += [preparing("fc_server", 1, "reading data")]
    for verbose, lines in ((False, 2), (True, 11)):
        shown = RunConsole(console(), verbose=verbose)
        for fields in steps:
            shown.event("supervisor", "preparing", dict(fields))
        shown.close()
        told = output(shown).splitlines()
        assert len(told) == lines
        assert told[0].startswith("preparing  ") and "compiling kernels" in told[0]
        shown.expect({}, lambda: 0.0)  # the run that follows prepares, too
        shown.event("supervisor", "preparing", preparing("conv-0", 1))
        assert len(output(shown).splitlines()) == lines + 1


def test_exposed_seconds_are_shown_with_verbose_only() -> None:
    fields = {"iteration": 5, "max_iter": 10, "loss": 0.5, "exposed_seconds": 0.01}
    for verbose in (False, True):
        shown = RunConsole(console(), verbose=verbose)
        shown.event("coordinator", "progress", fields)
        assert ("exposed s 0.01" in output(shown)) is verbose
        assert ("exposed s 0.01" in table_text(shown)) is verbose


def test_a_prediction_that_agrees_with_the_measurement_is_shown_with_verbose_only() -> None:
    for measured, agrees in ((0.012, True), (0.0151, False), (0.0079, False)):
        told = {"text": "predicted", "predicted_seconds": 0.010, "measured_seconds": measured}
        for verbose in (False, True):
            shown = RunConsole(console(), live=False, verbose=verbose)
            shown.event("coordinator", "progress", {"iteration": 5})
            shown.event("supervisor", "prediction", told)
            assert ("predicted" in table_text(shown)) is (verbose or not agrees)


def test_a_table_in_a_field_is_named_by_its_size() -> None:
    assert describe({"versions": {"a": "1", "b": "2"}, "pid": 7}) == "versions (2 values)  pid 7"
